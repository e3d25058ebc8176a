package main

import (
	"path/filepath"
	"testing"
)

// TestCommandLimits carries out the example of docs/executors.md.
func TestCommandLimits(t *testing.T) {
	t.Setenv(programVariable, "1")
	env := home(t)
	b := start(t, env, nil, "dev", "--executors", "http", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data"))
	env["HAULIER_URL"] = readyAt.FindStringSubmatch(b.await("Stop with Ctrl-C."))[1]
	w := start(t, env, nil, "worker", "--name", "tight", "--executors", "exec", "--private-tmp", "--max-open-files", "64")
	w.await("session opened")
	do(t, env, nil, "run", "--max-memory", "512MiB", "--max-cpu", "1m", "--max-file-size", "1MiB", "--", "sh", "-c", "ulimit -n").expect(t, 0, "64")
	do(t, env, nil, "run", "--", "sh", "-c", `case $TMPDIR in */jobs/*) touch "$TMPDIR/x" && echo private; esac`).expect(t, 0, "private")
	do(t, env, nil, "run", "--max-file-size", "1KiB", "--", "sh", "-c", "head -c 1M /dev/zero >big").expect(t, 153, "File size limit exceeded")
	do(t, env, nil, "run", "--max-cpu", "100ms", "--", "true").expect(t, 1, "task.exec.limits.cpu")
	do(t, env, nil, "worker", "--executors", "exec,script", "--sandbox").expect(t, 2, "run script in a worker of its own")
}
