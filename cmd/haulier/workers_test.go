package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestWorkerFacts carries out the example of docs/workers.md.
func TestWorkerFacts(t *testing.T) {
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
	r = do(t, env, nil, "run", "--detach", "--runs-on", "gpu=true", "--", "sh", "-c", "echo begun; exec sleep 600")
	r.expect(t, 0)
	held := strings.TrimSpace(r.out)
	follow := start(t, env, nil, "jobs", "logs", "--follow", held)
	follow.await("begun")
	do(t, env, nil, "workers", "get", "trainer").expect(t, 0, "gpu=true", "arch=", "processors ", "holds     "+held+" exec, running")
	do(t, env, nil, "jobs", "cancel", held).expect(t, 0)
	do(t, env, nil, "run", "--runs-on", "gpu", "--", "true").expect(t, 2)
}
