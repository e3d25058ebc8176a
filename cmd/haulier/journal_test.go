package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haulier/haulier"
)

// TestJournal carries out the examples of docs/journal.md.
func TestJournal(t *testing.T) {
	env := home(t)
	env["HAULIER_URL"] = "http://127.0.0.1:1" // where nobody is
	outbox := filepath.Join(t.TempDir(), "outbox")

	r := do(t, env, nil, "enqueue", "mail", "--payload", `{"to":"ann"}`, "--journal", outbox)
	r.expect(t, 0)
	id := strings.TrimSpace(r.out)
	do(t, env, strings.NewReader("one\ntwo\n"), "enqueue", "thumbnail", "--lines", "-", "--queue", "bulk", "--journal", outbox).expect(t, 0)
	do(t, env, nil, "journal", "list", outbox).expect(t, 0, id, "mail", `{"to":"ann"}`, "thumbnail", "two")
	do(t, env, nil, "journal", "list", outbox, "--limit", "1").expect(t, 0, "2 more wait")
	do(t, env, nil, "journal", "ingest", outbox).expect(t, 1, "no server at")

	s := newSite(t)
	s.env = env
	s.must("", "journal", "ingest", outbox)
	if got := s.job(mustID(t, id)); got.Type != "mail" || string(got.Payload) != `{"to":"ann"}` {
		t.Errorf("the job has become %+v", got)
	}
	if n := s.jobs(); n != 3 {
		t.Errorf("%d jobs", n)
	}
	s.do("", "journal", "list", outbox).expect(t, 0, "No jobs wait")
	s.do("", "journal", "ingest", outbox, "-o", "json").expect(t, 0, `"added": 0`)

	t.Run("what a journal can't keep is refused", func(t *testing.T) {
		do(t, env, nil, "enqueue", "mail", "--holds", "k", "--journal", outbox).expect(t, 1, "needs the store", "enqueue it at the server")
		do(t, env, nil, "enqueue", "mail", "--queue", "a b", "--journal", outbox).expect(t, 1, "queue")
		do(t, env, nil, "enqueue", "mail", "--key", "k", "--journal", outbox).expect(t, 2, "journal")
		do(t, env, nil, "journal", "list", filepath.Join(outbox, "none")).expect(t, 1, "name the folder of a journal")
	})
}

// TestServeWithAJournal acknowledges from it, and ingests what a former run left.
func TestServeWithAJournal(t *testing.T) {
	env := home(t)
	data, dir := t.TempDir(), filepath.Join(t.TempDir(), "journal")
	left := strings.TrimSpace(do(t, env, nil, "enqueue", "left", "--journal", dir).out)
	b := start(t, env, nil, "serve", "--data", data, "--journal", dir, "--listen", "127.0.0.1:0", "--insecure")
	url := "http://" + servingAt.FindStringSubmatch(b.await("msg=serving"))[1]
	env["HAULIER_URL"] = url
	do(t, env, nil, "jobs", "get", left).expect(t, 0, "left")

	post := func(path, body string, want int) string {
		t.Helper()
		res, err := http.Post(url+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var got struct {
			IDs    []string `json:"ids"`
			Detail string   `json:"detail"`
		}
		if err := json.NewDecoder(res.Body).Decode(&got); err != nil || res.StatusCode != want {
			t.Fatalf("status %d, %+v, %v", res.StatusCode, got, err)
		}
		return strings.Join(got.IDs, " ") + got.Detail
	}
	id := post("/v1/jobs?journal=true", `{"jobs":[{"type":"mail","payload":{"n":1}}]}`, http.StatusCreated)
	for do(t, env, nil, "jobs", "get", id).code != 0 { // not there until it is ingested
		if t.Context().Err() != nil {
			t.Fatal("it is never ingested")
		}
	}
	held := post("/v1/jobs?journal=true", `{"jobs":[{"type":"mail","holds":["k"]}]}`, http.StatusCreated)
	do(t, env, nil, "jobs", "get", held).expect(t, 0, "mail")
	post("/v1/jobs?journal=true", `{"jobs":[{"type":"mail","priority":99}]}`, http.StatusBadRequest)
	do(t, env, nil, "enqueue", "x", "--journal", dir).expect(t, 1, "another process")
	b.interrupt()
	if code := b.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if list, err := filepath.Glob(filepath.Join(dir, "*.journal")); err != nil || len(list) != 1 {
		t.Errorf("files %v, %v", list, err)
	}

	b = start(t, env, nil, "serve", "--data", data, "--listen", "127.0.0.1:0", "--insecure")
	url = "http://" + servingAt.FindStringSubmatch(b.await("msg=serving"))[1]
	if got := post("/v1/jobs?journal=true", `{"jobs":[{"type":"mail"}]}`, http.StatusBadRequest); !strings.Contains(got, "--journal DIR") {
		t.Errorf("without a journal: %s", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "refused")); err == nil {
		t.Error("something was refused")
	}
}

func mustID(t *testing.T, text string) haulier.ID {
	t.Helper()
	id, err := haulier.ParseID(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}
