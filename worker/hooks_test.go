package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/worker"
)

// around is a PerformHook of functions, by the type of the job.
type around struct {
	before map[string]func(*haulier.Job) (haulier.Verdict, error)
	after  map[string]func(*haulier.Job, haulier.Report) error
}

func (*around) HookName() string { return "gate" }

func (a *around) BeforePerform(_ context.Context, j *haulier.Job) (haulier.Verdict, error) {
	if f := a.before[j.Type]; f != nil {
		return f(j)
	}
	return haulier.Verdict{}, nil
}

func (a *around) AfterPerform(_ context.Context, j *haulier.Job, end haulier.Report) error {
	if f := a.after[j.Type]; f != nil {
		return f(j, end)
	}
	return nil
}

func says(v haulier.Verdict, err error) func(*haulier.Job) (haulier.Verdict, error) {
	return func(*haulier.Job) (haulier.Verdict, error) { return v, err }
}

func TestHooksAroundAnAttempt(t *testing.T) {
	q := queue(t)
	ends := make(chan haulier.Report, 1)
	delayed := false
	hook := &around{
		before: map[string]func(*haulier.Job) (haulier.Verdict, error){
			"change": func(j *haulier.Job) (haulier.Verdict, error) {
				j.Payload = []byte(`"changed"`)
				return haulier.Verdict{}, nil
			},
			"abort":  says(haulier.Verdict{Action: haulier.ActionAbort, Reason: "not today"}, nil),
			"refuse": says(haulier.Verdict{Action: haulier.ActionRefuse, Reason: "never"}, nil),
			"error":  says(haulier.Verdict{}, errors.New("no licence")),
			"final":  says(haulier.Verdict{}, haulier.Fail(errors.New("no licence"))),
			"panic":  func(*haulier.Job) (haulier.Verdict, error) { panic("oh") },
			"delay": func(*haulier.Job) (haulier.Verdict, error) {
				if delayed {
					return haulier.Verdict{}, nil
				}
				delayed = true
				return haulier.Verdict{Action: haulier.ActionDelay, Reason: "too hot", Delay: haulier.Duration(300 * time.Millisecond)}, nil
			},
		},
		after: map[string]func(*haulier.Job, haulier.Report) error{
			"told":    func(_ *haulier.Job, end haulier.Report) error { ends <- end; return nil },
			"spoilt":  func(*haulier.Job, haulier.Report) error { return haulier.Fail(errors.New("the books do not balance")) },
			"command": func(*haulier.Job, haulier.Report) error { return errors.New("not counted") },
		},
	}
	run := func(ctx context.Context, j *haulier.Job, arg string) error {
		return haulier.SetResult(ctx, j.Type+" "+arg)
	}
	var types []func(haulier.Registry)
	for _, typ := range []string{"change", "abort", "refuse", "error", "final", "panic", "delay", "told", "spoilt"} {
		types = append(types, func(r haulier.Registry) { haulier.Handle(r, typ, run) })
	}
	start(t, worker.Config{Consumer: q, Executors: commands(), Types: []string{"command"}, Hooks: []haulier.PerformHook{hook}}, types...)
	one := func(typ string) *haulier.Job {
		t.Helper()
		return end(t, q, enqueue(t, q, haulier.Spec{Type: typ, Payload: []byte(`"as given"`), MaxAttempts: 1})[0])[0]
	}
	for _, c := range []struct {
		typ    string
		state  haulier.State
		reason string
	}{
		{"change", haulier.Succeeded, ""},
		{"abort", haulier.Cancelled, "aborted by hook gate: not today"},
		{"refuse", haulier.Failed, "refused by hook gate: never"},
		{"error", haulier.Failed, "attempt 1 of 1: hook gate, before the start: no licence"},
		{"final", haulier.Failed, "hook gate, before the start: no licence"},
		{"panic", haulier.Failed, "attempt 1 of 1: hook gate, before the start: panic: oh"},
		{"told", haulier.Succeeded, ""},
		{"spoilt", haulier.Failed, "hook gate, after the end: the books do not balance"},
		{"delay", haulier.Succeeded, ""},
	} {
		j := one(c.typ)
		if j.State != c.state || j.Reason != c.reason {
			t.Errorf("%s: %v, %q", c.typ, j.State, j.Reason)
		}
		switch c.typ {
		case "change":
			if string(j.Result) != `"change changed"` || string(j.Payload) != `"as given"` {
				t.Errorf("result %s of payload %s", j.Result, j.Payload)
			}
		case "told":
			if e := <-ends; e.Outcome != haulier.OutcomeOK || string(e.Result) != `"told as given"` {
				t.Errorf("told of %+v", e)
			}
		case "delay":
			if j.Tries() != 1 || j.Attempt != 2 || !strings.Contains(j.History[len(j.History)-4].Step+j.History[len(j.History)-5].Step, "too hot") {
				t.Errorf("%d tries in %d attempts, history %+v", j.Tries(), j.Attempt, j.History)
			}
		}
	}
	s := sh("exit 0")
	s.Type, s.MaxAttempts = "command", 1
	if j := end(t, q, enqueue(t, q, s)[0])[0]; j.State != haulier.Failed || !strings.Contains(j.Reason, "not counted") {
		t.Errorf("command: %v, %q", j.State, j.Reason)
	}
}

func TestAHookThatTakesTooLongIsGivenUp(t *testing.T) {
	q := queue(t)
	release := make(chan struct{})
	defer close(release)
	hook := &around{before: map[string]func(*haulier.Job) (haulier.Verdict, error){
		"slow": func(*haulier.Job) (haulier.Verdict, error) { <-release; return haulier.Verdict{}, nil },
	}}
	start(t, worker.Config{Consumer: q, Hooks: []haulier.PerformHook{hook}, HookTimeout: 50 * time.Millisecond}, func(r haulier.Registry) {
		haulier.Handle(r, "slow", func(context.Context, *haulier.Job, []byte) error { t.Error("it ran"); return nil })
	})
	j := end(t, q, enqueue(t, q, haulier.Spec{Type: "slow", MaxAttempts: 1})[0])[0]
	if j.State != haulier.Failed || !strings.Contains(j.Reason, "longer than 50ms") {
		t.Errorf("%v: %s", j.State, j.Reason)
	}
}
