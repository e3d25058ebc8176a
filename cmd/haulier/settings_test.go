package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haulier/haulier/client"
)

func TestFlagsGoBeforeTheEnvironmentAndThatBeforeTheFile(t *testing.T) {
	env := home(t)
	write := func(text string) {
		t.Helper()
		dir := filepath.Join(env["XDG_CONFIG_HOME"], "haulier")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	asked := func(args ...string) string { // the URL at which a server was looked for
		t.Helper()
		r := do(t, env, strings.NewReader(""), append([]string{"jobs", "list"}, args...)...)
		_, rest, _ := strings.Cut(r.errs, "no server at ")
		url, _, _ := strings.Cut(rest, ": start")
		return url
	}
	if got := asked(); got != client.DefaultURL {
		t.Skipf("a server runs at %s; this test is about there being none (%q)", client.DefaultURL, got)
	}
	write("# where it is\nurl: http://127.0.0.1:1 # there\n")
	if got := asked(); got != "http://127.0.0.1:1" {
		t.Errorf("with a file it asked %q", got)
	}
	env["HAULIER_URL"] = "http://127.0.0.1:2"
	if got := asked(); got != "http://127.0.0.1:2" {
		t.Errorf("with file and environment it asked %q", got)
	}
	if got := asked("--url", "http://127.0.0.1:3"); got != "http://127.0.0.1:3" {
		t.Errorf("with all three it asked %q", got)
	}
	t.Run("another file can be named", func(t *testing.T) {
		delete(env, "HAULIER_URL")
		other := filepath.Join(t.TempDir(), "c.json")
		if err := os.WriteFile(other, []byte(`{"url": "http://127.0.0.1:4"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := asked("--config", other); got != "http://127.0.0.1:4" {
			t.Errorf("it asked %q", got)
		}
		do(t, env, nil, "version", "--config", other+".not").expect(t, 2, other+".not")
	})
	t.Run("what can't be set is refused", func(t *testing.T) {
		write("colour: red\n")
		do(t, env, nil, "version").expect(t, 2, "config.yaml", `"colour" is no setting`, "url, token")
		write("output: xml\n")
		do(t, env, nil, "version").expect(t, 2, "text or json")
	})
}

func TestParseConfig(t *testing.T) {
	good := map[string]map[string]string{
		"":                                    {},
		"---\nurl: http://h:1/#x\n":           {"url": "http://h:1/#x"},
		"a: b # c\n\n  # d\nb: \"x # \\\"y\"": {"a": "b", "b": "x # \"y"},
		"a: 'it''s' # c\nb:\n":                {"a": "it's", "b": ""},
		`{"a": "b"}`:                          {"a": "b"},
	}
	for text, want := range good {
		got, err := parseConfig([]byte(text))
		if err != nil || len(got) != len(want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
		for k, v := range want {
			if got[k] != v {
				t.Errorf("%q: %s is %q, want %q", text, k, got[k], v)
			}
		}
	}
	for _, text := range []string{"a", "a:b", "a: 'b", "a: \"b\" c", "a: b\na: c", ": x", "{", `{"a": 1}`, "a b: c", "a: \"\\q\""} {
		if got, err := parseConfig([]byte(text)); err == nil {
			t.Errorf("%q was taken for %v", text, got)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte("url: http://h:1 # x\ntoken: 'a''b'\n"))
	f.Add([]byte(`{"url": "x"}`))
	f.Add([]byte("a: \"\\"))
	f.Fuzz(func(t *testing.T, b []byte) {
		values, err := parseConfig(b)
		if err != nil && values != nil {
			t.Errorf("an error and values: %v, %v", values, err)
		}
	})
}

func FuzzEnqueuedAt(f *testing.F) {
	f.Add([]byte(`{"at":12,"pad":"x"}`))
	f.Add([]byte(`{`))
	f.Fuzz(func(_ *testing.T, b []byte) { enqueuedAt(b) })
}
