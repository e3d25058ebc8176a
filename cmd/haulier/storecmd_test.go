package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/engine"
	"github.com/haulier/haulier/store/services"
)

func TestStoreMigrate(t *testing.T) {
	url := services.StartPostgres(t, "fsync=off").URL()
	do(t, home(t), nil, "token", "list", "--store", url, "--no-migrate", "--data", t.TempDir()).expect(t, exitFailed, "haulier store migrate")
	do(t, home(t), nil, "store", "migrate", url).expect(t, 0, "were of version 0")
	do(t, home(t), nil, "store", "migrate", url).expect(t, 0, "as they should be")
	do(t, home(t), nil, "store", "migrate", "pebble:x").expect(t, exitUsage, "has no tables")
	do(t, home(t), nil, "token", "create", "--name", "ops", "--role", "admin", "--store", url, "--no-migrate", "--data", t.TempDir()).expect(t, 0)
	do(t, home(t), nil, "token", "list", "--store", url, "--data", t.TempDir()).expect(t, 0, "ops")
}

// filled is the URL of a store in a folder with a token and some documents in it.
func filled(t *testing.T) string {
	t.Helper()
	url := "pebble:" + filepath.Join(t.TempDir(), "store")
	do(t, home(t), nil, "token", "create", "--name", "ops", "--role", "admin", "--store", url, "--data", t.TempDir()).expect(t, 0)
	return url
}

func TestStoreCopyExportImport(t *testing.T) {
	from, dir := filled(t), t.TempDir()
	to, file, again := "pebble:"+dir+"/copy", dir+"/all.jsonl", "pebble:"+dir+"/again"
	do(t, home(t), nil, "store", "copy", from, to).expect(t, 0, "Copied 0 jobs and 1 documents", "checksum")
	do(t, home(t), nil, "store", "copy", from, to).expect(t, exitFailed, "it is not empty")
	do(t, home(t), nil, "token", "list", "--store", to, "--data", dir).expect(t, 0, "ops")
	do(t, home(t), nil, "store", "export", to, file, "-o", "json").expect(t, 0, `"token": 1`)
	piped := do(t, home(t), nil, "store", "export", to, "-")
	piped.expect(t, 0, `{"doc":{"kind":"token"`)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v: others may read it", info, err)
	}
	do(t, home(t), nil, "store", "import", file, again).expect(t, 0, "Imported 0 jobs and 1 documents")
	do(t, home(t), strings.NewReader(piped.out), "store", "import", "-", "mem:").expect(t, 0, "Imported")
	do(t, home(t), nil, "token", "list", "--store", again, "--data", dir).expect(t, 0, "ops")
	do(t, home(t), nil, "store", "copy", "nonsense", to).expect(t, exitUsage, "pebble")
}

func TestStoreCommandsRefuseALiveServer(t *testing.T) {
	from := filled(t)
	s, err := openStore(t.Context(), from, storeOptions{Durability: "process"})
	if err != nil {
		t.Fatal(err)
	}
	until, err := time.Now().Add(time.Minute).MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	duty := haulier.DocWrite{Kind: engine.DocDuty, Key: "timers", Value: []byte(`{"server":"x","until":"` + string(until) + `"}`)}
	if err := errors.Join(s.Commit(t.Context(), &haulier.Batch{Docs: []haulier.DocWrite{duty}}), s.Close()); err != nil {
		t.Fatal(err)
	}
	do(t, home(t), nil, "store", "copy", from, "mem:").expect(t, exitFailed, "a server works over the store")
	do(t, home(t), nil, "store", "export", from, "-").expect(t, exitFailed, "a server works over the store")
	do(t, home(t), nil, "store", "import", os.DevNull, from).expect(t, exitFailed, "a server works over the store")
}

// TestStoreExamples carries out the commands of docs/stores.md, one after the other, with folders in place of its stores.
func TestStoreExamples(t *testing.T) {
	text, err := os.ReadFile("../../docs/stores.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	places := strings.NewReplacer("pebble:/var/lib/haulier/store", filled(t), "haulier.jsonl", dir+"/haulier.jsonl",
		"postgres://haulier:secret@db.example.com/haulier", "pebble:"+dir+"/postgres", "redis://cache.example.com/0", "pebble:"+dir+"/redis")
	n := 0
	for line := range strings.Lines(string(text)) {
		if command, ok := strings.CutPrefix(line, "    haulier store "); ok {
			n++
			do(t, home(t), nil, append([]string{"store"}, strings.Fields(places.Replace(command))...)...).expect(t, 0)
		}
	}
	if n != 5 {
		t.Errorf("%d commands were carried out", n)
	}
	do(t, home(t), nil, "token", "list", "--store", "pebble:"+dir+"/redis", "--data", dir).expect(t, 0, "ops")
}

func TestStoreCheck(t *testing.T) {
	url := filled(t)
	do(t, home(t), nil, "store", "check", url).expect(t, 0, "Nothing is wrong with 0 jobs and 1 documents")
	s, err := openStore(t.Context(), url, storeOptions{Durability: "process"})
	if err != nil {
		t.Fatal(err)
	}
	orphan := haulier.DocWrite{Kind: "lock", Key: "default/orphan", Value: []byte(`{"held":1}`)}
	if err := errors.Join(s.Commit(t.Context(), &haulier.Batch{Docs: []haulier.DocWrite{orphan}}), s.Close()); err != nil {
		t.Fatal(err)
	}
	do(t, home(t), nil, "store", "check", url).expect(t, exitFailed, "lock default/orphan: says that 1 jobs hold the key, and 0 do", "check --repair", "1 faults", "0 were repaired")
	do(t, home(t), nil, "store", "check", url, "-o", "json").expect(t, exitFailed, `"faults": 1`, `"what": "lock"`)
	do(t, home(t), nil, "store", "check", "--repair", url).expect(t, exitFailed, "(repaired)", "of which 1 were repaired")
	do(t, home(t), nil, "store", "check", url, "-o", "json").expect(t, 0, `"faults": 0`, `"found": []`)
}
