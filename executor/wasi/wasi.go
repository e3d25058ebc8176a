// Package wasi runs tasks of the kind wasi: WebAssembly modules for WASI preview 1, within the worker's process.
//
// A module sees its arguments, its environment, standard input, output and error, and one folder, the job's own, as /. There is no
// network. Its clock stands at a fixed time and its random numbers are the same in each run, unless the task allows real ones. Its memory, tables, open files,
// standard output and what it writes to its folder are bounded, and so is the processor time that the task allows. How it ended follows from its exit code:
//
//	0        ok
//	75       retry
//	65, 66   failed
//	other    error, as are traps, timeouts and limits that were passed
//
// A module that can't be run, since it is none or asks for what WASI does not have, ends failed.
//
// Compiled modules are kept in memory and in the worker's state folder. Attempts do not outlive the worker's process.
package wasi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
)

// Bounds unless the configuration says otherwise, in bytes.
const (
	DefaultMemory = 256 << 20
	DefaultCache  = 1 << 30
)

// Bounds of one attempt.
const (
	maxStdout = haulier.MaxBlobPayload // bytes of standard output
	maxLog    = 8 << 20                // bytes of standard error; the server keeps as much
	maxFiles  = 256                    // that are open at once
	maxDisk   = 4 << 30                // bytes that are written to files
	maxModule = 64 << 20               // bytes of a module
)

// Config configures an Executor. The zero value is usable.
type Config struct {
	// Memory is how many bytes a module may have at most. Zero: DefaultMemory. A task may ask for less.
	Memory int64
	// Cache is how many bytes of compiled modules are kept in the state folder. Zero: DefaultCache.
	Cache int64
}

// Executor runs modules. It implements executor.Executor.
type Executor struct {
	cfg     Config
	log     *slog.Logger
	dir     string // for the folders of attempts
	own     bool   // dir is a temporary one
	blobs   executor.Blobs
	modules *modules
	runs    sync.WaitGroup
	over    context.Context //nolint:containedctx // ends with the executor, which outlives the calls that begin attempts
	stop    context.CancelFunc
}

// New returns an executor of modules.
func New(c Config) *Executor {
	if c.Memory <= 0 {
		c.Memory = DefaultMemory
	}
	if c.Cache <= 0 {
		c.Cache = DefaultCache
	}
	x := &Executor{cfg: c}
	x.over, x.stop = context.WithCancel(context.Background())
	return x
}

// Kind implements executor.Executor.
func (*Executor) Kind() haulier.Kind { return haulier.KindWasi }

// Open implements executor.Executor. There is never anything left.
func (x *Executor) Open(_ context.Context, e executor.Env) ([]executor.Attempt, error) {
	x.log, x.blobs = e.Log, e.Blobs
	if x.log == nil {
		x.log = slog.New(slog.DiscardHandler)
	}
	dir, cached := e.Dir, ""
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "haulier-wasi-"); err != nil {
			return nil, fmt.Errorf("modules: %w", err)
		}
		x.own = true
	} else {
		cached = filepath.Join(dir, "wasi", "compiled")
	}
	x.dir = filepath.Join(dir, "wasi", "jobs")
	if x.own {
		x.dir = dir
	}
	if err := errors.Join(os.RemoveAll(x.dir), os.MkdirAll(x.dir, 0o700)); err != nil { // what a worker that was killed left
		return nil, fmt.Errorf("modules: %w", err)
	}
	m, err := openModules(x, cached)
	if err != nil {
		return nil, fmt.Errorf("modules: %w", err)
	}
	x.modules = m
	return nil, nil
}

// Lease implements executor.Executor. The worker itself stops what runs within its process.
func (*Executor) Lease(time.Time) {}

// Close implements executor.Executor.
func (x *Executor) Close() error {
	x.stop()
	x.runs.Wait()
	var err error
	if x.modules != nil {
		err = x.modules.close()
	}
	if x.own {
		err = errors.Join(err, os.RemoveAll(x.dir))
	}
	return err
}

// newRuntime makes what modules run in. All of them share it, and see nothing of each other.
func newRuntime(ctx context.Context, cache wazero.CompilationCache) (wazero.Runtime, error) {
	c := wazero.NewRuntimeConfig().WithCloseOnContextDone(true).WithCompilationCache(cache).WithDebugInfoEnabled(false)
	r := wazero.NewRuntimeWithConfig(ctx, c)
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, r); err != nil {
		return nil, errors.Join(err, r.Close(ctx))
	}
	return r, nil
}

// Prepare implements executor.Executor. The attempt gets a folder
//
//	wasi/jobs/JOB.ATTEMPT/work     working folder
//	                     /stdout   what is more than fits the memory
//
// which is made when there is something to be put into it: for a short module it would cost more than all the rest.
func (x *Executor) Prepare(_ context.Context, job *haulier.Job, payload []byte) (executor.Attempt, error) {
	if job.Task.Wasi == nil {
		return nil, fmt.Errorf("task: %w: it is of kind %s", haulier.ErrInvalid, job.Task.Kind())
	}
	if x.blobs == nil {
		return nil, errors.New("this worker was not told where blobs are: set Config.Blobs")
	}
	a := &attempt{x: x, job: job, task: job.Task.Wasi, payload: payload, ended: make(chan struct{})}
	a.dir = filepath.Join(x.dir, job.ID.String()+"."+strconv.Itoa(job.Attempt))
	if job.Files != nil {
		if err := os.MkdirAll(a.Folder(), 0o700); err != nil {
			return nil, errors.Join(fmt.Errorf("folder of the job: %w", err), os.RemoveAll(a.dir))
		}
	}
	a.stdout.path = filepath.Join(a.dir, "stdout")
	a.ctx, a.cancel = context.WithCancelCause(x.over)
	return a, nil
}
