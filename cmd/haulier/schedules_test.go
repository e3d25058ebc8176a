package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestSchedules carries out the example of docs/schedules.md.
func TestSchedules(t *testing.T) {
	t.Setenv(programVariable, "1")
	env := home(t)
	b := start(t, env, nil, "dev", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data"))
	env["HAULIER_URL"] = readyAt.FindStringSubmatch(b.await("Stop with Ctrl-C."))[1]
	do(t, env, nil, "schedules", "set", "hello", "--cron", "@every 1s", "--", "echo", "hello").expect(t, 0, "hello starts next")
	for !strings.Contains(do(t, env, nil, "jobs", "list", "--label", "schedule=hello").out, "succeeded") {
		if t.Context().Err() != nil {
			t.Fatal("nothing is started")
		}
	}
	do(t, env, nil, "schedules", "pause", "hello").expect(t, 0)
	do(t, env, nil, "schedules", "list").expect(t, 0, "@every 1s", "paused", "succeeded")
	do(t, env, nil, "schedules", "get", "hello").expect(t, 0, `"cron": "@every 1s"`, `"echo"`)
	id := strings.TrimSpace(do(t, env, nil, "schedules", "run", "hello").out)
	do(t, env, nil, "jobs", "wait", id).expect(t, 0)
	do(t, env, nil, "schedules", "rm", "hello").expect(t, 0)
	do(t, env, nil, "schedules", "list").expect(t, 0, "No schedules")
	do(t, env, nil, "schedules", "next", "0 0 29 2 *", "--number", "1").expect(t, 0, "02-29T00:00:00Z")
	if r := do(t, env, nil, "schedules", "set", "never", "--cron", "0 0 30 2 *", "--", "true"); r.code == 0 || !strings.Contains(r.errs, "never fires") {
		t.Errorf("30 February: %+v", r)
	}
}
