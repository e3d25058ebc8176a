// Package executor is the port between a worker and a kind of task.
//
// A worker knows nothing of processes or containers: it prepares an attempt,
// starts it, waits for its end, reports it, and closes it. An executor whose
// attempts live outside the worker's process keeps what it needs in the
// worker's state folder and hands them to the next worker from Open.
//
//	Prepare ─► Start ─► Wait ─► Close         an attempt of this worker
//	Open ────► Start ─► Wait ─► Close         one that a former worker left
//	Prepare ─────────────────► Close          given back before it was started
//	           Stop may come at any time after Start
package executor

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/haulier/haulier"
)

// Window is the most output, in encoded bytes, that may be handed to a Sink and
// not be acknowledged yet.
const Window = 128 << 10

// Executor runs tasks of one kind. Its methods are safe for concurrent use,
// but Open comes first and Close last.
type Executor interface {
	// Kind of the tasks that it runs.
	Kind() haulier.Kind
	// Open makes the executor ready and returns the attempts that a former worker
	// of the same state folder left, running or ended.
	Open(ctx context.Context, e Env) ([]Attempt, error)
	// Prepare creates what the job's attempt needs and does not start it. The
	// payload is the job's, also when the spec only names a blob. What is wrong with the
	// task itself is told by Wait's Result; an error of Prepare is the
	// executor's own trouble, after which the job may be tried again.
	Prepare(ctx context.Context, job *haulier.Job, payload []byte) (Attempt, error)
	// Lease tells until when the worker's lease holds. When that has passed and no later time was told,
	// also because the worker can't tell anything, what runs outside the worker's process is
	// ended and nothing is started: others may run the same jobs. It does not block.
	Lease(until time.Time)
	// Close ends the executor. Attempts that were not closed go on, for the next
	// worker to take over, where the executor can do that and has a state folder.
	Close() error
}

// Env is what a worker gives its executors.
type Env struct {
	// Dir is the worker's state folder, which this worker alone uses. Empty: there
	// is none, and nothing outlives the worker.
	Dir string
	// Patience is how long attempts may go on after the worker's death, until the
	// next worker comes. After that others run the same jobs, so they must be ended.
	Patience time.Duration
	// Version of the worker's program.
	Version string
	Log     *slog.Logger
	// Blobs is where the blobs of jobs are. Nil: the worker was not told.
	Blobs Blobs
}

// Blobs is what executors need of haulier.Blobs.
type Blobs interface {
	PutBlob(ctx context.Context, tenant, addr string, content io.Reader) error
	ReadBlob(ctx context.Context, tenant, addr string, from, n int64) (io.ReadCloser, int64, error)
}

// Attempt is one run of a job. Its methods are safe for concurrent use.
type Attempt interface {
	// Ref names the attempt.
	Ref() haulier.Ref
	// Start lets it run, or, when it came from Open, goes on where the worker before
	// stopped. Output goes to the sink. It is called at most once. It does not wait
	// until the task is really on its way; what prevents that is told by Wait.
	Start(ctx context.Context, out Sink) error
	// Wait returns how the attempt ended, after all its output went to the sink. When ctx
	// ends first it returns its error and the attempt goes on.
	Wait(ctx context.Context) (Result, error)
	// Folder is the working folder, where inputs are put between Prepare and Start, and outputs are
	// found until Close. Empty: it has none.
	Folder() string
	// Acked tells that the output before the offset is safe with the server. It does not block.
	Acked(offset int64)
	// Stop asks it to end, and ends it by force when grace has passed: zero means at once,
	// negative means the task's own grace. It does not wait for the end. Of
	// several calls the one that ends it earliest holds.
	Stop(grace time.Duration)
	// Close frees what belongs to the attempt, once its end is reported or nobody
	// wants to know. What still runs is ended by force. It may be repeated.
	Close() error
}

// Sink takes what an attempt tells while it runs.
type Sink interface {
	// Log takes output: whole frames (see package joblog) that begin at offset from and follow
	// those before. It copies them. It blocks only while more than Window bytes
	// are unacknowledged. The error is that of ctx.
	Log(ctx context.Context, from int64, frames []byte) error
	// Progress says how far the attempt is; percent is negative when that is not known.
	Progress(percent float64, step string)
}

// Result is how an attempt ended.
type Result struct {
	Outcome haulier.Outcome
	Code    int    // exit code or status
	Error   string // why not ok
	Result  []byte // at most haulier.MaxResult bytes
	// ResultBlob is the address of the whole result, which the executor has put among the blobs; "": it has not.
	ResultBlob string
	Delay      time.Duration
	Account    *haulier.Account // nil: nothing is known
	Stopped    bool             // it ended because of Stop
	Lapsed     bool             // it ended because the lease of this worker was over
	// Released: it is to be run again, after Delay, and this does not count as a try; Error says why.
	Released bool
}
