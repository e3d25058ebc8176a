package enginetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/joblog"
)

var handling = []behaviour{
	{"a job of a type without a handler waits, and says so, until there is one", handlerMissing},
	{"a job that waits for a handler ends when its deadline has passed", handlerDeadline},
	{"a claim tells the version, and only workers that have its language get it", handlerClaimed},
	{"a handler has versions, and goes back to an earlier one", handlerVersions},
	{"only the newest versions are kept", handlerPruned},
	{"a handler that is removed lets its jobs wait, also after a crash", handlerRemoved},
	{"tenants have handlers of their own", handlerTenants},
	{"a handler that another server was given counts here too", handlerElsewhere},
	{"lines of a script's output bring jobs for handlers", handlerChain},
	{"a handler or script job that can't be is refused", handlerRefused},
}

func (h *Harness) handler(typ, body string) haulier.Handler {
	h.t.Helper()
	set, err := h.SetHandler(h.t.Context(), haulier.Handler{Type: typ, Lang: "node", Scripts: haulier.Scripts{Body: body}}, "ann")
	if err != nil {
		h.t.Fatalf("set handler: %v", err)
	}
	return set
}

func (h *Harness) script(change func(*haulier.Spec)) haulier.ID {
	h.t.Helper()
	return h.add(func(s *haulier.Spec) {
		s.Task.Script = &haulier.ScriptTask{}
		if change != nil {
			change(s)
		}
	})
}

// scripted opens a session that runs handlers of the languages.
func (h *Harness) scripted(languages ...string) haulier.ID {
	h.t.Helper()
	return h.open(func(s *haulier.Session) {
		s.Kinds, s.Types, s.Languages, s.Lease, s.Worker = []haulier.Kind{haulier.KindScript}, nil, languages, haulier.Duration(haulier.MaxLease), "w-"+strings.Join(languages, "-")
	})
}

func handlerMissing(t *testing.T, h *Harness) {
	s := h.scripted("node")
	id := h.script(func(s *haulier.Spec) { s.RetryUntil = time.Now().Add(time.Hour) })
	if jobs := h.claim(s, 10); len(jobs) != 0 {
		t.Fatalf("claimed %v", jobs)
	}
	x, err := h.Why(t.Context(), "", id)
	if err != nil || !strings.Contains(x.Reasons[0], "type work has no handler: it waits for one, until its deadline at ") {
		t.Errorf("%+v, %v", x, err)
	}
	if list, err := h.Handlers(t.Context(), ""); err != nil || len(list) != 1 || list[0].Type != "work" || list[0].Version != 0 || list[0].Waiting != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	claimed := make(chan []haulier.Job, 1)
	go func() {
		jobs, err := h.Claim(t.Context(), haulier.ClaimRequest{Session: s, N: 1, Wait: time.Minute})
		if err != nil {
			t.Error(err)
		}
		claimed <- jobs
	}()
	h.pass(time.Second)
	set := h.handler("work", "one")
	if jobs := <-claimed; len(jobs) != 1 || jobs[0].ID != id || *jobs[0].Task.Script != (haulier.ScriptTask{Version: 1, Digest: set.Digest}) {
		t.Errorf("the claim that waited has %+v", jobs)
	}
	if j := h.want(id, haulier.Claimed); *j.Task.Script != (haulier.ScriptTask{}) {
		t.Errorf("the job keeps %+v", j.Task.Script)
	}
}

func handlerDeadline(t *testing.T, h *Harness) {
	id, other := h.script(func(s *haulier.Spec) { s.RetryUntil = time.Now().Add(time.Hour) }), h.script(nil)
	h.pass(59 * time.Minute)
	h.want(id, haulier.Pending)
	h.pass(2 * time.Minute)
	if j := h.want(id, haulier.Failed); j.Reason != "its deadline has passed: there was no handler for type work" {
		t.Errorf("reason %q", j.Reason)
	}
	h.want(other, haulier.Pending)
}

func handlerClaimed(t *testing.T, h *Harness) {
	h.handler("work", "one")
	id := h.script(nil)
	python, node := h.scripted("python", "sh"), h.scripted("node")
	if jobs := h.claim(python, 10); len(jobs) != 0 {
		t.Errorf("a worker without node gets %v", jobs)
	}
	if j := h.claimOne(node); j.ID != id || j.Task.Script.Version != 1 {
		t.Errorf("%+v", j.Task.Script)
	}
	if err := h.CloseSession(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	if x, err := h.Why(t.Context(), "", id); err != nil || !strings.Contains(strings.Join(x.Reasons, " "), "does not have the language of its handler") {
		t.Errorf("%+v, %v", x, err)
	}
}

func handlerVersions(t *testing.T, h *Harness) {
	one, two := h.handler("work", "one"), h.handler("work", "two")
	if same := h.handler("work", "two"); same.Version != 2 || two.Version != 2 || one.Version != 1 || one.Digest == two.Digest || two.SetBy != "ann" {
		t.Errorf("%+v, %+v, %+v", one, two, same)
	}
	back, err := h.RollbackHandler(t.Context(), "", "work", 0, "bob")
	if err != nil || back.Version != 3 || back.Digest != one.Digest || back.SetBy != "bob" {
		t.Errorf("%+v, %v", back, err)
	}
	h.restart()
	for version, body := range []string{"one", "one", "two", "one"} {
		if got, err := h.Handler(t.Context(), "", "work", version); err != nil || got.Body != body || version > 0 && got.Version != version {
			t.Errorf("version %d: %+v, %v", version, got, err)
		}
	}
	if list, err := h.HandlerVersions(t.Context(), "", "work"); err != nil || len(list) != 3 || list[0].Version != 3 || list[0].Body != "" {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := h.RollbackHandler(t.Context(), "", "work", 9, ""); !errors.Is(err, haulier.ErrNotFound) {
		t.Errorf("to a version that is not there: %v", err)
	}
	if _, err := h.RollbackHandler(t.Context(), "", "none", 0, ""); !errors.Is(err, haulier.ErrNotFound) {
		t.Errorf("of a handler that is not there: %v", err)
	}
}

func handlerPruned(t *testing.T, h *Harness) {
	for i := range haulier.MaxHandlerVersions + 2 {
		h.handler("work", fmt.Sprint("body ", i))
	}
	list, err := h.HandlerVersions(t.Context(), "", "work")
	if err != nil || len(list) != haulier.MaxHandlerVersions || list[len(list)-1].Version != 3 {
		t.Errorf("%d versions, %v", len(list), err)
	}
}

func handlerRemoved(t *testing.T, h *Harness) {
	h.handler("work", "one")
	s := h.scripted("node")
	if err := h.DeleteHandler(t.Context(), "", "work"); err != nil {
		t.Fatal(err)
	}
	h.script(nil)
	h.restart()
	if jobs := h.claim(s, 1); len(jobs) != 0 {
		t.Errorf("claimed %v", jobs)
	}
	if _, err := h.Handler(t.Context(), "", "work", 1); !errors.Is(err, haulier.ErrNotFound) {
		t.Errorf("it is still there: %v", err)
	}
	if err := h.DeleteHandler(t.Context(), "", "work"); !errors.Is(err, haulier.ErrNotFound) {
		t.Errorf("removed again: %v", err)
	}
	h.handler("work", "two")
	h.claimOne(s)
}

func handlerTenants(t *testing.T, h *Harness) {
	h.handler("work", "one")
	id := h.script(func(s *haulier.Spec) { s.Tenant = "other" })
	s := h.open(func(s *haulier.Session) {
		s.Kinds, s.Types, s.Languages, s.Tenants = []haulier.Kind{haulier.KindScript}, nil, []string{"node"}, []string{"*"}
	})
	if jobs := h.claim(s, 1); len(jobs) != 0 {
		t.Errorf("a handler of another tenant runs %v", jobs)
	}
	set, err := h.SetHandler(t.Context(), haulier.Handler{Tenant: "other", Type: "work", Lang: "node", Scripts: haulier.Scripts{Body: "two"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	if j := h.claimOne(s); j.ID != id || j.Task.Script.Digest != set.Digest {
		t.Errorf("%+v", j.Task.Script)
	}
}

func handlerChain(t *testing.T, h *Harness) {
	h.handler("work", "one")
	h.script(nil)
	s := h.scripted("node")
	j := h.claimOne(s)
	log := joblog.Append(nil, joblog.Stdout, time.Now(), []byte("said\nJ: child|with | this\nJ: nothing\n"))
	h.report(s, haulier.Report{Ref: ref(j), Kind: haulier.ReportStart}, haulier.Report{Ref: ref(j), Kind: haulier.ReportFinish, Outcome: haulier.OutcomeOK, Log: log})
	h.handler("child", "two")
	if c := h.claimOne(s); c.Type != "child" || string(c.Payload) != "with | this" || c.Parent != j.ID || c.Task.Script == nil {
		t.Errorf("%+v", c)
	}
}

func handlerRefused(t *testing.T, h *Harness) {
	for want, x := range map[string]haulier.Handler{
		"body":   {Type: "work", Lang: "node", Scripts: haulier.Scripts{Body: " \n"}},
		"type":   {Type: "a/b", Lang: "node", Scripts: haulier.Scripts{Body: "x"}},
		"lang":   {Type: "work", Scripts: haulier.Scripts{Body: "x"}},
		"eid":    {Type: "work", Lang: "node", Engine: "a b", Scripts: haulier.Scripts{Body: "x"}},
		"before": {Type: "work", Lang: "node", Scripts: haulier.Scripts{Body: "x", Before: "\xff"}},
	} {
		var f *haulier.FieldError
		if _, err := h.SetHandler(t.Context(), x, ""); !errors.As(err, &f) || f.Field != want {
			t.Errorf("%s: %v", want, err)
		}
	}
	large := haulier.Handler{Type: "work", Lang: "node", Scripts: haulier.Scripts{Body: "x", AfterEach: strings.Repeat("x", haulier.MaxHandlerSource)}}
	if _, err := h.SetHandler(t.Context(), large, ""); !errors.Is(err, haulier.ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	large.Body, large.AfterEach = strings.Repeat("\x01", haulier.MaxHandlerSource), ""
	if _, err := h.SetHandler(t.Context(), large, ""); err != nil {
		t.Errorf("as large as may be: %v", err)
	}
	for want, s := range map[string]haulier.Spec{
		"jobs[0].type":        {Task: haulier.Task{Script: &haulier.ScriptTask{}}},
		"jobs[0].task":        {Type: "work", Task: haulier.Task{Script: &haulier.ScriptTask{}, None: &haulier.NoTask{}}},
		"jobs[0].task.script": {Type: "work", Task: haulier.Task{Script: &haulier.ScriptTask{Version: 1}}},
		"jobs[0].payload":     {Type: "work", Task: haulier.Task{Script: &haulier.ScriptTask{}}, Payload: make([]byte, haulier.MaxScriptPayload+1)},
	} {
		res, err := h.Enqueue(t.Context(), []haulier.EnqueueRequest{{Jobs: []haulier.Spec{s}}})
		if err == nil {
			err = res[0].Err
		}
		var f *haulier.FieldError
		if !errors.As(err, &f) || f.Field != want {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func handlerElsewhere(t *testing.T, h *Harness) {
	other := h.beside()
	defer other.end()
	id := h.script(nil)
	s := h.scripted("node")
	other.handler("work", "one")
	h.pass(moments)
	if j := h.claimOne(s); j.ID != id || j.Task.Script.Version != 1 {
		t.Errorf("claimed %+v", j)
	}
}
