package script

import (
	"context"
	"sync"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
	"github.com/haulier/haulier/joblog"
)

// attempt is one run of a job.
type attempt struct {
	x       *Executor
	job     *haulier.Job
	payload []byte
	handler *haulier.Handler
	early   *executor.Result // how it ends without having run; nil: it runs
	timeout time.Duration

	ctx    context.Context //nolint:containedctx // ends when nobody wants its output any more
	cancel context.CancelFunc
	sink   executor.Sink
	out    sync.Mutex // held while output goes to the sink
	offset int64      // of the output that went there

	once   sync.Once
	ended  chan struct{}
	result executor.Result // to be read when ended is closed

	// Guarded by the executor's lock.
	queuedAt time.Time
	in       *process // context that has it
	stopping bool     // it is to end
}

func newAttempt(x *Executor, job *haulier.Job, payload []byte) *attempt {
	a := &attempt{x: x, job: job, payload: payload, timeout: time.Duration(job.Timeout), ended: make(chan struct{})}
	if a.timeout <= 0 {
		a.timeout = x.cfg.Timeout
	}
	a.ctx, a.cancel = context.WithCancel(x.over)
	return a
}

// Ref implements executor.Attempt.
func (a *attempt) Ref() haulier.Ref { return haulier.Ref{Job: a.job.ID, Attempt: a.job.Attempt} }

// Start implements executor.Attempt.
func (a *attempt) Start(_ context.Context, out executor.Sink) error {
	a.sink = out
	if a.early != nil {
		a.finish(*a.early)
		return nil
	}
	a.x.enqueue(a)
	return nil
}

// Wait implements executor.Attempt.
func (a *attempt) Wait(ctx context.Context) (executor.Result, error) {
	select {
	case <-a.ended:
		return a.result, nil
	case <-ctx.Done():
		return executor.Result{}, ctx.Err()
	}
}

// finish ends the attempt; the first end holds.
func (a *attempt) finish(r executor.Result) {
	a.once.Do(func() {
		a.result = r
		close(a.ended)
	})
}

// log hands output to the sink.
func (a *attempt) log(s joblog.Stream, data []byte) {
	if len(data) == 0 {
		return
	}
	a.out.Lock()
	defer a.out.Unlock()
	for len(data) > 0 { // no more at once than may wait to be acknowledged
		n := min(len(data), joblog.MaxFrame)
		frames := joblog.Append(nil, s, time.Now(), data[:n])
		if a.sink.Log(a.ctx, a.offset, frames) != nil {
			return
		}
		a.offset += int64(len(frames))
		data = data[n:]
	}
}

// Acked implements executor.Attempt.
func (*attempt) Acked(int64) {}

// Folder implements executor.Attempt: the working folder is the context's.
func (*attempt) Folder() string { return "" }

// Stop implements executor.Attempt. A handler can't be asked to end, so that its context is ended: at once when it runs this
// job, or else when the job's turn comes.
func (a *attempt) Stop(grace time.Duration) { a.x.end(a, grace == 0) }

// Close implements executor.Attempt.
func (a *attempt) Close() error {
	select {
	case <-a.ended:
	default:
		if a.sink != nil {
			a.x.end(a, true)
		}
	}
	a.cancel()
	return nil
}
