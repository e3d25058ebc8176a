package e2e_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/webhook"
)

// listener is who is told of the ends of jobs.
type listener struct {
	t      *testing.T
	secret string
	mu     sync.Mutex
	ids    map[haulier.ID]map[string]int // by job, how often each message came
	ill    func(job haulier.ID, times int) bool
}

func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the server was killed while it spoke
	}
	if err := webhook.Verify(l.secret, r.Header, body, time.Now()); err != nil {
		l.t.Errorf("%v: %s", err, body)
	}
	var m struct{ Data struct{ ID haulier.ID } }
	if err := json.Unmarshal(body, &m); err != nil {
		l.t.Error(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	job := m.Data.ID
	if l.ids[job] == nil {
		l.ids[job] = map[string]int{}
	}
	l.ids[job][r.Header.Get(webhook.HeaderID)]++
	if l.ill(job, l.ids[job][r.Header.Get(webhook.HeaderID)]) {
		w.WriteHeader(http.StatusInternalServerError)
	}
}

func (l *listener) calls(job haulier.ID) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, times := range l.ids[job] {
		n += times
	}
	return n
}

// TestNotificationsOutliveTheServer kills the server while jobs end and while it tells of that: each end is told by one message, again until it was heard.
func TestNotificationsOutliveTheServer(t *testing.T) {
	const jobs, kills = 30, 4
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s := newSite(t)
	s.serve("--allow-private")
	s.ready(ctx)
	s.work("w")
	secret, err := s.client.SetSecret(ctx, "", "ops", "")
	if err != nil {
		t.Fatal(err)
	}
	var first haulier.ID
	l := &listener{t: t, secret: secret.Value, ids: map[haulier.ID]map[string]int{}}
	l.ill = func(job haulier.ID, times int) bool { return job == first && times == 1 }
	receiver := httptest.NewServer(l)
	defer receiver.Close()
	notified := func(script string) haulier.Spec {
		spec := s.shell(script)
		spec.Flow = &haulier.Flow{Notify: []haulier.Notify{{URL: receiver.URL, Secret: "ops"}}}
		return spec
	}
	l.mu.Lock()
	first = s.enqueue(ctx, notified("true"))
	l.mu.Unlock()
	s.await(ctx, "it was told once, and was not well", func() bool { return l.calls(first) == 1 })
	s.server.kill()
	s.serve("--allow-private")
	s.ready(ctx)
	ids := []haulier.ID{first}
	for i := range jobs {
		ids = append(ids, s.enqueue(ctx, notified("sleep 0.1")))
		if i%(jobs/kills) == 0 {
			s.server.kill()
			s.serve("--allow-private")
			s.ready(ctx)
		}
	}
	if _, err := s.client.Wait(ctx, haulier.DefaultTenant, ids); err != nil {
		t.Fatal(err)
	}
	s.await(ctx, "all ends were told", func() bool {
		page, err := s.client.List(ctx, haulier.Filter{Queue: haulier.DeliveryQueue, States: []haulier.State{haulier.Succeeded}}, "", 1000)
		return err == nil && len(page.Jobs) == len(ids)
	})
	page, err := s.client.List(ctx, haulier.Filter{Queue: haulier.DeliveryQueue}, "", 1000)
	if err != nil || len(page.Jobs) != len(ids) {
		t.Errorf("%d deliveries of %d ends, %v", len(page.Jobs), len(ids), err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if len(l.ids[id]) != 1 {
			t.Errorf("job %v was told of by the messages %v", id, l.ids[id])
		}
	}
}
