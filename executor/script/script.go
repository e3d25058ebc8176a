// Package script runs tasks of the kind script: handlers that the server keeps under the types of jobs.
//
// A handler does not run in a process of its own for each job but in a warm one, a context: it loads the handler once and
// is then fed with jobs in batches, by lines over pipes.
//
//	attempts ─► group (tenant, language, engine id or version) ─► contexts ─► outcomes
//	            one line of jobs                                 processes
//
// Jobs of different tenants never share a context, and jobs of different handlers only where these have the same engine
// id. The jobs of a batch run one after the other. When a context ends in the middle, the job that it ran has failed, and
// those that come after it go to another.
//
// The lines go over two pipes of their own (descriptors 3 and 4 of the context; protocol.go has them), so that what a handler
// prints is its job's log and nothing else. Which output belongs to which job is told by marks in it (stream.go).
package script

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
)

// What holds unless said.
const (
	DefaultJobs    = 10_000          // of a context
	DefaultAge     = time.Hour       // of a context
	DefaultMemory  = 512 << 20       // bytes of a context
	DefaultIdle    = 5 * time.Minute // that a context waits for a job
	DefaultBatch   = 100 * time.Millisecond
	DefaultTimeout = 2 * time.Minute  // of a job, and of each script that runs around jobs
	startTimeout   = 30 * time.Second // from the start of a context to its first line
)

// DriverWord stands for the path of the language's own driver in a command.
const DriverWord = "{driver}"

// Languages that every worker knows: the commands of their contexts. Each has a driver of its name.
var languages = map[string][]string{
	"node":   {"node", DriverWord},
	"python": {"python3", DriverWord},
	"sh":     {"sh", DriverWord},
}

//go:embed drivers
var drivers embed.FS

var driverFiles = map[string]string{"node": "node.js", "python": "python.py", "sh": "sh.sh"}

// Source is where handlers come from: an engine or a client.
type Source interface {
	Handler(ctx context.Context, tenant, typ string, version int) (haulier.Handler, error)
}

// Config configures an Executor. Source is needed.
type Config struct {
	Source Source
	// Languages are commands of contexts beside, or in place of, those of node, python and sh. In an argument, {driver} stands for the path
	// of the driver that comes along.
	Languages map[string][]string
	// Processes is how many contexts there are at once. Zero: the number of processors.
	Processes int
	// Jobs, Age and Memory (in bytes) are after how much a context is replaced by a new one, once its batch has ended. One that
	// has twice the memory is ended at once. Zero: DefaultJobs, DefaultAge, DefaultMemory.
	Jobs   int
	Age    time.Duration
	Memory int64
	// Batch is how long a batch is to take, by what jobs took before. Zero: DefaultBatch.
	Batch time.Duration
	// Idle is how long a context waits for jobs. Zero: DefaultIdle.
	Idle time.Duration
	// Timeout is that of jobs that say none, and of the scripts around jobs. Zero: DefaultTimeout.
	Timeout time.Duration
	// Env is added to the environment of contexts, as NAME=value. Of the worker's own they get only what programs need to
	// run: PATH, HOME, USER, LOGNAME, SHELL, TMPDIR, TZ, LANG and LC_*.
	Env []string
}

// Executor runs jobs by handlers. It implements executor.Executor. Its attempts do not outlive the worker's process.
type Executor struct {
	cfg     Config
	env     []string
	dir     string // drivers, and a folder for each context
	log     *slog.Logger
	sources sources

	over   context.Context //nolint:containedctx // ends with the executor, which outlives the calls that begin attempts
	stop   context.CancelFunc
	wg     sync.WaitGroup
	starts chan func() // run on the thread with which contexts die
	forks  sync.WaitGroup

	mu        sync.Mutex
	groups    map[groupKey]*group
	processes map[*process]bool // contexts, from before their start to after their end
	made      int               // contexts so far
	closed    bool
}

// New returns an executor of handlers.
func New(c Config) *Executor {
	fill(&c.Processes, runtime.NumCPU())
	fill(&c.Jobs, DefaultJobs)
	fill(&c.Age, DefaultAge)
	fill(&c.Memory, DefaultMemory)
	fill(&c.Batch, DefaultBatch)
	fill(&c.Idle, DefaultIdle)
	fill(&c.Timeout, DefaultTimeout)
	x := &Executor{cfg: c, env: append(ownEnv(), c.Env...), groups: map[groupKey]*group{}, processes: map[*process]bool{}, log: slog.New(slog.DiscardHandler), starts: make(chan func())}
	x.sources.from = c.Source
	x.over, x.stop = context.WithCancel(context.Background())
	return x
}

func fill[T int | int64 | time.Duration](v *T, otherwise T) {
	if *v <= 0 {
		*v = otherwise
	}
}

// ownEnv is what contexts get of this process's environment: no secret of the worker is among it.
func ownEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		switch name {
		case "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LANG":
			return false
		}
		return !strings.HasPrefix(name, "LC_")
	})
}

// Languages lists those whose program is on this machine.
func (x *Executor) Languages() []string {
	var out []string
	for name := range languages {
		if _, own := x.cfg.Languages[name]; !own {
			out = append(out, name)
		}
	}
	for name := range x.cfg.Languages {
		out = append(out, name)
	}
	out = slices.DeleteFunc(out, func(name string) bool {
		command := x.command(name)
		_, err := exec.LookPath(command[0])
		return err != nil
	})
	slices.Sort(out)
	return out
}

// command is that of a language's contexts; its program is "" when there is none.
func (x *Executor) command(lang string) []string {
	if c := x.cfg.Languages[lang]; len(c) > 0 {
		return c
	}
	if c := languages[lang]; c != nil {
		return c
	}
	return []string{""}
}

// Kind implements executor.Executor.
func (*Executor) Kind() haulier.Kind { return haulier.KindScript }

// Open implements executor.Executor. There is never anything left: contexts end with the worker.
func (x *Executor) Open(_ context.Context, e executor.Env) ([]executor.Attempt, error) {
	if e.Log != nil {
		x.log = e.Log
	}
	dir, err := makeFolder(e.Dir)
	if err != nil {
		return nil, fmt.Errorf("scripts: %w", err)
	}
	x.dir = dir
	for _, name := range driverFiles {
		text, err := drivers.ReadFile("drivers/" + name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("scripts: %w", err), os.RemoveAll(dir))
		}
	}
	x.forks.Go(x.fork)
	return nil, nil
}

// makeFolder makes the folder for contexts, in place of what a worker that was killed has left there.
func makeFolder(state string) (string, error) {
	if state == "" {
		return os.MkdirTemp("", "haulier-script-")
	}
	dir, err := filepath.Abs(filepath.Join(state, "script"))
	if err == nil {
		err = os.RemoveAll(dir)
	}
	if err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	return dir, err
}

// fork starts contexts. The kernel kills them when the thread that started them ends, so that is one of its own.
func (x *Executor) fork() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for f := range x.starts {
		f()
	}
}

// Lease implements executor.Executor. The worker itself stops what runs within its process, and contexts end with that.
func (*Executor) Lease(time.Time) {}

// Close implements executor.Executor.
func (x *Executor) Close() error {
	x.mu.Lock()
	x.closed = true
	var left []*attempt
	for _, g := range x.groups {
		left = append(left, g.queue...)
		g.queue = nil
	}
	x.stop()
	for p := range x.processes {
		p.ended = true
		p.kill()
	}
	x.mu.Unlock()
	for _, a := range left {
		a.finish(executor.Result{Outcome: haulier.OutcomeError, Code: -1, Error: "the worker has ended", Stopped: true})
	}
	x.wg.Wait()
	if x.dir == "" {
		return nil
	}
	close(x.starts)
	x.forks.Wait()
	return os.RemoveAll(x.dir)
}

// Prepare implements executor.Executor.
func (x *Executor) Prepare(ctx context.Context, job *haulier.Job, payload []byte) (executor.Attempt, error) {
	t := job.Task.Script
	if t == nil {
		return nil, fmt.Errorf("task: %w: it is of kind %s", haulier.ErrInvalid, job.Task.Kind())
	}
	a := newAttempt(x, job, payload)
	h, err := x.sources.get(ctx, job.Tenant, job.Type, t)
	switch {
	case errors.Is(err, errReplaced):
		a.early = &executor.Result{Outcome: haulier.OutcomeRetry, Error: err.Error(), Delay: time.Second, Released: true}
	case err != nil:
		return nil, fmt.Errorf("handler of type %s: %w", job.Type, err)
	case len(payload) > haulier.MaxScriptPayload:
		a.early = &executor.Result{Outcome: haulier.OutcomeFailed, Code: -1,
			Error: fmt.Sprintf("the payload has %d bytes: a handler takes at most %d", len(payload), haulier.MaxScriptPayload)}
	case x.command(h.Lang)[0] == "":
		return nil, fmt.Errorf("%w: this worker has no language %s", haulier.ErrUnavailable, h.Lang)
	}
	a.handler = h
	return a, nil
}

// errReplaced: the version by which a job was to run is no longer there.
var errReplaced = errors.New("its handler was removed meanwhile")

// maxSources is how many handlers are kept for jobs to come.
const maxSources = 200

// sources keeps handlers by their digest.
type sources struct {
	from Source
	mu   sync.Mutex
	kept map[string]*fetch
}

// fetch is a handler that is there, or on its way.
type fetch struct {
	done chan struct{}
	h    *haulier.Handler
	err  error
}

// get fetches a handler once for all that ask for it at the same time.
func (s *sources) get(ctx context.Context, tenant, typ string, t *haulier.ScriptTask) (*haulier.Handler, error) {
	if t.Version == 0 {
		return nil, errReplaced
	}
	key := tenant + "/" + typ + "/" + t.Digest
	s.mu.Lock()
	f := s.kept[key]
	mine := f == nil
	if mine {
		if s.kept == nil || len(s.kept) >= maxSources {
			s.kept = map[string]*fetch{}
		}
		f = &fetch{done: make(chan struct{})}
		s.kept[key] = f
	}
	s.mu.Unlock()
	if !mine {
		select {
		case <-f.done:
			return f.h, f.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	h, err := s.from.Handler(ctx, tenant, typ, t.Version)
	switch {
	case errors.Is(err, haulier.ErrNotFound), err == nil && h.Digest != t.Digest:
		f.err = errReplaced
	case err != nil:
		f.err = err
	default:
		f.h = &h
	}
	if f.err != nil {
		s.mu.Lock()
		if s.kept[key] == f {
			delete(s.kept, key)
		}
		s.mu.Unlock()
	}
	close(f.done)
	return f.h, f.err
}
