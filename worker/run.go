package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
)

// cause says why a run is to end before its time. A later one takes the place of those before it.
type cause int8

const (
	causeNone   cause = iota
	causeCancel       // somebody asked for it; the end is reported
	causeAbort        // the worker ends; the job is given back
	causeFence        // the lease may have run out; the job is given back, if that can still be said
	causeLost         // the job is somebody else's; nothing is reported
)

// grace is how long a command may take to end; negative: what its task says.
func (c cause) grace(w *Worker) time.Duration {
	switch c {
	case causeCancel:
		return -1
	case causeAbort:
		return w.cfg.Grace
	}
	return 0
}

var causeErrors = map[cause]error{
	causeCancel: errors.New("the job was cancelled"),
	causeAbort:  errors.New("the worker is stopping"),
	causeFence:  errors.New("the worker could not reach the server for a whole lease"),
	causeLost:   haulier.ErrLeaseLost,
}

// run is one attempt that the worker holds.
type run struct {
	s         *session
	job       *haulier.Job // of an adopted attempt only its id and number are known
	claimedAt time.Time
	adopted   bool // another worker started it

	// Guarded by the worker's lock.
	begun   bool // it has, or had, a slot
	done    bool // its end is queued
	cause   cause
	attempt executor.Attempt // of a command, from its Start on
	cancel  context.CancelCauseFunc
	told    told
	refused bool // the server has refused how it ended

	out outbox
	fn  activity // of a function
}

func (r *run) ref() haulier.Ref { return haulier.Ref{Job: r.job.ID, Attempt: r.job.Attempt} }

// begin is called with the lock held, when the run gets its slot.
func (r *run) begin() {
	r.begun = true
	if time.Until(r.s.safeUntil()) <= 0 { // the worker stood still since it claimed the job
		r.end(causeFence)
		return
	}
	if r.job.Task.Kind() == haulier.KindGo {
		r.s.report(r, haulier.Report{Ref: r.ref(), Kind: haulier.ReportStart})
	}
}

// execute runs the job and returns the report of its end.
func (r *run) execute(ctx context.Context) haulier.Report {
	w := r.s.w
	if r.job.Blob != "" && r.job.Payload == nil {
		b, err := r.fetch(ctx)
		if err != nil {
			return r.failed("payload: " + err.Error())
		}
		r.job.Payload = b
	}
	if len(w.cfg.Hooks) > 0 || r.job.Hooked != 0 {
		return r.hooked(ctx)
	}
	return r.perform(ctx)
}

// perform runs the job itself.
func (r *run) perform(ctx context.Context) haulier.Report {
	w := r.s.w
	if r.job.Task.Kind() == haulier.KindGo {
		return r.call(ctx, w.funcs[r.job.Type])
	}
	x := w.execs[r.job.Task.Kind()]
	if x == nil {
		return r.failed(fmt.Sprintf("this worker can't run tasks of kind %s", r.job.Task.Kind()))
	}
	preparing, done := r.cancellable(ctx) // an image may take its time
	a, err := x.Prepare(preparing, r.job, r.job.Payload)
	done()
	if err != nil {
		if c := r.ending(); c != causeNone {
			return r.stopped(c, "ended while it was prepared")
		}
		return r.failed(err.Error())
	}
	return r.start(ctx, a)
}

// fetch gets a payload that is a blob.
func (r *run) fetch(ctx context.Context) (b []byte, err error) {
	err = r.patiently(ctx, func() (err error) {
		b, err = r.payload(ctx)
		return err
	})
	return b, err
}

// payloadWait bounds one call for a payload.
const payloadWait = time.Minute

func (r *run) payload(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, payloadWait)
	defer cancel()
	return r.s.w.cfg.Consumer.Payload(ctx, r.s.id, r.ref())
}

func (r *run) ending() cause {
	r.s.w.mu.Lock()
	defer r.s.w.mu.Unlock()
	return r.cause
}

// start lets a prepared attempt run and waits for its end.
func (r *run) start(ctx context.Context, a executor.Attempt) haulier.Report {
	w := r.s.w
	if c := r.ending(); c != causeNone {
		a.Close()
		return r.stopped(c, "ended before it was started")
	}
	if end := r.fetchInputs(ctx, a); end != nil {
		a.Close()
		return *end
	}
	if err := a.Start(ctx, r); err != nil {
		a.Close()
		return r.failed(err.Error())
	}
	w.mu.Lock()
	r.attempt = a
	w.mu.Unlock()
	return r.await(ctx)
}

// goOn waits for the end of an attempt that another worker started.
func (r *run) goOn(ctx context.Context) haulier.Report {
	r.s.w.mu.Lock()
	r.begun = true
	r.s.w.mu.Unlock()
	if err := r.attempt.Start(ctx, r); err != nil {
		return r.failed(err.Error())
	}
	return r.after(ctx, r.await(ctx))
}

// await reports the start of a command and waits for its end.
func (r *run) await(ctx context.Context) haulier.Report {
	w := r.s.w
	w.mu.Lock()
	if r.cause != causeNone { // it came while there was nothing to stop
		r.attempt.Stop(r.cause.grace(w))
	}
	r.s.report(r, haulier.Report{Ref: r.ref(), Kind: haulier.ReportStart})
	w.mu.Unlock()
	res, err := r.attempt.Wait(ctx)
	if err != nil {
		return r.failed(err.Error())
	}
	if c := r.ending(); c != causeNone && res.Outcome != haulier.OutcomeOK {
		return r.stopped(c, res.Error)
	}
	if res.Lapsed {
		return r.stopped(causeFence, res.Error)
	}
	if res.Released {
		return haulier.Report{Ref: r.ref(), Kind: haulier.ReportRelease, Error: res.Error, Delay: res.Delay}
	}
	return r.keepOutputs(ctx, haulier.Report{
		Ref: r.ref(), Kind: haulier.ReportFinish, Outcome: res.Outcome, Code: res.Code,
		Error: res.Error, Result: res.Result, ResultBlob: res.ResultBlob, Delay: res.Delay, Account: res.Account,
	})
}

// stopped is the report of a run that ended before its time.
func (r *run) stopped(c cause, why string) haulier.Report {
	switch c {
	case causeAbort, causeFence:
		return haulier.Report{Ref: r.ref(), Kind: haulier.ReportRelease, Error: causeErrors[c].Error()}
	case causeCancel:
		why = "cancelled: " + why
	}
	return r.failed(why)
}

// failed is the report of a run that went wrong and may be tried again.
func (r *run) failed(why string) haulier.Report {
	return haulier.Report{Ref: r.ref(), Kind: haulier.ReportFinish, Outcome: haulier.OutcomeError, Code: -1, Error: why}
}

// end asks a run to end. It is called with the lock held.
func (r *run) end(c cause) {
	if c <= r.cause {
		return
	}
	r.cause = c
	if c == causeLost {
		r.out.end()
	}
	if r.attempt != nil && !r.done {
		r.attempt.Stop(c.grace(r.s.w))
	}
	if r.attempt != nil && r.done && c == causeLost {
		r.attempt.Close() // its end can't be reported any more
	}
	if r.cancel != nil {
		r.cancel(causeErrors[c])
	}
}

// release gives back a run without waiting for its end. It is called with the lock held.
func (r *run) release(why string) {
	r.conclude(haulier.Report{Ref: r.ref(), Kind: haulier.ReportRelease, Error: why})
}

// conclude queues the report of the end. It is called with the lock held.
func (r *run) conclude(end haulier.Report) {
	if r.done {
		return
	}
	r.done = true
	if r.cause == causeLost || r.s.lost {
		if r.attempt != nil {
			r.attempt.Close()
		}
		return
	}
	r.s.report(r, end)
}
