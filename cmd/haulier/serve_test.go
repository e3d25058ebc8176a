package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	servingAt = regexp.MustCompile(`msg=serving addr=([^ ]+)`)
	readyAt   = regexp.MustCompile(`ready at (http://[^\n]+)\n`)
)

func TestServeLetsThisUsersCommandsInAndNobodyElses(t *testing.T) {
	env := home(t)
	data := t.TempDir()
	b := start(t, env, nil, "serve", "--data", data, "--listen", "127.0.0.1:0")
	url := "http://" + servingAt.FindStringSubmatch(b.await("msg=serving"))[1]
	do(t, env, nil, "enqueue", "mail", "--url", url).expect(t, 0)
	do(t, home(t), nil, "jobs", "list", "--url", url).expect(t, 1, "wants a token", "--token", "haulier token create")
	do(t, env, nil, "jobs", "list", "--url", url, "--token", "hlr_x").expect(t, 1, "does not know this token")

	t.Run("the token is for the user's eyes, and goes with the server", func(t *testing.T) {
		files := accessFiles(t, env)
		if len(files) != 1 {
			t.Fatalf("files: %v", files)
		}
		if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		do(t, env, nil, "token", "list", "--url", url).expect(t, 0, localName, "admin")
		b.interrupt()
		if code := b.exit(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		if files := accessFiles(t, env); len(files) != 0 {
			t.Errorf("left: %v", files)
		}
		do(t, env, nil, "token", "list", "--data", data).expect(t, 0, "No tokens")
	})
	t.Run("what was enqueued is still there", func(t *testing.T) {
		b := start(t, env, nil, "serve", "--data", data, "--listen", "127.0.0.1:0", "--log-format", "text")
		url := "http://" + servingAt.FindStringSubmatch(b.await("msg=serving"))[1]
		do(t, env, nil, "jobs", "list", "--url", url).expect(t, 0, "mail", "pending")
		do(t, env, nil, "serve", "--data", data, "--listen", "127.0.0.1:0").expect(t, 1, data, "another")
		do(t, env, nil, "serve", "--data", t.TempDir(), "--listen", strings.TrimPrefix(url, "http://")).expect(t, 1, "in use", "--listen")
		do(t, env, nil, "token", "create", "--data", data, "--name", "x", "--role", "admin").expect(t, 1, data, "another")
	})
}

func accessFiles(t *testing.T, env map[string]string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(env["XDG_STATE_HOME"], "haulier", "access", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestServeBeyondThisMachineWantsTokens(t *testing.T) {
	env := home(t)
	data := t.TempDir()
	for _, addr := range []string{"0.0.0.0:0", "[::]:0", ":0", "192.0.2.1:0"} {
		do(t, env, nil, "serve", "--data", data, "--listen", addr).expect(t, 1, addr+" can be reached by others", "haulier token create --name ops --role admin --data "+data, "--insecure")
	}
	secret := strings.TrimSpace(do(t, env, nil, "token", "create", "--name", "ops", "--role", "admin", "--data", data).out)
	b := start(t, env, nil, "serve", "--data", data, "--listen", "0.0.0.0:0")
	addr := servingAt.FindStringSubmatch(b.await("msg=serving"))[1]
	url := "http://127.0.0.1:" + addr[strings.LastIndexByte(addr, ':')+1:]
	stranger := home(t)
	do(t, stranger, nil, "jobs", "list", "--url", url).expect(t, 1, "wants a token")
	stranger["HAULIER_TOKEN"] = secret
	do(t, stranger, nil, "jobs", "list", "--url", url).expect(t, 0)
	do(t, env, nil, "jobs", "list", "--url", url).expect(t, 0)

	t.Run("unless everybody may do everything", func(t *testing.T) {
		b := start(t, env, nil, "serve", "--store", "mem:", "--listen", "0.0.0.0:0", "--insecure")
		addr := servingAt.FindStringSubmatch(b.await("msg=serving"))[1]
		do(t, home(t), nil, "jobs", "list", "--url", "http://127.0.0.1:"+addr[strings.LastIndexByte(addr, ':')+1:]).expect(t, 0)
	})
}

func TestForeignFoldersAreLeftAlone(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	if err := os.Mkdir(store, 0o700); err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(store, "letter.txt")
	if err := os.WriteFile(mine, []byte("dear"), 0o600); err != nil {
		t.Fatal(err)
	}
	do(t, home(t), nil, "serve", "--data", dir).expect(t, 1, store)
	if b, err := os.ReadFile(mine); err != nil || string(b) != "dear" {
		t.Errorf("%q, %v", b, err)
	}
	if list, err := os.ReadDir(store); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

func TestDev(t *testing.T) {
	// The worker of dev starts this binary as the supervisor of its commands.
	t.Setenv(programVariable, "1")
	env := home(t)
	b := start(t, env, nil, "dev", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data"))
	text := b.await("Stop with Ctrl-C.")
	env["HAULIER_URL"] = readyAt.FindStringSubmatch(text)[1]
	for _, next := range []string{"haulier run --url " + env["HAULIER_URL"] + " -- echo hello", "haulier jobs list", "/docs"} {
		if !strings.Contains(text, next) {
			t.Errorf("it does not say %q:\n%s", next, text)
		}
	}
	if r := do(t, env, nil, "run", "--", "echo", "hello"); r.out != "hello\n" || r.code != 0 {
		t.Errorf("%+v", r)
	}
	here := t.TempDir()
	t.Chdir(here)
	for i := range 3 {
		if err := os.WriteFile(fmt.Sprintf("f%d", i), []byte("12345"[:i]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if r := do(t, env, strings.NewReader("f0\nf1\nf2\n"), "map", "--", "wc", "-c", "{}"); r.code != 0 || strings.Join(strings.Fields(r.out), " ") != "0 f0 1 f1 2 f2" {
		t.Errorf("files of this folder: %+v", r)
	}
	b.interrupt()
	b.await("Stopping")
	if code := b.exit(); code != 0 {
		said, _ := b.said()
		t.Errorf("exit code %d:\n%s", code, said)
	}
	do(t, env, nil, "jobs", "list").expect(t, 1, "no server at")
}
