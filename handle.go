package haulier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Function runs one attempt of a job. A nil error ends it ok; another one ends
// it as error, unless it wraps one that Fail or RetryIn made. The context ends
// when the job is cancelled, times out, or no longer belongs to the worker.
type Function func(ctx context.Context, job *Job) error

// Registry takes functions by the type of the jobs they run. A worker is one.
type Registry interface {
	// Register adds a function. It panics when the type has one, is no valid name, or the worker runs already.
	Register(typ string, fn Function)
}

// Handle makes fn run the jobs of the type. The payload is JSON of T: an empty one gives the zero
// value, and one that does not decode ends the job as failed. When T is
// []byte the payload is handed over as it is.
//
// Within fn, Progress, SetResult, Then and Log tell of the job. A panic ends the attempt as
// error, with the stack in the job's output.
func Handle[T any](r Registry, typ string, fn func(ctx context.Context, job *Job, arg T) error) {
	r.Register(typ, func(ctx context.Context, job *Job) error {
		var arg T
		if raw, ok := any(&arg).(*[]byte); ok {
			*raw = job.Payload
		} else if len(job.Payload) > 0 {
			if err := json.Unmarshal(job.Payload, &arg); err != nil {
				return Fail(fmt.Errorf("payload: %w: it is no JSON of %T: %w", ErrInvalid, arg, err))
			}
		}
		return fn(ctx, job, arg)
	})
}

// AttemptError is an error that says how the attempt is to end.
type AttemptError struct {
	Outcome Outcome
	Delay   time.Duration // with OutcomeRetry: wait this long instead of the back-off, when positive
	Err     error
}

func (e *AttemptError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *AttemptError) Unwrap() error { return e.Err }

// Fail marks err as final: the job ends failed, whatever attempts remain. Of nil it makes nil.
func Fail(err error) error {
	if err == nil {
		return nil
	}
	return &AttemptError{Outcome: OutcomeFailed, Err: err}
}

// RetryIn asks to run the job again after d (not positive: after its back-off), while attempts last.
// err says why and may be nil.
func RetryIn(d time.Duration, err error) error {
	if err == nil {
		err = errors.New("asked to run again")
	}
	return &AttemptError{Outcome: OutcomeRetry, Delay: d, Err: err}
}

// Activity is what a running function can tell of its job. A worker provides it; its methods are safe for concurrent use.
type Activity interface {
	Progress(percent float64, step string)
	SetResult(result []byte) error
	Then(specs []Spec)
	Log() io.Writer
}

type activityKey struct{}

// WithActivity returns a context from which Progress, SetResult, Then and Log reach a. Workers use it, and tests of functions may.
func WithActivity(ctx context.Context, a Activity) context.Context {
	return context.WithValue(ctx, activityKey{}, a)
}

func activity(ctx context.Context) Activity {
	a, _ := ctx.Value(activityKey{}).(Activity)
	return a
}

// Progress says how far the job is: percent from 0 to 100, negative when unknown, and a few words, which may be empty.
// Outside of a worker it does nothing.
func Progress(ctx context.Context, percent float64, step string) {
	if a := activity(ctx); a != nil {
		a.Progress(percent, step)
	}
}

// SetResult keeps v, as JSON, as the result of the attempt; the last call counts. Outside of a
// worker it only checks v. ErrTooLarge: it is longer than MaxResult.
func SetResult(ctx context.Context, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("result: %w: %w", ErrInvalid, err)
	}
	if len(b) > MaxResult {
		return fmt.Errorf("result: %w: %d bytes of at most %d; keep it elsewhere and return where", ErrTooLarge, len(b), MaxResult)
	}
	if a := activity(ctx); a != nil {
		return a.SetResult(b)
	}
	return nil
}

// Then adds jobs in the same commit that ends this one, if it ends ok. Outside of a worker it does nothing.
func Then(ctx context.Context, specs ...Spec) {
	if a := activity(ctx); a != nil {
		a.Then(specs)
	}
}

// Log is the job's output. Writes block while the server is too slow, and never fail while the job
// runs. Outside of a worker it discards.
func Log(ctx context.Context) io.Writer {
	if a := activity(ctx); a != nil {
		return a.Log()
	}
	return io.Discard
}
