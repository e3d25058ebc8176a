package haulier

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// EnqueueHook stands where jobs come in: it is registered with an engine, and asked about each request to enqueue. Jobs that the server
// makes itself (what follows on an end, deliveries, runs of workflows) do not pass it.
//
// Its methods are called from many goroutines at once, outside of any commit, and in the order in which hooks were registered. A panic is
// an error. What takes longer than the engine's HookTimeout is given up, and is an error too.
type EnqueueHook interface {
	// HookName names it in reasons and errors.
	HookName() string
	// BeforeEnqueue is asked about all jobs of a request, complete with their defaults. It may change their fields, but for the tenant; maps
	// and what pointers and slices lead to are replaced, not written to. It returns a verdict for each job, or none to allow all.
	// An error, like a refusal of one job, refuses the request as a whole.
	BeforeEnqueue(ctx context.Context, jobs []*Spec) ([]Verdict, error)
	// AfterEnqueue is told of the jobs that were added. An error goes to who has enqueued them, with their ids; they stay.
	AfterEnqueue(ctx context.Context, jobs []*Spec) error
}

// PerformHook stands around the run of a job: it is registered with a worker. What is said of EnqueueHook about goroutines, panics and time holds.
type PerformHook interface {
	// HookName names it in reasons and errors.
	HookName() string
	// BeforePerform is asked before an attempt starts. It may change what the attempt gets: payload, task, timeout. An error ends the attempt
	// as that of a Function does.
	BeforePerform(ctx context.Context, job *Job) (Verdict, error)
	// AfterPerform is told how an attempt ended. An error makes one that ended ok an error, or what Fail or RetryIn says, and is added to the
	// text of another. Of an attempt that another worker began, it knows only ID and Attempt of the job.
	AfterPerform(ctx context.Context, job *Job, end Report) error
}

// Verdict is what a hook decides about a job. The zero value allows it.
type Verdict struct {
	Action Action   `json:"action,omitempty"` // allow unless said
	Reason string   `json:"reason,omitempty"` // in words, of all but allow
	Delay  Duration `json:"delay,omitzero"`   // of delay; positive
}

// Action is what becomes of a job.
type Action string

// The actions.
const (
	ActionAllow Action = "allow"
	// ActionRefuse is a failure. Before the enqueue, the request fails with ErrRefused; before an attempt, the job ends failed.
	ActionRefuse Action = "refuse"
	// ActionAbort is none. Before the enqueue, the job is not added, and the answer says so; before an attempt, the job ends cancelled.
	ActionAbort Action = "abort"
	// ActionDelay lets the job start later. Before an attempt, the job goes back to wait, and the attempt does not count.
	ActionDelay Action = "delay"
)

// MaxHookDelay is the most of Verdict.Delay.
const MaxHookDelay = 365 * 24 * time.Hour

// DefaultHookTimeout is how long a hook may take, unless said.
const DefaultHookTimeout = 10 * time.Second

// Check is an ErrInvalid when the verdict is none.
func (v *Verdict) Check() error {
	switch v.Action {
	case "", ActionAllow, ActionRefuse, ActionAbort:
		return nil
	case ActionDelay:
		if v.Delay <= 0 || time.Duration(v.Delay) > MaxHookDelay {
			return fmt.Errorf("%w: a delay of %v: it must be positive, and at most a year", ErrInvalid, v.Delay)
		}
		return nil
	}
	return fmt.Errorf("%w: action %.20q is none of allow, refuse, abort, delay", ErrInvalid, string(v.Action))
}

// Dropped is a job that a hook kept from being added.
type Dropped struct {
	At     int    `json:"at"`     // its place among the jobs of the request
	Reason string `json:"reason"` // names the hook
}

// CallHook runs f as hooks are run: for at most the given time (zero: DefaultHookTimeout), after which it is left alone, and with a panic
// as an error. f must write to nothing that its caller goes on to use after an error.
func CallHook(ctx context.Context, most time.Duration, f func(context.Context) error) error {
	if most <= 0 {
		most = DefaultHookTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("%w: it took longer than %v", ErrUnavailable, most))
	defer cancel()
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("panic: %v", p)
			}
		}()
		done <- f(ctx)
	}()
	select {
	case err := <-done:
		if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return context.Cause(ctx)
		}
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
