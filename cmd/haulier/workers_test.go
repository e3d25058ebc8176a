package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestWorkerLabels carries out the example of docs/workers.md.
func TestWorkerLabels(t *testing.T) {
	t.Setenv(programVariable, "1")
	env := home(t)
	b := start(t, env, nil, "dev", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data"))
	env["HAULIER_URL"] = readyAt.FindStringSubmatch(b.await("Stop with Ctrl-C."))[1]
	r := do(t, env, nil, "run", "--detach", "--runs-on", "gpu=true", "--", "echo", "trained")
	r.expect(t, 0)
	id := strings.TrimSpace(r.out)
	do(t, env, nil, "run", "--", "echo", "plain").expect(t, 0, "plain")
	do(t, env, nil, "jobs", "why", id).expect(t, 0, "no worker has label gpu=true")
	trainer := start(t, env, nil, "worker", "--name", "trainer", "--label", "gpu=true")
	trainer.await("session opened")
	do(t, env, nil, "jobs", "wait", id).expect(t, 0)
	do(t, env, nil, "jobs", "get", id).expect(t, 0, "trainer", "on gpu=true")
	do(t, env, nil, "workers", "get", "trainer").expect(t, 0, "gpu=true", "arch=")
	do(t, env, nil, "run", "--runs-on", "gpu", "--", "true").expect(t, 2)
}
