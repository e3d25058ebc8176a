package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/haulier/haulier"
)

// hooked runs a job between its hooks.
func (r *run) hooked(ctx context.Context) haulier.Report {
	if end, over := r.before(ctx); over {
		return end
	}
	return r.after(ctx, r.perform(ctx))
}

// before asks the hooks. over: the job is not to run, and ends as the report says.
func (r *run) before(base context.Context) (end haulier.Report, over bool) {
	ctx, cancel := context.WithCancelCause(base)
	defer cancel(nil)
	w := r.s.w
	w.mu.Lock()
	r.cancel = cancel
	c := r.cause
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		r.cancel = nil
		w.mu.Unlock()
	}()
	if c != causeNone {
		return r.stopped(c, "ended before it was started"), true
	}
	for _, hook := range w.cfg.Hooks {
		v, err := r.ask(ctx, hook)
		if c := r.ending(); c != causeNone {
			return r.stopped(c, "ended while its hooks were asked"), true
		}
		if end, over := r.heard(hook.HookName(), v, err); over {
			return end, true
		}
	}
	if r.job.Hooked&haulier.HookedBefore == 0 {
		return end, false
	}
	return r.beforeByServer(ctx)
}

// beforeByServer has the server ask its hooks, and takes over what they made of the job.
func (r *run) beforeByServer(ctx context.Context) (end haulier.Report, over bool) {
	a, err := r.askServer(ctx, haulier.HookCall{Ref: r.ref(), Event: haulier.BeforePerform})
	switch c := r.ending(); {
	case c != causeNone:
		return r.stopped(c, "ended while its hooks were asked"), true
	case err != nil:
		return r.failed("hooks before the start: " + err.Error()), true
	case a.Error != "":
		err = errors.New(a.Error)
	case a.Change != nil:
		changed := *r.job
		changed.Task, changed.Timeout = a.Change.Task, a.Change.Timeout
		if a.Change.Payload != nil {
			changed.Payload = a.Change.Payload
		}
		r.s.w.mu.Lock()
		r.job = &changed
		r.s.w.mu.Unlock()
	}
	return r.heard(a.Hook, a.Verdict, err)
}

// askServer waits for the answer while the server restarts.
func (r *run) askServer(ctx context.Context, c haulier.HookCall) (haulier.HookAnswer, error) {
	var wait backoff
	for {
		a, err := r.s.w.cfg.Consumer.AskHooks(ctx, r.s.id, c)
		if err == nil || !errors.Is(err, haulier.ErrUnavailable) || r.ending() != causeNone || !wait.pause(ctx, r.s.over) {
			return a, err
		}
	}
}

// ask lets a hook see the job, and takes over what it made of it. A hook that is given up keeps a job of its own.
func (r *run) ask(ctx context.Context, hook haulier.PerformHook) (haulier.Verdict, error) {
	j := *r.job
	var v haulier.Verdict
	err := haulier.CallHook(ctx, r.s.w.cfg.HookTimeout, func(ctx context.Context) (err error) {
		v, err = hook.BeforePerform(ctx, &j)
		return err
	})
	if err != nil {
		return haulier.Verdict{}, err
	}
	if err := v.Check(); err != nil {
		return v, err
	}
	if j.Task.Kind() != r.job.Task.Kind() {
		return v, haulier.Fail(errors.New("it changed the kind of the task, which no hook may"))
	}
	changed := *r.job
	changed.Payload, changed.Task, changed.Timeout = j.Payload, j.Task, j.Timeout
	r.s.w.mu.Lock() // others look at whose job it is
	r.job = &changed
	r.s.w.mu.Unlock()
	return v, nil
}

// heard is what a verdict means for the attempt. over: it does not start.
func (r *run) heard(name string, v haulier.Verdict, err error) (end haulier.Report, over bool) {
	why := "hook " + name
	if v.Reason != "" {
		why += ": " + v.Reason
	}
	switch {
	case err != nil:
		return r.wrong(fmt.Sprintf("hook %s, before the start: %v", name, err), err), true
	case v.Action == haulier.ActionRefuse:
		end = r.failed("refused by " + why)
		end.Outcome = haulier.OutcomeFailed
		return end, true
	case v.Action == haulier.ActionAbort:
		return haulier.Report{Ref: r.ref(), Kind: haulier.ReportAbort, Error: "aborted by " + why}, true
	case v.Action == haulier.ActionDelay:
		return haulier.Report{Ref: r.ref(), Kind: haulier.ReportRelease, Error: "delayed by " + why, Delay: time.Duration(v.Delay)}, true
	}
	return end, false
}

// after tells the hooks how the attempt ended. One that was given back has not.
func (r *run) after(ctx context.Context, end haulier.Report) haulier.Report {
	if end.Kind != haulier.ReportFinish || r.ending() == causeLost {
		return end
	}
	for _, hook := range r.s.w.cfg.Hooks {
		j := *r.job
		err := haulier.CallHook(ctx, r.s.w.cfg.HookTimeout, func(ctx context.Context) error { return hook.AfterPerform(ctx, &j, end) })
		if err != nil {
			end = r.spoilt(hook.HookName(), end, err)
		}
	}
	if r.job.Hooked&haulier.HookedAfter == 0 && !r.adopted {
		return end
	}
	a, err := r.askServer(ctx, haulier.HookCall{Ref: r.ref(), Event: haulier.AfterPerform, End: end})
	switch {
	case err != nil && !errors.Is(err, haulier.ErrLeaseLost): // what is lost shows in the report
		return r.spoilt("of the server", end, err)
	case a.Error != "":
		return r.spoilt(a.Hook, end, errors.New(a.Error))
	}
	return end
}

// spoilt is the end of an attempt of which a hook says afterwards that something went wrong.
func (r *run) spoilt(name string, end haulier.Report, err error) haulier.Report {
	why := fmt.Sprintf("hook %s, after the end: %v", name, err)
	if end.Outcome == haulier.OutcomeOK {
		bad := r.wrong(why, err)
		end.Outcome, end.Code, end.Error, end.Delay, end.Then = bad.Outcome, bad.Code, why, bad.Delay, nil
		return end
	}
	end.Error += "; " + why
	return end
}

// wrong is the report of an attempt that ends by an error, which may say how.
func (r *run) wrong(why string, err error) haulier.Report {
	end := r.failed(why)
	var how *haulier.AttemptError
	if errors.As(err, &how) && how.Outcome.Valid() && how.Outcome != haulier.OutcomeOK {
		end.Outcome, end.Delay = how.Outcome, how.Delay
	}
	return end
}
