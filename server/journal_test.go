package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/journal"
	"github.com/haulier/haulier/server"
	"github.com/haulier/haulier/wire"
)

// TestJournalAcceptsWhileTheStoreIsAway: what asks for it is acknowledged, and is in the queue under its id when that is back.
func TestJournalAcceptsWhileTheStoreIsAway(t *testing.T) {
	j, err := journal.Open(t.TempDir(), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	e := newEngine(t)
	away := &failing{Queue: e}
	h := newServer(t, server.Config{Queue: away, Journal: &journal.Front{Journal: j, Next: away}}).Handler()
	post := func(path, kind string, body []byte) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
		r.Host = "localhost"
		r.Header.Set("Content-Type", kind)
		r.Header.Set("Accept", kind)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	plain, held := []byte(`{"jobs":[{"type":"mail","payload":{"n":1}}]}`), []byte(`{"jobs":[{"type":"mail","holds":["k"]}]}`)
	if w := post("/v1/jobs", "application/json", plain); w.Code != http.StatusServiceUnavailable {
		t.Errorf("without the journal: %d %s", w.Code, w.Body)
	}
	if w := post("/v1/jobs?journal=true", "application/json", held); w.Code != http.StatusServiceUnavailable {
		t.Errorf("what a journal can't keep: %d %s", w.Code, w.Body)
	}
	w := post("/v1/jobs?journal=true", "application/json", plain)
	var got struct{ IDs []haulier.ID }
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusCreated || len(got.IDs) != 1 {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	own := haulier.NewID(time.Now())
	w = post("/v1/jobs?journal=true", wire.ContentType, wire.AppendEnqueueRequests(nil, []haulier.EnqueueRequest{
		{Jobs: []haulier.Spec{{ID: own, Type: "mail"}}, Key: "k", KeepIDs: true}, {Jobs: []haulier.Spec{{Type: "mail"}}, Key: "k2"},
	}))
	results, err := wire.ParseEnqueueResults(w.Body.Bytes())
	if err != nil || len(results) != 2 || results[0].Err != nil || results[0].IDs[0] != own || results[1].Err == nil {
		t.Fatalf("binary: %d %+v %v", w.Code, results, err)
	}
	if sum, err := (&journal.Ingest{Journal: j, Queue: e}).Once(t.Context()); err != nil || sum.Added != 2 {
		t.Fatal(sum, err)
	}
	list, err := e.Get(t.Context(), "", []haulier.ID{got.IDs[0], own})
	if err != nil || list[0] == nil || list[1] == nil || !strings.Contains(string(list[0].Payload), `"n":1`) {
		t.Errorf("%v, %v", list, err)
	}
}

// failing is a queue whose store is away.
type failing struct{ haulier.Queue }

func (failing) Enqueue(context.Context, []haulier.EnqueueRequest) ([]haulier.EnqueueResult, error) {
	return nil, haulier.ErrUnavailable
}
