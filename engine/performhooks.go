package engine

import (
	"context"
	"fmt"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/webhook"
)

// mark tells the worker of claimed jobs that there are hooks to be asked about them.
func (h *hooks) mark(jobs []haulier.Job) {
	if *h.set.Load() == nil {
		return
	}
	for i := range jobs {
		j := &jobs[i]
		for _, k := range h.of(j.Tenant) {
			if !k.Selects(&j.Spec) {
				continue
			}
			if k.On(haulier.BeforePerform) {
				j.Hooked |= haulier.HookedBefore
			}
			if k.On(haulier.AfterPerform) {
				j.Hooked |= haulier.HookedAfter
			}
		}
	}
}

// AskHooks implements haulier.Consumer. The server calls hooks for its workers, which so need neither the secrets nor a way to where the hooks are.
func (e *Engine) AskHooks(ctx context.Context, session haulier.ID, c haulier.HookCall) (haulier.HookAnswer, error) {
	if c.Event != haulier.BeforePerform && c.Event != haulier.AfterPerform {
		return haulier.HookAnswer{}, field("event", fmt.Sprintf("%.20q is neither before_perform nor after_perform", c.Event))
	}
	jobs, err := e.store.Jobs(ctx, []haulier.ID{c.Job})
	if err != nil {
		return haulier.HookAnswer{}, fmt.Errorf("hooks of %v: %w", c.Job, err)
	}
	j := jobs[0]
	if j == nil || !j.State.Owned() || j.Session != session || j.Attempt != c.Attempt {
		return haulier.HookAnswer{}, fmt.Errorf("hooks of %v: %w: attempt %d is not the session's", c.Job, haulier.ErrLeaseLost, c.Attempt)
	}
	a := asking{e: e, call: &c, attempt: j.Attempt, spec: j.Spec}
	for _, h := range e.hooks.of(j.Tenant) {
		if !h.On(c.Event) || !h.Selects(&j.Spec) {
			continue
		}
		if a.one(ctx, &h); a.out.Hook != "" {
			break
		}
	}
	return a.out, nil
}

// asking is one AskHooks on its way.
type asking struct {
	e       *Engine
	call    *haulier.HookCall
	attempt int
	spec    haulier.Spec // as the hooks so far have made it
	out     haulier.HookAnswer
}

// one asks a hook. When it does not allow the attempt, or fails, the answer names it.
func (a *asking) one(ctx context.Context, h *haulier.Hook) {
	told := webhook.JobOf(&a.spec)
	told.Attempt = a.attempt
	if a.call.Event == haulier.AfterPerform {
		told.End(&a.call.End)
	}
	list, _, err := a.e.call(ctx, h, &webhook.Message{Event: a.call.Event, Hook: h.Name, Jobs: []webhook.Job{told}})
	if err == nil && len(list) > 0 {
		err = a.take(ctx, h, &list[0])
	}
	if err = a.e.tolerated(h, err); err != nil {
		a.out = haulier.HookAnswer{Hook: h.Name, Error: err.Error()}
	}
}

// take carries out a verdict before an attempt.
func (a *asking) take(ctx context.Context, h *haulier.Hook, r *webhook.Reply) error {
	if r.Action != "" && r.Action != haulier.ActionAllow {
		a.out.Hook, a.out.Verdict = h.Name, r.Verdict
		return nil
	}
	if r.Job == nil {
		return nil
	}
	changed := a.spec
	if err := r.Apply(&changed); err != nil {
		return err
	}
	if changed.Task.Kind() != a.spec.Task.Kind() {
		return fmt.Errorf("%w: it changed the kind of the task, which no hook may", haulier.ErrInvalid)
	}
	if err := first(
		func() error { return checkTask(&changed) },
		func() error { return checkPolicies(&changed, a.spec.CreatedAt) },
	); err != nil {
		return err
	}
	a.spec = changed
	if t := changed.Task.HTTP; t != nil && t.Secret != "" { // what the claim signed was another body
		key, err := a.e.keyOf(ctx, changed.Tenant, t.Secret)
		if err != nil {
			return err
		}
		signWith(key, &changed)
	}
	a.e.handlers.tell(&changed)
	a.out.Change = &haulier.HookChange{Task: changed.Task, Payload: changed.Payload, Timeout: changed.Timeout}
	return nil
}
