package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFilesets carries out the examples of docs/filesets.md.
func TestFilesets(t *testing.T) {
	t.Setenv(programVariable, "1")
	env := home(t)
	b := start(t, env, nil, "dev", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data"))
	env["HAULIER_URL"] = readyAt.FindStringSubmatch(b.await("Stop with Ctrl-C."))[1]
	t.Chdir(t.TempDir())
	write := func(name, content string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("data/a.dat", "12345")
	write("data/b.dat", "678")
	write("data/notes", "not sent")
	t.Run("are pushed, given to a job, and made by it", func(t *testing.T) {
		do(t, env, nil, "filesets", "push", "./data", "samples", "--pattern", "**/*.dat").expect(t, 0, "samples@1")
		do(t, env, nil, "run", "--input", "samples=in", "--save", "totals=*.txt", "--", "sh", "-c", "cat in/*.dat | wc -c >total.txt").expect(t, 0)
		do(t, env, nil, "filesets", "pull", "totals", "results").expect(t, 0)
		if got, err := os.ReadFile("results/total.txt"); err != nil || strings.TrimSpace(string(got)) != "8" {
			t.Errorf("total.txt is %q, %v", got, err)
		}
		do(t, env, nil, "filesets", "list").expect(t, 0, "samples@1", "totals@1")
		do(t, env, nil, "filesets", "files", "samples").expect(t, 0, "a.dat", "b.dat")
	})
	t.Run("differ by version", func(t *testing.T) {
		write("data/a.dat", "changed")
		write("data/c/c.dat", "new")
		if err := os.Remove("data/b.dat"); err != nil {
			t.Fatal(err)
		}
		do(t, env, nil, "filesets", "push", "./data", "samples", "--pattern", "**/*.dat").expect(t, 0, "samples@2")
		res := do(t, env, nil, "filesets", "diff", "samples@1", "samples@2")
		if want := "~ a.dat\n- b.dat\n+ c/c.dat\n"; res.code != 0 || res.out != want {
			t.Errorf("diff: %q, want %q", res.out, want)
		}
	})
	t.Run("of a workflow go from job to job", func(t *testing.T) {
		write("pack.yaml", `name: pack
workflow: [build, test]
jobs:
  build: {task: "mkdir bin && echo built >bin/tool && echo rest >spare", outputs: {fileset: dist, patterns: [bin/*], keep: 20}}
  test:  {task: "cat bin/* && ls", inputs: {from: build}, outputs: report}
`)
		do(t, env, nil, "workflows", "apply", "pack.yaml").expect(t, 0)
		do(t, env, nil, "workflows", "start", "pack", "--wait").expect(t, 0)
		do(t, env, nil, "filesets", "files", "dist").expect(t, 0, "bin/tool")
		do(t, env, nil, "filesets", "files", "report").expect(t, 0, "bin/tool")
	})
	t.Run("are removed", func(t *testing.T) {
		do(t, env, nil, "filesets", "rm", "samples").expect(t, 2, "--all")
		do(t, env, nil, "filesets", "rm", "samples", "--all").expect(t, 0)
		do(t, env, nil, "filesets", "pull", "samples").expect(t, 1, "not found")
		do(t, env, nil, "run", "--input", "samples", "--", "true").expect(t, 1, "fileset samples: not found")
	})
	t.Run("blobs are read by address, with HTTP too", func(t *testing.T) {
		addr := strings.TrimSpace(do(t, env, strings.NewReader("hello"), "blobs", "put", "-").out)
		if got := do(t, env, nil, "blobs", "get", addr); got.out != "hello" {
			t.Errorf("got %q", got.out)
		}
		do(t, env, nil, "blobs", "stat", addr).expect(t, 0, "5 B")
		do(t, env, nil, "blobs", "get", addr, "--file", "copy").expect(t, 0)
		if got, err := os.ReadFile("copy"); err != nil || string(got) != "hello" {
			t.Errorf("copy is %q, %v", got, err)
		}
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, env["HAULIER_URL"]+"/v1/filesets/totals", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var problem struct{ Code string }
		if err := json.NewDecoder(res.Body).Decode(&problem); err != nil || problem.Code != "unauthenticated" {
			t.Errorf("without a token: %+v, %v", problem, err)
		}
	})
}
