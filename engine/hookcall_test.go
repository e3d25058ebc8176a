package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/blob"
	"github.com/haulier/haulier/engine"
	"github.com/haulier/haulier/store/mem"
	"github.com/haulier/haulier/webhook"
)

// receiver is the other side of a hook: it answers what the path is told, and keeps what it was sent.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex
	answers map[string]func(m webhook.Message, w http.ResponseWriter)
	got     map[string][]webhook.Message
	check   func(*http.Request, []byte)
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{answers: map[string]func(webhook.Message, http.ResponseWriter){}, got: map[string][]webhook.Message{}}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.check != nil {
		r.check(q, body)
	}
	var m webhook.Message
	if err := json.Unmarshal(body, &m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.got[q.URL.Path] = append(r.got[q.URL.Path], m)
	if f := r.answers[q.URL.Path]; f != nil {
		f(m, w)
	}
}

func (r *receiver) told(path string) []webhook.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got[path]
}

func says(body string) func(webhook.Message, http.ResponseWriter) {
	return func(_ webhook.Message, w http.ResponseWriter) { io.WriteString(w, body) }
}

func hookedEngine(t *testing.T, s haulier.Store) *engine.Engine {
	t.Helper()
	blobs, err := blob.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Config{Store: s, Blobs: blobs, Webhooks: webhook.New(webhook.Config{AllowPrivate: true})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close(); blobs.Close() })
	return e
}

func setHook(t *testing.T, e *engine.Engine, h haulier.Hook) {
	t.Helper()
	if _, err := e.SetHook(t.Context(), h); err != nil {
		t.Fatal(err)
	}
}

func ask(t *testing.T, e *engine.Engine, jobs ...haulier.Spec) haulier.EnqueueResult {
	t.Helper()
	res, err := e.Enqueue(t.Context(), []haulier.EnqueueRequest{{Jobs: jobs}})
	if err != nil {
		t.Fatal(err)
	}
	return res[0]
}

func TestHooksOverHTTPAroundTheEnqueue(t *testing.T) {
	r, e := newReceiver(t), hookedEngine(t, mem.New())
	s, err := e.SetSecret(t.Context(), "", "ops", "")
	if err != nil || !strings.HasPrefix(s.Value, "whsec_") {
		t.Fatal(s, err)
	}
	r.check = func(q *http.Request, body []byte) {
		if err := webhook.Verify(s.Value, q.Header, body, time.Now()); err != nil {
			t.Error(err)
		}
	}
	r.answers["/gate"] = says(`{"verdicts":[{"job":{"priority":4,"labels":{"seen":"yes"}}},{"action":"abort","reason":"twice"},{"action":"delay","delay":"1h"}]}`)
	setHook(t, e, haulier.Hook{Name: "gate", URL: r.URL + "/gate", Events: []haulier.HookEvent{haulier.BeforeEnqueue}, Queues: []string{"gpu"}, Secret: "ops"})
	setHook(t, e, haulier.Hook{Name: "log", URL: r.URL + "/log", Events: []haulier.HookEvent{haulier.AfterEnqueue}, Types: []string{"a"}, Secret: "ops"})
	in := func(queue, typ string) haulier.Spec {
		return haulier.Spec{Queue: queue, Type: typ, Payload: []byte(`{"n":1}`)}
	}
	res := ask(t, e, in("gpu", "a"), in("cpu", "a"), in("gpu", "b"), in("gpu", "b"))
	if res.Err != nil || len(res.Dropped) != 1 || res.Dropped[0] != (haulier.Dropped{At: 2, Reason: "hook gate: twice"}) {
		t.Fatalf("answered %+v", res)
	}
	jobs, err := e.Get(t.Context(), "", []haulier.ID{res.IDs[0], res.IDs[1], res.IDs[3]})
	if err != nil || jobs[0].Priority != 4 || jobs[0].Labels["seen"] != "yes" || jobs[1].Priority != 0 || jobs[2].State != haulier.Scheduled {
		t.Errorf("jobs %+v, %v", jobs, err)
	}
	gate, log := r.told("/gate"), r.told("/log")
	if len(gate) != 1 || len(gate[0].Jobs) != 3 || gate[0].Event != haulier.BeforeEnqueue || string(gate[0].Jobs[0].Payload) != `{"n":1}` {
		t.Errorf("the gate was told %+v", gate)
	}
	if len(log) != 1 || len(log[0].Jobs) != 2 || log[0].Jobs[0].ID != res.IDs[0] || log[0].Jobs[1].ID != res.IDs[1] {
		t.Errorf("the log was told %+v", log)
	}
	if list, err := e.Secrets(t.Context(), ""); err != nil || len(list) != 1 || list[0].Value != "" {
		t.Errorf("secrets %+v, %v", list, err)
	}
}

func TestHooksOverHTTPThatFail(t *testing.T) {
	r, e := newReceiver(t), hookedEngine(t, mem.New())
	busy := 2
	r.answers["/busy"] = func(_ webhook.Message, w http.ResponseWriter) {
		if busy--; busy >= 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
	r.answers["/gone"] = func(_ webhook.Message, w http.ResponseWriter) { w.WriteHeader(http.StatusGone) }
	r.answers["/down"] = func(_ webhook.Message, w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }
	r.answers["/odd"] = says("OK")
	r.answers["/wrong"] = says(`{"job":{"priority":99}}`)
	for _, c := range []struct {
		path   string
		policy haulier.HookPolicy
		is     error // nil: the job is added
	}{
		{"/busy", haulier.HookFail, nil},
		{"/gone", haulier.HookFail, haulier.ErrRefused},
		{"/gone", haulier.HookIgnore, nil},
		{"/down", haulier.HookFail, haulier.ErrUnavailable},
		{"/down", haulier.HookIgnore, nil},
		{"/odd", haulier.HookFail, haulier.ErrRefused},
		{"/wrong", haulier.HookFail, haulier.ErrInvalid},
	} {
		setHook(t, e, haulier.Hook{Name: "h", URL: r.URL + c.path, Events: []haulier.HookEvent{haulier.BeforeEnqueue}, OnError: c.policy})
		if res := ask(t, e, haulier.Spec{Type: "a"}); !errors.Is(res.Err, c.is) {
			t.Errorf("%s, %s: %v", c.path, c.policy, res.Err)
		}
	}
	setHook(t, e, haulier.Hook{Name: "h", URL: r.URL + "/signed", Events: []haulier.HookEvent{haulier.BeforeEnqueue}, Secret: "none"})
	if res := ask(t, e, haulier.Spec{Type: "a"}); res.Err == nil || !strings.Contains(res.Err.Error(), "secret none") {
		t.Errorf("without its secret: %v", res.Err)
	}
	if trial, err := e.TestHook(t.Context(), "", "h", ""); err != nil || !strings.Contains(trial.Error, "secret none") {
		t.Errorf("tested: %+v, %v", trial, err)
	}
	if err := e.DeleteHook(t.Context(), "", "h"); err != nil {
		t.Fatal(err)
	}
	if res := ask(t, e, haulier.Spec{Type: "a"}); res.Err != nil {
		t.Errorf("without a hook: %v", res.Err)
	}
	if err := e.DeleteHook(t.Context(), "", "h"); !errors.Is(err, haulier.ErrNotFound) {
		t.Errorf("removed twice: %v", err)
	}
}

func TestHooksOverHTTPAroundAnAttempt(t *testing.T) {
	r, s := newReceiver(t), mem.New()
	e := hookedEngine(t, s)
	r.answers["/before"] = func(m webhook.Message, w http.ResponseWriter) {
		io.WriteString(w, map[string]string{
			"change": `{"job":{"payload":{"n":2},"timeout":"9s"}}`, "abort": `{"action":"abort","reason":"not today"}`,
			"kind": `{"job":{"task":{"exec":{"argv":["rm"]}}}}`,
		}[m.Jobs[0].Type])
	}
	setHook(t, e, haulier.Hook{Name: "a", URL: r.URL + "/before", Events: []haulier.HookEvent{haulier.BeforePerform}})
	setHook(t, e, haulier.Hook{Name: "b", URL: r.URL + "/after", Events: []haulier.HookEvent{haulier.AfterPerform}, Types: []string{"change"}})
	session, err := e.OpenSession(t.Context(), haulier.Session{Worker: "w", Kinds: []haulier.Kind{haulier.KindGo}, Types: []string{"change", "abort", "kind"}, Concurrency: 10})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]func(a haulier.HookAnswer) bool{
		"change": func(a haulier.HookAnswer) bool {
			return a.Hook == "" && string(a.Change.Payload) == `{"n":2}` && a.Change.Timeout == haulier.Duration(9*time.Second)
		},
		"abort": func(a haulier.HookAnswer) bool {
			return a.Hook == "a" && a.Action == haulier.ActionAbort && a.Reason == "not today"
		},
		"kind": func(a haulier.HookAnswer) bool { return a.Hook == "a" && strings.Contains(a.Error, "kind of the task") },
	}
	ask(t, e, haulier.Spec{Type: "change", Payload: []byte(`{"n":1}`)}, haulier.Spec{Type: "abort"}, haulier.Spec{Type: "kind"})
	jobs, err := e.Claim(t.Context(), haulier.ClaimRequest{Session: session.ID, N: 3})
	if err != nil || len(jobs) != 3 {
		t.Fatal(jobs, err)
	}
	for i := range jobs {
		j := &jobs[i]
		if j.Hooked&haulier.HookedBefore == 0 || (j.Hooked&haulier.HookedAfter != 0) != (j.Type == "change") {
			t.Errorf("%s is marked %b", j.Type, j.Hooked)
		}
		call := haulier.HookCall{Ref: haulier.Ref{Job: j.ID, Attempt: j.Attempt}, Event: haulier.BeforePerform}
		if a, err := e.AskHooks(t.Context(), session.ID, call); err != nil || !want[j.Type](a) {
			t.Errorf("%s: %+v, %v", j.Type, a, err)
		}
		call.Attempt++
		if _, err := e.AskHooks(t.Context(), session.ID, call); !errors.Is(err, haulier.ErrLeaseLost) {
			t.Errorf("another attempt: %v", err)
		}
		call.Attempt, call.Event = j.Attempt, haulier.AfterPerform
		call.End = haulier.Report{Outcome: haulier.OutcomeOK, Result: []byte(`{"m":3}`)}
		if a, err := e.AskHooks(t.Context(), session.ID, call); err != nil || a.Error != "" {
			t.Errorf("%s: %+v, %v", j.Type, a, err)
		}
	}
	after := r.told("/after")
	if len(after) != 1 || after[0].Jobs[0].Outcome != haulier.OutcomeOK || string(after[0].Jobs[0].Result) != `{"m":3}` || after[0].Jobs[0].Attempt != 1 {
		t.Errorf("told %+v", after)
	}
}

func TestHooksSetAtAnotherServer(t *testing.T) {
	r, s := newReceiver(t), mem.New()
	one, two := hookedEngine(t, s), hookedEngine(t, s)
	r.answers["/no"] = says(`{"action":"refuse"}`)
	setHook(t, one, haulier.Hook{Name: "no", URL: r.URL + "/no", Events: []haulier.HookEvent{haulier.BeforeEnqueue}})
	if list, err := two.Hooks(t.Context(), ""); err != nil || len(list) != 1 { // whoever lists them reads them
		t.Fatal(list, err)
	}
	if res := ask(t, two, haulier.Spec{Type: "a"}); !errors.Is(res.Err, haulier.ErrRefused) {
		t.Errorf("answered %+v", res)
	}
}

func TestHooksThatCantBe(t *testing.T) {
	e := hookedEngine(t, mem.New())
	ok := haulier.Hook{Name: "h", URL: "https://example.com", Events: []haulier.HookEvent{haulier.BeforeEnqueue}}
	for what, change := range map[string]func(*haulier.Hook){
		"name": func(h *haulier.Hook) { h.Name = "a b" }, "url": func(h *haulier.Hook) { h.URL = "example.com" },
		"events": func(h *haulier.Hook) { h.Events = nil }, "events[0]": func(h *haulier.Hook) { h.Events = []haulier.HookEvent{"now"} },
		"timeout": func(h *haulier.Hook) { h.Timeout = haulier.Duration(time.Hour) }, "on_error": func(h *haulier.Hook) { h.OnError = "cry" },
		"queues[0]": func(h *haulier.Hook) { h.Queues = []string{""} }, "secret": func(h *haulier.Hook) { h.Secret = "a/b" },
	} {
		h := ok
		change(&h)
		_, err := e.SetHook(context.Background(), h)
		var f *haulier.FieldError
		if !errors.As(err, &f) || f.Field != what {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := e.SetSecret(t.Context(), "", "s", "short"); !errors.Is(err, haulier.ErrInvalid) {
		t.Errorf("a short secret: %v", err)
	}
}

func TestAHookIsForItsTenant(t *testing.T) {
	r, e := newReceiver(t), hookedEngine(t, mem.New())
	r.answers["/no"] = says(`{"action":"refuse"}`)
	setHook(t, e, haulier.Hook{Tenant: "acme", Name: "no", URL: r.URL + "/no", Events: haulier.HookEvents})
	if res := ask(t, e, haulier.Spec{Tenant: "acme", Type: "a"}); !errors.Is(res.Err, haulier.ErrRefused) {
		t.Errorf("acme: %+v", res)
	}
	res := ask(t, e, haulier.Spec{Type: "a"})
	if res.Err != nil || len(res.IDs) != 1 {
		t.Fatalf("another tenant: %+v", res)
	}
	s, err := e.OpenSession(t.Context(), haulier.Session{Worker: "w", Kinds: []haulier.Kind{haulier.KindGo}, Types: []string{"a"}, Concurrency: 1})
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := e.Claim(t.Context(), haulier.ClaimRequest{Session: s.ID, N: 1})
	if err != nil || len(jobs) != 1 || jobs[0].Hooked != 0 {
		t.Errorf("claimed %+v, %v", jobs, err)
	}
	if n := len(r.told("/no")); n != 1 {
		t.Errorf("it was called %d times", n)
	}
}

func TestAHookLeavesAScriptItsHandler(t *testing.T) {
	r, s := newReceiver(t), mem.New()
	e := hookedEngine(t, s)
	r.answers["/before"] = func(_ webhook.Message, w http.ResponseWriter) { io.WriteString(w, `{"job":{"payload":{"n":2}}}`) }
	setHook(t, e, haulier.Hook{Name: "a", URL: r.URL + "/before", Events: []haulier.HookEvent{haulier.BeforePerform}})
	set, err := e.SetHandler(t.Context(), haulier.Handler{Type: "work", Lang: "sh", Scripts: haulier.Scripts{Body: "true"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	session, err := e.OpenSession(t.Context(), haulier.Session{Worker: "w", Kinds: []haulier.Kind{haulier.KindScript}, Languages: []string{"sh"}})
	if err != nil {
		t.Fatal(err)
	}
	ask(t, e, haulier.Spec{Type: "work", Task: haulier.Task{Script: &haulier.ScriptTask{}}})
	jobs, err := e.Claim(t.Context(), haulier.ClaimRequest{Session: session.ID, N: 1})
	if err != nil || len(jobs) != 1 {
		t.Fatal(jobs, err)
	}
	ref := haulier.Ref{Job: jobs[0].ID, Attempt: jobs[0].Attempt}
	a, err := e.AskHooks(t.Context(), session.ID, haulier.HookCall{Ref: ref, Event: haulier.BeforePerform})
	if err != nil || a.Change == nil || *a.Change.Task.Script != (haulier.ScriptTask{Version: 1, Digest: set.Digest}) {
		t.Errorf("%+v, %v", a.Change, err)
	}
}
