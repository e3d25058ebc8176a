package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWorkflows carries out the example of docs/workflows.md, as it stands there.
func TestWorkflows(t *testing.T) {
	t.Setenv(programVariable, "1")
	env := home(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "build.yaml")
	doc, err := os.ReadFile("../../docs/workflows.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(doc), "    # build.yaml\n")
	text, _, _ = strings.Cut(text, "\n\n")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "\n    ", "\n")[4:]), 0o600); err != nil {
		t.Fatal(err)
	}
	do(t, env, nil, "workflows", "check", file).expect(t, 0)
	do(t, env, nil, "workflows", "graph", file).expect(t, 0, "compile", "publish")

	b := start(t, env, nil, "dev", "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "data"))
	env["HAULIER_URL"] = readyAt.FindStringSubmatch(b.await("Stop with Ctrl-C."))[1]
	do(t, env, nil, "workflows", "apply", file).expect(t, 0, "build: version 1")
	do(t, env, nil, "workflows", "apply", file).expect(t, 0, "build: version 1")
	do(t, env, nil, "workflows", "start", "build", "--wait").expect(t, 0, "build-1")
	do(t, env, nil, "workflows", "run", "build-1").expect(t, 0, "succeeded", "✓ compile", "test[os:mac]")
	do(t, env, nil, "workflows", "graph", "build-1", "--svg").expect(t, 0, "<svg")
	do(t, env, nil, "workflows", "graph", "build").expect(t, 0, "publish")
	do(t, env, nil, "post", "pushed").expect(t, 0)
	for !strings.Contains(do(t, env, nil, "workflows", "runs", "build").out, "build-2") {
		if t.Context().Err() != nil {
			t.Fatal("the event starts nothing")
		}
	}
	do(t, env, nil, "workflows", "list").expect(t, 0, "build", "pushed")
	do(t, env, nil, "workflows", "get", "build").expect(t, 0, "parallel: [lint, test]")
	do(t, env, nil, "workflows", "rm", "build").expect(t, 0)

	broken := filepath.Join(dir, "broken.yaml")
	if err := os.WriteFile(broken, []byte("workflow:\n  - a\n  - a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := do(t, env, nil, "workflows", "apply", broken); r.code == 0 || !strings.Contains(r.errs, "broken.yaml:3:") {
		t.Errorf("a broken file: %+v", r)
	}
}
