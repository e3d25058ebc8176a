package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestWindows carries out the example of docs/windows.md.
func TestWindows(t *testing.T) {
	t.Setenv(programVariable, "1")
	env := home(t)
	b := start(t, env, nil, "dev", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data"))
	env["HAULIER_URL"] = readyAt.FindStringSubmatch(b.await("Stop with Ctrl-C."))[1]
	do(t, env, nil, "windows", "set", "always", "--freeze", "2000-01-01/2099-12-31", "--queue", "frozen").expect(t, 0, "always is closed until 2100-01-01")
	id := strings.TrimSpace(do(t, env, nil, "run", "--queue", "frozen", "--detach", "--", "echo", "thawed").out)
	for !strings.Contains(do(t, env, nil, "jobs", "why", id).out, "window always is closed until 2100-01-01") {
		if t.Context().Err() != nil {
			t.Fatal("it is not frozen")
		}
	}
	do(t, env, nil, "windows", "list").expect(t, 0, "always", "closed", "queue frozen")
	do(t, env, nil, "jobs", "force", id).expect(t, 0)
	do(t, env, nil, "jobs", "wait", id).expect(t, 0)
	do(t, env, nil, "jobs", "logs", id).expect(t, 0, "thawed")
	do(t, env, nil, "run", "--queue", "frozen", "--force", "--", "echo", "at once").expect(t, 0, "at once")
	do(t, env, nil, "windows", "rm", "always").expect(t, 0)
	do(t, env, nil, "run", "--queue", "frozen", "--", "echo", "open").expect(t, 0, "open")
	if r := do(t, env, nil, "windows", "set", "never", "--freeze", "mon-sun"); r.code == 0 || !strings.Contains(r.errs, "no time at which a job may start") {
		t.Errorf("a window that never opens: %+v", r)
	}
}
