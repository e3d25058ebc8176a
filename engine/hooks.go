package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/webhook"
)

// hookedAtOnce is how many requests of one call are with hooks together.
const hookedAtOnce = 64

// hooks are those that the engine asks itself, and the view of those over HTTP.
type hooks struct {
	own     []haulier.EnqueueHook                     // registered with the engine
	most    time.Duration                             // that each of these may take
	set     atomic.Pointer[map[string][]haulier.Hook] // over HTTP, by tenant; a nil map: there are none
	loading sync.Mutex
	client  *webhook.Client
}

// gate is a hook of the enqueue.
type gate struct {
	haulier.EnqueueHook
	most    time.Duration
	selects func(*haulier.Spec) bool // nil: all jobs
}

// gates are the hooks that a request passes: those of the engine, then those of its jobs' tenants.
func (e *Engine) gates(jobs []haulier.Spec) []gate {
	var out []gate
	for _, h := range e.hooks.own {
		out = append(out, gate{EnqueueHook: h, most: e.hooks.most})
	}
	if *e.hooks.set.Load() == nil {
		return out
	}
	var tenants []string
	for i := range jobs {
		t := tenantOr(jobs[i].Tenant)
		if slices.Contains(tenants, t) {
			continue
		}
		tenants = append(tenants, t)
		for _, h := range e.hooks.of(t) {
			if h.On(haulier.BeforeEnqueue) || h.On(haulier.AfterEnqueue) {
				out = append(out, gate{EnqueueHook: &remote{e: e, h: h}, most: time.Duration(h.Timeout) + time.Second, selects: h.Selects})
			}
		}
	}
	return out
}

// asked is a request to enqueue whose hooks were asked. What is nil was not.
type asked struct {
	jobs    []haulier.Spec // as who enqueues gave them
	places  []int          // among them, of those that are left
	dropped []haulier.Dropped
	notes   []string // why those that are left wait; "": for no hook
	gates   []gate
}

// origin is what the caller gave.
func (a *asked) origin(r *haulier.EnqueueRequest) []haulier.Spec {
	if a == nil {
		return r.Jobs
	}
	return a.jobs
}

// note tells the first status of the i-th job that a hook delayed it.
func (a *asked) note(i int, s *haulier.Status) {
	if a != nil && a.notes[i] != "" && s.State == haulier.Scheduled {
		s.Reason, s.History[0].Step = a.notes[i], a.notes[i]
	}
}

// spread puts an answer about the jobs that are left into the order of those that were given.
func (a *asked) spread(r haulier.EnqueueResult) haulier.EnqueueResult {
	if a == nil || len(a.dropped) == 0 || len(r.IDs) != len(a.places) {
		return r
	}
	ids := make([]haulier.ID, len(a.jobs))
	for i, id := range r.IDs {
		ids[a.places[i]] = id
	}
	for k, i := range r.Existing {
		r.Existing[k] = a.places[i]
	}
	r.IDs, r.Dropped = ids, a.dropped
	return r
}

// Enqueue implements haulier.Producer. Requests without a key and without a flow
// go into one commit, each of the others into one of its own. Hooks are asked before, and told after it.
func (e *Engine) Enqueue(ctx context.Context, reqs []haulier.EnqueueRequest) ([]haulier.EnqueueResult, error) {
	if !e.hooks.any() {
		return e.enqueue(ctx, reqs, nil)
	}
	results := make([]haulier.EnqueueResult, len(reqs))
	left := make([]haulier.EnqueueRequest, len(reqs))
	asks := make([]*asked, len(reqs))
	e.eachRequest(len(reqs), func(i int) {
		left[i] = reqs[i]
		asks[i], results[i] = e.before(ctx, &left[i])
	})
	var rest []int
	for i := range reqs {
		if results[i].Err == nil && results[i].IDs == nil {
			left[len(rest)], asks[len(rest)] = left[i], asks[i]
			rest = append(rest, i)
		}
	}
	if len(rest) == 0 {
		return results, nil
	}
	left, asks = left[:len(rest)], asks[:len(rest)]
	done, err := e.enqueue(ctx, left, asks)
	if err != nil {
		return nil, err
	}
	e.eachRequest(len(rest), func(k int) {
		if done[k].Err == nil && !done[k].Repeated {
			done[k].Err = asks[k].after(ctx, &left[k], &done[k])
		}
		results[rest[k]] = asks[k].spread(done[k])
	})
	return results, nil
}

// eachRequest calls f for several requests at once, and waits for all.
func (e *Engine) eachRequest(n int, f func(i int)) {
	var g errgroup.Group
	g.SetLimit(hookedAtOnce)
	for i := range n {
		g.Go(func() error { f(i); return nil })
	}
	_ = g.Wait() // f has no error
}

// before asks the hooks about the jobs of r, and leaves in it those that are to be added, as the hooks
// made them. A result with ids or an error is the answer to the request: there is nothing left to add.
func (e *Engine) before(ctx context.Context, r *haulier.EnqueueRequest) (*asked, haulier.EnqueueResult) {
	refused := func(err error) (*asked, haulier.EnqueueResult) { return nil, haulier.EnqueueResult{Err: err} }
	if err := checkRequest(r); err != nil {
		return refused(err)
	}
	gates := e.gates(r.Jobs)
	if len(gates) == 0 {
		return nil, haulier.EnqueueResult{}
	}
	now, err := e.now(ctx)
	if err != nil {
		return refused(err)
	}
	if r.Key != "" {
		_, known, err := e.keyDoc(ctx, tenantOr(r.Jobs[0].Tenant)+"/"+r.Key, nil, now)
		if err != nil {
			return refused(fmt.Errorf("enqueue: idempotency key %q: %w", r.Key, err))
		}
		if known != nil { // it was asked for before, and so were the hooks
			digest, err := digestOf(r.Jobs)
			if err != nil {
				return refused(err)
			}
			return nil, repeated(r.Key, known, digest)
		}
	}
	h := hearing{now: now, specs: make([]haulier.Spec, len(r.Jobs)), notes: make([]string, len(r.Jobs)), gone: make([]bool, len(r.Jobs))}
	for i := range r.Jobs {
		s := &h.specs[i]
		*s = r.Jobs[i]
		s.Labels = maps.Clone(s.Labels)
		if err := complete(s, now); err != nil {
			return refused(inJob(i, err))
		}
	}
	for i := range gates {
		if err := h.ask(ctx, &gates[i]); err != nil {
			return refused(err)
		}
	}
	a := h.settle(r)
	a.gates = gates
	if len(r.Jobs) == 0 {
		return a, haulier.EnqueueResult{IDs: make([]haulier.ID, len(a.jobs)), Dropped: a.dropped}
	}
	return a, haulier.EnqueueResult{}
}

// hearing is what the hooks have made of a request so far.
type hearing struct {
	now     time.Time
	specs   []haulier.Spec
	notes   []string
	gone    []bool
	dropped []haulier.Dropped
}

// ask carries out what one hook says.
func (h *hearing) ask(ctx context.Context, hook *gate) error {
	var places []int
	var jobs []*haulier.Spec
	for i := range h.specs {
		if !h.gone[i] && (hook.selects == nil || hook.selects(&h.specs[i])) {
			s := h.specs[i] // a hook that is given up may go on to write
			places, jobs = append(places, i), append(jobs, &s)
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	name := hook.HookName()
	var verdicts []haulier.Verdict
	err := haulier.CallHook(ctx, hook.most, func(ctx context.Context) (err error) {
		verdicts, err = hook.BeforeEnqueue(ctx, jobs)
		return err
	})
	if err == nil && len(verdicts) != 0 && len(verdicts) != len(jobs) {
		err = fmt.Errorf("%d verdicts about %d jobs", len(verdicts), len(jobs))
	}
	if err != nil {
		return hookFailed(name, "before the enqueue", err)
	}
	for k, i := range places {
		if jobs[k].Tenant != h.specs[i].Tenant {
			return hookFailed(name, "before the enqueue", errors.New("it changed the tenant of a job, which no hook may"))
		}
		h.specs[i] = *jobs[k]
		if len(verdicts) > 0 {
			if err := h.carryOut(i, name, &verdicts[k]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *hearing) carryOut(i int, name string, v *haulier.Verdict) error {
	if err := v.Check(); err != nil {
		return hookFailed(name, "before the enqueue", err)
	}
	why := "hook " + name + colon(v.Reason)
	switch v.Action {
	case haulier.ActionRefuse:
		return fmt.Errorf("jobs[%d]: %w by hook %s%s", i, haulier.ErrRefused, name, colon(v.Reason))
	case haulier.ActionAbort:
		h.gone[i] = true
		h.dropped = append(h.dropped, haulier.Dropped{At: i, Reason: why})
	case haulier.ActionDelay:
		h.notes[i] = "delayed by " + why
		if at := h.now.Add(time.Duration(v.Delay)); at.After(h.specs[i].RunAt) {
			h.specs[i].RunAt = at
		}
	}
	return nil
}

// settle leaves in r the jobs that are to be added.
func (h *hearing) settle(r *haulier.EnqueueRequest) *asked {
	slices.SortFunc(h.dropped, func(a, b haulier.Dropped) int { return a.At - b.At })
	a := &asked{jobs: r.Jobs, dropped: h.dropped}
	r.Jobs = make([]haulier.Spec, 0, len(h.specs))
	for i := range h.specs {
		if !h.gone[i] {
			r.Jobs = append(r.Jobs, h.specs[i])
			a.places, a.notes = append(a.places, i), append(a.notes, h.notes[i])
		}
	}
	return a
}

// after tells the hooks of the jobs that were added; those that were there before are not among them.
func (a *asked) after(ctx context.Context, r *haulier.EnqueueRequest, done *haulier.EnqueueResult) error {
	if a == nil {
		return nil
	}
	jobs := make([]*haulier.Spec, 0, len(r.Jobs))
	for i := range r.Jobs {
		if !slices.Contains(done.Existing, i) {
			s := r.Jobs[i]
			s.ID = done.IDs[i]
			jobs = append(jobs, &s)
		}
	}
	var errs []error
	for _, hook := range a.gates {
		told := jobs
		if hook.selects != nil {
			told = slices.DeleteFunc(slices.Clone(jobs), func(s *haulier.Spec) bool { return !hook.selects(s) })
		}
		if len(told) == 0 {
			continue
		}
		err := haulier.CallHook(ctx, hook.most, func(ctx context.Context) error { return hook.AfterEnqueue(ctx, told) })
		if err != nil {
			errs = append(errs, fmt.Errorf("jobs were added, %v the first of %d, but %w: hook %s, after that: %w",
				jobs[0].ID, len(jobs), haulier.ErrRefused, hook.HookName(), err))
		}
	}
	return errors.Join(errs...)
}

// hookFailed is the error of a request whose hook failed: one to try again when the hook was not there or too slow.
func hookFailed(name, when string, err error) error {
	switch {
	case errors.Is(err, haulier.ErrUnavailable):
		return fmt.Errorf("hook %s, %s: %w", name, when, err)
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded): // who enqueues waits no longer
		return fmt.Errorf("hook %s, %s: %w: %w", name, when, haulier.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: hook %s, %s: %w", haulier.ErrRefused, name, when, err)
}
