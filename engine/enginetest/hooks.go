package enginetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/haulier/haulier"
)

var hooking = []behaviour{
	{"a hook changes jobs before they are added, and is told of them afterwards", hookChanges},
	{"a hook that refuses one job refuses its request, with the reason", hookRefuses},
	{"a hook drops a job without an error, and the answer says so", hookDrops},
	{"a hook delays a job, and the job says why it waits", hookDelays},
	{"a hook that fails, panics or takes too long is an error of who enqueues", hookFails},
	{"what a hook says after the enqueue goes to who has enqueued, and the jobs stay", hookFailsAfter},
	{"a request that is repeated by its key is not asked about again", hookRepeated},
}

// hook is an EnqueueHook of functions, of which each may be left out.
type hook struct {
	before func(ctx context.Context, jobs []*haulier.Spec) ([]haulier.Verdict, error)
	after  func(ctx context.Context, jobs []*haulier.Spec) error
}

func (*hook) HookName() string { return "gate" }

func (k *hook) BeforeEnqueue(ctx context.Context, jobs []*haulier.Spec) ([]haulier.Verdict, error) {
	if k.before == nil {
		return nil, nil
	}
	return k.before(ctx, jobs)
}

func (k *hook) AfterEnqueue(ctx context.Context, jobs []*haulier.Spec) error {
	if k.after == nil {
		return nil
	}
	return k.after(ctx, jobs)
}

// hooked makes the hooks those of the engine.
func (h *Harness) hooked(hooks ...*hook) {
	h.t.Helper()
	h.hooks = nil
	for _, k := range hooks {
		h.hooks = append(h.hooks, k)
	}
	h.restart()
}

// on gives the verdict about jobs of the type other.
func on(v haulier.Verdict) *hook {
	return &hook{before: func(_ context.Context, jobs []*haulier.Spec) ([]haulier.Verdict, error) {
		out := make([]haulier.Verdict, len(jobs))
		for i, j := range jobs {
			if j.Type == "other" {
				out[i] = v
			}
		}
		return out, nil
	}}
}

// ask enqueues one request, which may be refused.
func (h *Harness) ask(r haulier.EnqueueRequest) haulier.EnqueueResult {
	h.t.Helper()
	res, err := h.Enqueue(h.t.Context(), []haulier.EnqueueRequest{r})
	if err != nil {
		h.t.Fatal(err)
	}
	return res[0]
}

var mixed = []haulier.Spec{{Type: "other"}, {Type: "work"}, {Type: "other"}, {Type: "work"}}

func hookChanges(t *testing.T, h *Harness) {
	var told []haulier.ID
	given := map[string]string{"team": "a"}
	h.hooked(&hook{
		before: func(_ context.Context, jobs []*haulier.Spec) ([]haulier.Verdict, error) {
			for _, j := range jobs {
				if j.Queue != haulier.DefaultQueue || j.MaxAttempts != haulier.DefaultMaxAttempts {
					t.Errorf("asked about a job without its defaults: %+v", j)
				}
				j.Priority, j.Labels["seen"] = 7, "yes"
			}
			return nil, nil
		},
		after: func(_ context.Context, jobs []*haulier.Spec) error {
			for _, j := range jobs {
				told = append(told, j.ID)
			}
			return nil
		},
	}, &hook{before: func(_ context.Context, jobs []*haulier.Spec) ([]haulier.Verdict, error) {
		jobs[0].Payload = []byte(jobs[0].Labels["seen"]) // it sees what the one before made
		return nil, nil
	}})
	id := h.add(func(s *haulier.Spec) { s.Labels = given })
	j := h.want(id, haulier.Pending)
	if j.Priority != 7 || string(j.Payload) != "yes" || len(given) != 1 || !slices.Equal(told, []haulier.ID{id}) {
		t.Errorf("job %+v, told %v, given %v", j.Spec, told, given)
	}
	h.hooked(&hook{before: func(_ context.Context, jobs []*haulier.Spec) ([]haulier.Verdict, error) {
		jobs[0].Priority = 99
		return nil, nil
	}})
	if r := h.ask(haulier.EnqueueRequest{Jobs: mixed[:1]}); !errors.Is(r.Err, haulier.ErrInvalid) {
		t.Errorf("a change that can't be: %+v", r)
	}
}

func hookRefuses(t *testing.T, h *Harness) {
	h.hooked(on(haulier.Verdict{Action: haulier.ActionRefuse, Reason: "no budget left"}))
	r := h.ask(haulier.EnqueueRequest{Jobs: mixed})
	if !errors.Is(r.Err, haulier.ErrRefused) || !strings.Contains(r.Err.Error(), "jobs[0]") ||
		!strings.Contains(r.Err.Error(), "gate: no budget left") || r.IDs != nil {
		t.Errorf("answered %+v", r)
	}
	h.add(nil)
	if n := len(h.claim(h.open(nil), 10)); n != 1 {
		t.Errorf("%d jobs were added, want the one that nobody refused", n)
	}
}

func hookDrops(t *testing.T, h *Harness) {
	h.hooked(on(haulier.Verdict{Action: haulier.ActionAbort, Reason: "seen before"}))
	for _, key := range []string{"", "k"} {
		r := h.ask(haulier.EnqueueRequest{Jobs: mixed, Key: key})
		want := []haulier.Dropped{{At: 0, Reason: "hook gate: seen before"}, {At: 2, Reason: "hook gate: seen before"}}
		if r.Err != nil || !slices.Equal(r.Dropped, want) || len(r.IDs) != 4 || !r.IDs[0].IsNil() || !r.IDs[2].IsNil() {
			t.Fatalf("answered %+v", r)
		}
		h.want(r.IDs[1], haulier.Pending)
		h.want(r.IDs[3], haulier.Pending)
		if key == "" {
			continue
		}
		again := h.ask(haulier.EnqueueRequest{Jobs: mixed, Key: key})
		if !again.Repeated || !slices.Equal(again.IDs, r.IDs) || !slices.Equal(again.Dropped, want) {
			t.Errorf("repeated %+v, at first %+v", again, r)
		}
	}
	if r := h.ask(haulier.EnqueueRequest{Jobs: mixed[:1]}); r.Err != nil || len(r.IDs) != 1 || len(r.Dropped) != 1 {
		t.Errorf("all dropped: %+v", r)
	}
}

func hookDelays(t *testing.T, h *Harness) {
	h.hooked(on(haulier.Verdict{Action: haulier.ActionDelay, Reason: "after the sale", Delay: haulier.Duration(time.Hour)}))
	id := h.add(func(s *haulier.Spec) { s.Type = "other" })
	h.want(id, haulier.Scheduled)
	x, err := h.Why(t.Context(), "", id)
	if err != nil || !strings.Contains(strings.Join(x.Reasons, "; "), "delayed by hook gate: after the sale") {
		t.Errorf("why: %v, %v", x.Reasons, err)
	}
	h.pass(time.Hour + time.Second)
	h.want(id, haulier.Pending)
}

func hookFails(t *testing.T, h *Harness) {
	type outcome struct {
		before func(ctx context.Context, jobs []*haulier.Spec) ([]haulier.Verdict, error)
		is     error
		says   string
	}
	cause := errors.New("the books are closed")
	for _, o := range []outcome{
		{func(context.Context, []*haulier.Spec) ([]haulier.Verdict, error) { return nil, cause }, cause, "hook gate, before the enqueue: the books are closed"},
		{func(context.Context, []*haulier.Spec) ([]haulier.Verdict, error) { panic("oh") }, haulier.ErrRefused, "panic: oh"},
		{func(context.Context, []*haulier.Spec) ([]haulier.Verdict, error) {
			return make([]haulier.Verdict, 3), nil
		}, haulier.ErrRefused, "3 verdicts about 1 job"},
		{func(context.Context, []*haulier.Spec) ([]haulier.Verdict, error) {
			return []haulier.Verdict{{Action: "maybe"}}, nil
		}, haulier.ErrRefused, "maybe"},
		{func(_ context.Context, jobs []*haulier.Spec) ([]haulier.Verdict, error) {
			jobs[0].Tenant = "other"
			return nil, nil
		}, haulier.ErrRefused, "tenant"},
		{func(ctx context.Context, _ []*haulier.Spec) ([]haulier.Verdict, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, haulier.ErrUnavailable, "longer than 10s"},
		{func(ctx context.Context, jobs []*haulier.Spec) ([]haulier.Verdict, error) {
			<-ctx.Done()
			timer := time.NewTimer(time.Second) // it does not heed its context at once
			<-timer.C
			jobs[0].Type = "late"
			return nil, nil
		}, haulier.ErrUnavailable, "longer than 10s"},
	} {
		h.hooked(&hook{before: o.before})
		r := h.ask(haulier.EnqueueRequest{Jobs: mixed[:1]})
		if !errors.Is(r.Err, o.is) || !strings.Contains(r.Err.Error(), o.says) {
			t.Errorf("answered %v, want %q", r.Err, o.says)
		}
		h.pass(2 * time.Second)
	}
	if jobs := h.claim(h.open(nil), 10); len(jobs) != 0 {
		t.Errorf("%d jobs were added", len(jobs))
	}
}

func hookFailsAfter(t *testing.T, h *Harness) {
	cause := errors.New("the ledger is full")
	h.hooked(&hook{after: func(context.Context, []*haulier.Spec) error { return cause }})
	r := h.ask(haulier.EnqueueRequest{Jobs: mixed[:1]})
	if !errors.Is(r.Err, cause) || !errors.Is(r.Err, haulier.ErrRefused) || len(r.IDs) != 1 {
		t.Fatalf("answered %+v", r)
	}
	h.want(r.IDs[0], haulier.Pending)
}

func hookRepeated(t *testing.T, h *Harness) {
	asked := 0
	h.hooked(&hook{before: func(_ context.Context, jobs []*haulier.Spec) ([]haulier.Verdict, error) {
		asked++
		jobs[0].Priority = asked // what it makes of the job is not what the request is known by
		return nil, nil
	}})
	first := h.ask(haulier.EnqueueRequest{Jobs: mixed[:1], Key: "k"})
	second := h.ask(haulier.EnqueueRequest{Jobs: mixed[:1], Key: "k"})
	if first.Err != nil || !second.Repeated || !slices.Equal(first.IDs, second.IDs) || asked != 1 {
		t.Errorf("%+v, then %+v, asked %d times", first, second, asked)
	}
}
