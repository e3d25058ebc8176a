package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/joblog"
)

// activity is what a function has told of its job for the end.
type activity struct {
	run    *run
	mu     sync.Mutex
	result []byte
	then   []haulier.Spec

	writing sync.Mutex
	log     int64 // bytes of log frames written
}

// call runs a function and returns the report of its end.
func (r *run) call(base context.Context, fn haulier.Function) haulier.Report {
	if fn == nil {
		return r.failed(fmt.Sprintf("this worker has no function for the type %q", r.job.Type))
	}
	ctx, cancel := context.WithCancelCause(base)
	defer cancel(nil)
	w := r.s.w
	w.mu.Lock()
	r.cancel = cancel
	c := r.cause
	w.mu.Unlock()
	if c != causeNone {
		return r.stopped(c, "ended before it was started")
	}
	r.fn.run = r
	call := haulier.WithActivity(ctx, &r.fn)
	if d := time.Duration(r.job.Timeout); d > 0 {
		var stop context.CancelFunc
		call, stop = context.WithTimeoutCause(call, d, fmt.Errorf("timed out after %v", d))
		defer stop()
	}
	err := r.protect(call, fn)
	return r.returned(call, err)
}

// protect turns a panic into an error, with its stack in the output.
func (r *run) protect(ctx context.Context, fn haulier.Function) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			r.write(joblog.Stderr, fmt.Appendf(nil, "panic: %v\n\n%s", p, debug.Stack()))
		}
	}()
	return fn(ctx, r.job)
}

// returned is the report of a function that has come back.
func (r *run) returned(ctx context.Context, err error) haulier.Report {
	rep := haulier.Report{Ref: r.ref(), Kind: haulier.ReportFinish, Outcome: haulier.OutcomeOK}
	r.fn.mu.Lock()
	rep.Result = r.fn.result
	if err == nil {
		rep.Then = r.fn.then
	}
	r.fn.mu.Unlock()
	if err == nil {
		return rep
	}
	if c := r.ending(); c != causeNone {
		end := r.stopped(c, err.Error())
		end.Result = rep.Result
		return end
	}
	rep.Outcome, rep.Error = haulier.OutcomeError, err.Error()
	var how *haulier.AttemptError
	switch {
	case errors.As(err, &how):
		rep.Outcome, rep.Delay = how.Outcome, how.Delay
	case ctx.Err() != nil:
		rep.Error = fmt.Sprintf("%v: %v", context.Cause(ctx), err)
	}
	if !rep.Outcome.Valid() || rep.Outcome == haulier.OutcomeOK {
		rep.Outcome = haulier.OutcomeError
	}
	return rep
}

// Progress implements haulier.Activity.
func (a *activity) Progress(percent float64, step string) { a.run.Progress(percent, step) }

// SetResult implements haulier.Activity.
func (a *activity) SetResult(result []byte) error {
	if len(result) > haulier.MaxResult {
		return fmt.Errorf("result: %w: %d bytes of at most %d", haulier.ErrTooLarge, len(result), haulier.MaxResult)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.result = result
	return nil
}

// Then implements haulier.Activity.
func (a *activity) Then(specs []haulier.Spec) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.then = append(a.then, specs...)
}

// Log implements haulier.Activity.
func (a *activity) Log() io.Writer { return a }

// Write appends to the output of the job.
func (a *activity) Write(b []byte) (int, error) {
	a.run.write(joblog.Stdout, b)
	return len(b), nil
}

// write appends to the output of a function. Writers take turns, so that offsets follow each other.
func (r *run) write(stream joblog.Stream, b []byte) {
	r.fn.writing.Lock()
	defer r.fn.writing.Unlock()
	frames := joblog.Append(nil, stream, time.Now(), b)
	for len(frames) > 0 {
		_, n, err := joblog.Next(frames)
		if err != nil || r.Log(context.Background(), r.fn.log, frames[:n]) != nil {
			return
		}
		r.fn.log += int64(n)
		frames = frames[n:]
	}
}
