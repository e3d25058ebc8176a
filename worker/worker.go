// Package worker pulls jobs, runs them and reports what became of them.
//
//	claims ─► ready ─► slots ─► reports      each worker
//	            renewals: cancel, lost       has one session
//
// A worker holds one session at the server and renews it. It claims as many jobs as
// it has free slots, and a few more when its jobs are short. What it has to report
// is kept until the server has acknowledged it, through restarts of
// the server; everything that is ready travels in one request while another is
// under way. When the session is lost, or may be lost by the worker's own
// clock since the server can't be reached, the worker ends what it runs, for
// somebody else may run the same jobs.
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
	"github.com/haulier/haulier/fileset"
)

// Config configures a Worker. Consumer is needed, and Executors or functions (see haulier.Handle).
type Config struct {
	Consumer  haulier.Consumer
	Executors []executor.Executor // one for each kind of task
	// Blobs is where inputs come from and outputs go to. Nil: the Consumer, when it has them too, as an engine and a client do.
	Blobs fileset.Blobs
	// Cache is how many bytes of blobs are kept in the state folder for the next job that needs them. Zero: DefaultCache; negative: none.
	Cache int64
	// Name of the worker, as people know it. Empty: the name of the host.
	Name    string
	Tenants []string       // whose jobs it runs; empty: the default tenant
	Queues  map[string]int // weight by queue, "*" for all others; empty: all alike
	// Types of the jobs that it runs. Those of functions are added. Empty: all
	// that the executors can run; with functions and executors it must be said.
	Types []string
	// Languages are those of the handlers that its executor of scripts can run.
	Languages []string
	// Concurrency is how many jobs run at once. Zero: the number of processors.
	Concurrency int
	// Prefetch is how many jobs more than that may be claimed in advance. As many are as will
	// start within a few milliseconds, so none while jobs are long. Zero: 1000; negative: none.
	Prefetch int
	// Lease is how long the session lives without the worker. Zero: haulier.DefaultLease.
	Lease time.Duration
	// Grace is how long commands may take to end after Abort. Zero: 2 s.
	Grace time.Duration
	// Dir is the state folder, from which the next worker takes over what this one
	// leaves when it is killed. Empty: nothing is left to take over.
	Dir     string
	Version string            // of the program
	Labels  map[string]string // what jobs may ask for (haulier.Spec.RunsOn), besides os, arch and host, which they replace
	// Hooks are asked before each attempt, and told of its end, in this order.
	Hooks []haulier.PerformHook
	// HookTimeout is how long each may take. Zero: haulier.DefaultHookTimeout.
	HookTimeout time.Duration
	Log         *slog.Logger
}

// Worker runs jobs. It implements haulier.Registry.
type Worker struct {
	cfg   Config
	log   *slog.Logger
	execs map[haulier.Kind]executor.Executor
	funcs map[string]haulier.Function
	cache *fileset.Cache // nil: none

	abort     chan struct{}
	abortOnce sync.Once
	slots     sync.WaitGroup

	mu      sync.Mutex
	work    sync.Cond // signalled when ready or closed change
	started bool
	closed  bool
	ready   fifo[*run]
	busy    int    // runs that occupy a slot
	slotN   int    // goroutines that serve slots
	idle    int    // of these, how many wait
	ended   uint64 // runs that have left their slot
	wanted  int    // how much room the claim loop waits for; 0: it does not
	ahead   int    // how many jobs it claims ahead
	room    chan struct{}
}

// New returns a worker that has yet to be run.
func New(c Config) (*Worker, error) {
	if c.Consumer == nil {
		return nil, fmt.Errorf("worker: %w: it has no server to pull from", haulier.ErrInvalid)
	}
	if err := complete(&c); err != nil {
		return nil, err
	}
	w := &Worker{
		cfg: c, log: c.Log, execs: map[haulier.Kind]executor.Executor{}, funcs: map[string]haulier.Function{},
		abort: make(chan struct{}), room: make(chan struct{}, 1),
	}
	w.work.L = &w.mu
	for _, x := range c.Executors {
		if w.execs[x.Kind()] != nil {
			return nil, fmt.Errorf("worker: %w: two executors of kind %s", haulier.ErrInvalid, x.Kind())
		}
		w.execs[x.Kind()] = x
	}
	return w, nil
}

func complete(c *Config) error {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Blobs == nil {
		c.Blobs, _ = c.Consumer.(fileset.Blobs)
	}
	if c.Name == "" {
		c.Name, _ = os.Hostname()
	}
	if c.Name == "" {
		c.Name = "worker"
	}
	if c.Concurrency == 0 {
		c.Concurrency = runtime.NumCPU()
	}
	if c.Concurrency < 1 || c.Concurrency > haulier.MaxConcurrency {
		return &haulier.FieldError{Field: "concurrency", Msg: fmt.Sprintf("is %d: it goes from 1 to %d", c.Concurrency, haulier.MaxConcurrency)}
	}
	if c.Prefetch == 0 {
		c.Prefetch = 1000
	}
	c.Prefetch = max(c.Prefetch, 0)
	if c.Lease == 0 {
		c.Lease = haulier.DefaultLease
	}
	if c.Lease < haulier.MinLease || c.Lease > haulier.MaxLease {
		return &haulier.FieldError{Field: "lease", Msg: fmt.Sprintf("is %v: it goes from %v to %v", c.Lease, haulier.MinLease, haulier.MaxLease)}
	}
	if c.Grace <= 0 {
		c.Grace = 2 * time.Second
	}
	return nil
}

// Register implements haulier.Registry; use haulier.Handle.
func (w *Worker) Register(typ string, fn haulier.Function) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case typ == "" || len(typ) > haulier.MaxName:
		panic(fmt.Sprintf("haulier: type %.40q has %d bytes: give it from 1 to %d", typ, len(typ), haulier.MaxName))
	case w.funcs[typ] != nil:
		panic(fmt.Sprintf("haulier: type %q has a function already", typ))
	case w.started:
		panic(fmt.Sprintf("haulier: function for type %q comes after the start of the worker", typ))
	}
	w.funcs[typ] = fn
}

// Run works until ctx ends, then takes no more jobs, waits for those that run,
// and returns nil. It fails when the server refuses the worker or the state
// folder is not its own. It may be called once.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.begin(); err != nil {
		return err
	}
	state, err := lockState(w.cfg.Dir)
	if err != nil {
		return err
	}
	defer state.unlock()
	left, err := w.openExecutors(ctx)
	if err == nil {
		err = w.openCache()
	}
	if err == nil {
		err = w.serve(ctx, state, left)
	}
	w.mu.Lock()
	w.closed = true
	w.work.Broadcast()
	w.mu.Unlock()
	if !w.aborted() {
		w.slots.Wait()
	}
	for _, x := range w.cfg.Executors {
		err = errors.Join(err, x.Close())
	}
	return err
}

// Abort ends the work of Run at once: commands get TERM and after a short grace KILL, functions
// see the end of their context, and all jobs go back to their queues, not counted as tries.
// It does not wait for Run.
func (w *Worker) Abort() { w.abortOnce.Do(func() { close(w.abort) }) }

func (w *Worker) aborted() bool {
	select {
	case <-w.abort:
		return true
	default:
		return false
	}
}

func (w *Worker) begin() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.started:
		return fmt.Errorf("worker: %w: it ran already", haulier.ErrConflict)
	case len(w.funcs)+len(w.execs) == 0:
		return fmt.Errorf("worker: %w: it can run nothing; give it executors or functions", haulier.ErrInvalid)
	case len(w.funcs) > 0 && len(w.execs) > 0 && len(w.cfg.Types) == 0:
		return fmt.Errorf("worker: %w: with functions, name the types of job that its executors are for", haulier.ErrInvalid)
	}
	w.started = true
	return nil
}

func (w *Worker) openExecutors(ctx context.Context) ([]executor.Attempt, error) {
	var left []executor.Attempt
	for _, x := range w.cfg.Executors {
		a, err := x.Open(ctx, executor.Env{Dir: w.cfg.Dir, Patience: usable(shortened(w.cfg.Lease)), Version: w.cfg.Version, Log: w.log, Blobs: w.cfg.Blobs})
		if err != nil {
			return nil, fmt.Errorf("worker: %w", err)
		}
		left = append(left, a...)
	}
	return left, nil
}

// serve holds one session after the other until the work is over.
func (w *Worker) serve(ctx context.Context, state *state, left []executor.Attempt) error {
	id := state.session()
	for {
		s, err := w.openSession(ctx, id, len(left) > 0)
		if err != nil || s == nil {
			return err
		}
		if s.id != id || id.IsNil() {
			for _, a := range left {
				w.log.Warn("job of a lost session is ended", "job", a.Ref().Job, "attempt", a.Ref().Attempt)
				a.Close()
			}
			left = nil
		}
		if err := state.save(s.id); err != nil {
			return err
		}
		err = s.serve(ctx, left)
		if !errors.Is(err, haulier.ErrLeaseLost) {
			state.forget()
			return err
		}
		if ctx.Err() != nil || w.aborted() {
			return nil
		}
		w.log.Warn("session lost, a new one is opened", "session", s.id)
		id, left = haulier.NilID, nil
	}
}

// openSession resumes a session, or opens one when that is gone or there is none. Nil without an error: ctx ended first.
func (w *Worker) openSession(ctx context.Context, id haulier.ID, left bool) (*session, error) {
	host, _ := os.Hostname()
	in := haulier.Session{
		ID: id, Worker: w.cfg.Name, Tenants: w.cfg.Tenants, Queues: w.cfg.Queues, Kinds: w.kinds(), Types: w.types(), Languages: w.cfg.Languages,
		Concurrency: w.cfg.Concurrency, Lease: haulier.Duration(w.cfg.Lease), Host: host, PID: os.Getpid(),
		Version: w.cfg.Version, Labels: labels(w.cfg.Labels, host), Addresses: addresses(), Load: load(ctx),
	}
	var wait backoff
	for {
		asked := time.Now()
		out, err := w.cfg.Consumer.OpenSession(ctx, in)
		switch {
		case err == nil:
			w.log.Info("session opened", "session", out.ID, "resumed", !in.ID.IsNil(), "left", left)
			s := newSession(w, out, asked, !in.ID.IsNil())
			w.tellLease(s.leaseEnd)
			return s, nil
		case ctx.Err() != nil || w.aborted():
			return nil, nil
		case errors.Is(err, haulier.ErrLeaseLost):
			in.ID = haulier.NilID
			continue
		case final(err):
			return nil, fmt.Errorf("worker: open session: %w", err)
		}
		w.log.Warn("server not reached, trying again", "err", err)
		if !wait.pause(ctx, w.abort) {
			return nil, nil
		}
	}
}

// final reports whether an error will not go away by itself.
func final(err error) bool {
	return errors.Is(err, haulier.ErrInvalid) || errors.Is(err, haulier.ErrForbidden) || errors.Is(err, haulier.ErrUnauthenticated)
}

func (w *Worker) kinds() []haulier.Kind {
	kinds := slices.Sorted(maps.Keys(w.execs))
	if len(w.funcs) > 0 {
		kinds = append(kinds, haulier.KindGo)
	}
	return kinds
}

func (w *Worker) types() []string {
	types := slices.Clone(w.cfg.Types)
	for _, t := range slices.Sorted(maps.Keys(w.funcs)) {
		if !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	return types
}
