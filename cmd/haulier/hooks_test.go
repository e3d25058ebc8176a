package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haulier/haulier/webhook"
)

// TestHooks carries out the examples of docs/hooks.md.
func TestHooks(t *testing.T) {
	t.Setenv(programVariable, "1")
	env := home(t)
	b := start(t, env, nil, "dev", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data"))
	env["HAULIER_URL"] = readyAt.FindStringSubmatch(b.await("Stop with Ctrl-C."))[1]
	secret := strings.TrimSpace(do(t, env, nil, "secrets", "set", "ops").out)
	var answer atomic.Value
	var unsigned atomic.Int32
	answer.Store(`{"verdicts": [{"action": "refuse", "reason": "nothing left until Monday"}]}`)
	r := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil || webhook.Verify(secret, q.Header, body, time.Now()) != nil {
			unsigned.Add(1)
		}
		io.WriteString(w, answer.Load().(string))
	}))
	defer r.Close()
	t.Run("over HTTP refuse what is enqueued, with the reason", func(t *testing.T) {
		do(t, env, nil, "hooks", "set", "budget", r.URL+"/budget", "--on", "before_enqueue", "--queues", "gpu", "--secret", "ops").expect(t, 0, "before_enqueue")
		do(t, env, nil, "hooks", "test", "budget").expect(t, 0, "refuse nothing left until Monday")
		do(t, env, nil, "enqueue", "train", "--queue", "gpu").expect(t, 1, "refused by hook budget: nothing left until Monday")
		do(t, env, nil, "enqueue", "train").expect(t, 0)
	})
	t.Run("or drop, delay and change it", func(t *testing.T) {
		answer.Store(`{"action":"abort","reason":"seen"}`)
		if res := do(t, env, nil, "enqueue", "train", "--queue", "gpu"); res.code != 0 || res.out != "" || !strings.Contains(res.errs, "not added: hook budget: seen") {
			t.Errorf("dropped: %+v", res)
		}
		answer.Store(`{"action":"delay","delay":"1h","reason":"at night"}`)
		id := strings.TrimSpace(do(t, env, nil, "enqueue", "train", "--queue", "gpu").out)
		do(t, env, nil, "jobs", "why", id).expect(t, 0, "delayed by hook budget: at night")
		answer.Store(`{"action":"change","job":{"task":{"exec":{"argv":["echo","changed"]}}}}`)
		do(t, env, nil, "run", "--queue", "gpu", "--", "echo", "as given").expect(t, 0, "changed")
		do(t, env, nil, "hooks", "rm", "budget").expect(t, 0)
	})
	t.Run("and around attempts abort them", func(t *testing.T) {
		do(t, env, nil, "hooks", "set", "window", r.URL, "--on", "before_perform,after_perform", "--secret", "ops").expect(t, 0)
		answer.Store(`{"action":"abort","reason":"closed today"}`)
		id := strings.TrimSpace(do(t, env, nil, "run", "--detach", "--", "echo", "no").out)
		do(t, env, nil, "jobs", "wait", id)
		do(t, env, nil, "jobs", "why", id).expect(t, 0, "cancelled", "aborted by hook window: closed today")
		answer.Store(`{"action":"change","job":{"task":{"exec":{"argv":["echo","now"]}}}}`)
		do(t, env, nil, "run", "--", "echo", "no").expect(t, 0, "now")
	})
	do(t, env, nil, "hooks", "list").expect(t, 0, "window", "before_perform, after_perform", "ops")
	do(t, env, nil, "hooks", "get", "window").expect(t, 0, `"on_error": "fail"`)
	do(t, env, nil, "secrets", "list").expect(t, 0, "ops")
	if out := do(t, env, nil, "secrets", "list", "--output", "json").out; strings.Contains(out, "whsec_") {
		t.Errorf("the secret is shown: %s", out)
	}
	if n := unsigned.Load(); n != 0 {
		t.Errorf("%d calls were not signed", n)
	}
	do(t, env, nil, "secrets", "rm", "ops").expect(t, 0)
}

// TestNotify carries out the example of docs/hooks.md for notifications, with a receiver that is not well at first.
func TestNotify(t *testing.T) {
	t.Setenv(programVariable, "1")
	env := home(t)
	b := start(t, env, nil, "dev", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data"))
	env["HAULIER_URL"] = readyAt.FindStringSubmatch(b.await("Stop with Ctrl-C."))[1]
	secret := strings.TrimSpace(do(t, env, nil, "secrets", "set", "ops").out)
	type message struct {
		id, body string
		verified error
	}
	got := make(chan message, 10)
	ill := atomic.Bool{}
	ill.Store(true)
	r := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		got <- message{q.Header.Get(webhook.HeaderID), string(body), webhook.Verify(secret, q.Header, body, time.Now())}
		if ill.Swap(false) {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer r.Close()
	do(t, env, nil, "run", "--notify", r.URL+"/done", "--notify-secret", "ops", "--", "sh", "-c", "echo '{\"tag\":7}'").expect(t, 0)
	var seen [2]message
	for i := range seen {
		select {
		case seen[i] = <-got:
		case <-time.After(30 * time.Second):
			t.Fatalf("%d calls", i)
		}
		if m := seen[i]; m.verified != nil || !strings.Contains(m.body, `"type":"job.succeeded"`) || !strings.Contains(m.body, `"result":{"tag":7}`) {
			t.Errorf("%+v", m)
		}
	}
	if seen[0].id != seen[1].id || seen[0].body != seen[1].body {
		t.Errorf("%+v was sent again as %+v", seen[0], seen[1])
	}
	do(t, env, nil, "jobs", "wait", seen[0].id).expect(t, 0)
	do(t, env, nil, "jobs", "logs", seen[0].id).expect(t, 0, "/done: 200 OK")
	call := strings.TrimSpace(do(t, env, nil, "enqueue", "rebuild", "--http", r.URL+"/rebuild", "--http-secret", "ops", "--payload", `{"site":3}`).out)
	do(t, env, nil, "jobs", "wait", call).expect(t, 0)
	if m := <-got; m.verified != nil || m.id != call || m.body != `{"site":3}` {
		t.Errorf("called with %+v", m)
	}
	do(t, env, nil, "run", "--notify", "failed="+r.URL+"/bad", "--", "true").expect(t, 0)
	if list := do(t, env, nil, "jobs", "list", "--queue", "webhooks", "--output", "json").out; strings.Count(list, `"parent"`) != 1 || strings.Contains(list, "whsec_") {
		t.Errorf("deliveries: %s", list)
	}
}
