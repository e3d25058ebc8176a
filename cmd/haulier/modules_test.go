package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haulier/haulier"
)

// TestModules carries out the examples of docs/executors.md.
func TestModules(t *testing.T) {
	module := filepath.Join(t.TempDir(), "count.wasm")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", module, "./testdata/count")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Setenv(programVariable, "1")
	env := home(t)
	b := start(t, env, nil, "dev", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data"))
	env["HAULIER_URL"] = readyAt.FindStringSubmatch(b.await("Stop with Ctrl-C."))[1]
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"words.txt": "one two\nthree\n", "texts/a": "a b c", "texts/b": "\nd e"} {
		os.MkdirAll(filepath.Dir(name), 0o755)
		os.WriteFile(name, []byte(text), 0o644)
	}
	said := func(args ...string) string {
		t.Helper()
		r := do(t, env, nil, args...)
		r.expect(t, 0)
		return strings.TrimSpace(r.out)
	}
	said("filesets", "push", "texts", "texts")
	address, input := said("blobs", "put", module), said("blobs", "put", "words.txt")
	for _, c := range []struct {
		want string
		args []string
	}{
		{"2", []string{"--stdin", input, "--", "--per", "line"}},
		{"3", []string{"--payload", "one two three"}},
		{"5", []string{"--input", "texts=in", "--save", "totals=*.txt", "--", "--folder", "in"}},
	} {
		id := said(append([]string{"enqueue", "count", "--wasi", address}, c.args...)...)
		said("jobs", "wait", id)
		var got struct{ Jobs []haulier.Job }
		if err := json.Unmarshal([]byte(said("jobs", "get", id, "--output", "json")), &got); err != nil || len(got.Jobs) != 1 {
			t.Fatal(err, got)
		}
		job := &got.Jobs[0]
		if all := said("blobs", "get", job.ResultBlob); string(job.Result) != c.want || all != c.want {
			t.Errorf("%v: %q and %q, want %q", c.args, job.Result, all, c.want)
		}
		do(t, env, nil, "jobs", "logs", id).expect(t, 0, "count counts")
	}
	said("filesets", "pull", "totals", "results")
	if got, err := os.ReadFile("results/total.txt"); string(got) != "5" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	do(t, env, nil, "enqueue", "count", "--wasi", strings.Repeat("0", 64)).expect(t, 1, "haulier blobs put")
}
