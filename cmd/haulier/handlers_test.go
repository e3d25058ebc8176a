package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// documented is a script that a page of docs shows: the indented lines below its name in a comment.
func documented(t *testing.T, page, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs", page))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^    (?://|#) ` + regexp.QuoteMeta(name) + "\n((?:    .*\n)+)").FindSubmatch(text)
	if m == nil {
		t.Fatalf("docs/%s has no %s", page, name)
	}
	return strings.ReplaceAll(string(m[1]), "\n    ", "\n")[4:]
}

// TestHandlers carries out the example of docs/handlers.md.
func TestHandlers(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("node is not on this machine: the example of docs/handlers.md is not carried out")
	}
	t.Setenv(programVariable, "1")
	env := home(t)
	files := map[string]string{"thumbnail.js": documented(t, "handlers.md", "thumbnail.js"), "announce.sh": documented(t, "handlers.md", "announce.sh"),
		"other.js": "module.exports = () => 404"}
	b := start(t, env, nil, "dev", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data"))
	env["HAULIER_URL"] = readyAt.FindStringSubmatch(b.await("Stop with Ctrl-C."))[1]
	t.Chdir(t.TempDir())
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	job := strings.TrimSpace(do(t, env, nil, "enqueue", "thumbnail", "--script", "--payload", `{"picture":"cat.png"}`).out)
	do(t, env, nil, "jobs", "why", job).expect(t, 0, "type thumbnail has no handler")
	if r := do(t, env, nil, "handlers", "list"); !regexp.MustCompile(`(?m)^thumbnail +none +1$`).MatchString(r.out) {
		t.Errorf("handlers list: %+v", r)
	}
	do(t, env, nil, "handlers", "set", "thumbnail", "--lang", "node", "--file", "thumbnail.js").expect(t, 0, "thumbnail: version 1")
	do(t, env, nil, "jobs", "wait", job).expect(t, 0)
	do(t, env, nil, "jobs", "get", job).expect(t, 0, `{"thumbnail":"cat.png.small"}`)
	do(t, env, nil, "handlers", "set", "announce", "--lang", "sh", "--file", "announce.sh").expect(t, 0, "announce: version 1")
	child := do(t, env, nil, "--output", "json", "jobs", "list", "--type", "announce")
	id := regexp.MustCompile(`"id": ?"([^"]+)"`).FindStringSubmatch(child.out)
	if id == nil {
		t.Fatalf("no job announce: %+v", child)
	}
	do(t, env, nil, "jobs", "wait", id[1]).expect(t, 0)
	do(t, env, nil, "jobs", "logs", id[1]).expect(t, 0, "there is a thumbnail of cat.png")

	do(t, env, nil, "handlers", "set", "thumbnail", "--lang", "node", "--file", "other.js").expect(t, 0, "version 2")
	second := strings.TrimSpace(do(t, env, nil, "enqueue", "thumbnail", "--script", "--payload", "{}").out)
	do(t, env, nil, "jobs", "wait", second).expect(t, 1)
	do(t, env, nil, "jobs", "get", second).expect(t, 0, "failed, code 404")
	do(t, env, nil, "handlers", "rollback", "thumbnail").expect(t, 0, "version 3")
	do(t, env, nil, "handlers", "get", "thumbnail").expect(t, 0, files["thumbnail.js"])
	third := strings.TrimSpace(do(t, env, nil, "enqueue", "thumbnail", "--script", "--payload", "{}").out)
	do(t, env, nil, "jobs", "wait", third).expect(t, 1)
	do(t, env, nil, "jobs", "get", third).expect(t, 0, "no picture")
	if r := do(t, env, nil, "handlers", "versions", "thumbnail"); strings.Count(r.out, "node") != 3 {
		t.Errorf("versions: %+v", r)
	}
	do(t, env, nil, "handlers", "set", "thumbnail", "--lang", "node").expect(t, 2, "--file")
	do(t, env, nil, "handlers", "remove", "thumbnail").expect(t, 0, "1 handler removed")
	do(t, env, nil, "handlers", "get", "thumbnail").expect(t, 1, "not found")
	do(t, env, nil, "dev", "--listen", "127.0.0.1:0", "--language", "php").expect(t, 2, "--language")
	b.interrupt()
	if code := b.exit(); code != 0 {
		said, _ := b.said()
		t.Errorf("exit code %d:\n%s", code, said)
	}
}
