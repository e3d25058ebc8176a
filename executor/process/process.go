// Package process runs tasks of the kind exec: commands of the worker's machine.
//
// Commands do not run under the worker but under a small supervisor process,
// one for each state folder, which the worker starts when it needs it and which
// outlives it (see RunShim and docs/shim.md). So a worker that is killed leaves its commands
// running, and the next one adopts them. Without a state folder the supervisor
// is a part of the worker's process, and commands end with it.
//
// A command has its own process group. Timeout and Stop send TERM to the group, and KILL after the
// grace; nothing of the group is left when the attempt has ended. How it ended follows from its exit code:
//
//	0        ok
//	75       retry (EX_TEMPFAIL of sysexits.h)
//	65, 66   failed (EX_DATAERR, EX_NOINPUT)
//	other    error, as are signals, timeouts and the loss of the supervisor
//
// A command that can't be started, since there is no such program, ends failed.
package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
)

// Output kept of a command unless said, in bytes. The server cuts at 4 MiB each; less keeps all of this.
const (
	DefaultHead = 4<<20 - 64<<10
	DefaultTail = 4<<20 - 64<<10
)

// Config configures an Executor. The zero value works for the haulier program.
type Config struct {
	// Shim is the command that runs the supervisor, to which "--dir DIR" is added.
	// Empty: this program with the argument "shim". A program of your own calls RunShim there.
	Shim []string
	// Env is the environment that commands get, as NAME=value. Nil: the worker's own, without its token.
	Env []string
	// Head and Tail are how many bytes of the beginning and of the end of a command's output are kept.
	// Zero: DefaultHead and DefaultTail.
	Head, Tail int64
	// Confine says what commands are kept from. The zero value: nothing.
	Confine Confine
}

// Executor runs commands. It implements executor.Executor.
type Executor struct {
	cfg  Config
	env  executor.Env
	dir  string // state folder, or a temporary one
	path string // PATH of the environment
	jail jail

	connecting sync.Mutex // held while a supervisor is looked for
	wg         sync.WaitGroup

	mu       sync.Mutex
	link     *shimLink
	attempts map[haulier.Ref]*attempt
	until    time.Time // of the worker's lease; zero: not told yet
	closed   bool
}

// New returns an executor of commands.
func New(c Config) *Executor {
	if c.Head <= 0 {
		c.Head = DefaultHead
	}
	if c.Tail <= 0 {
		c.Tail = DefaultTail
	}
	if c.Env == nil {
		c.Env = OwnEnv()
	}
	return &Executor{cfg: c, attempts: map[haulier.Ref]*attempt{}}
}

// OwnEnv is this process's environment, as it is passed on to commands: without the worker's token.
func OwnEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "HAULIER_TOKEN=") || strings.HasPrefix(v, "HAULIER_URL=")
	})
}

// Kind implements executor.Executor.
func (x *Executor) Kind() haulier.Kind { return haulier.KindExec }

// Open implements executor.Executor.
func (x *Executor) Open(ctx context.Context, e executor.Env) ([]executor.Attempt, error) {
	x.env, x.dir = e, e.Dir
	if x.env.Log == nil {
		x.env.Log = slog.New(slog.DiscardHandler)
	}
	var err error
	if x.jail, err = newJail(&x.cfg); err != nil {
		return nil, fmt.Errorf("commands: %w", err)
	}
	x.path = lookEnv(x.cfg.Env, "PATH")
	keepDescriptors()
	if e.Dir == "" {
		dir, err := os.MkdirTemp("", "haulier-")
		if err != nil {
			return nil, fmt.Errorf("commands: %w", err)
		}
		x.dir = dir
	}
	if err := os.MkdirAll(filepath.Join(x.dir, jobsFolder), 0o700); err != nil {
		return nil, fmt.Errorf("commands: %w", err)
	}
	if err := x.jail.admit(x.dir); err != nil {
		return nil, fmt.Errorf("commands: %w", err)
	}
	left, err := x.adopt(ctx)
	if err != nil {
		return nil, err
	}
	if err := x.sweep(left); err != nil {
		return nil, fmt.Errorf("commands: %w", err)
	}
	return left, nil
}

// sweep removes the folders of attempts that nobody knows any more.
func (x *Executor) sweep(left []executor.Attempt) error {
	known := map[string]bool{}
	for _, a := range left {
		known[refName(a.Ref())], known[refName(a.Ref())+spoolSuffix] = true, true
	}
	entries, err := os.ReadDir(filepath.Join(x.dir, jobsFolder))
	for _, e := range entries {
		if !known[e.Name()] {
			err = errors.Join(err, os.RemoveAll(filepath.Join(x.dir, jobsFolder, e.Name())))
		}
	}
	return err
}

// hangUps is how often a supervisor may hang up before that is not taken for its end any more.
const hangUps = 5

// adopt finds what a former worker left under a supervisor that still lives.
func (x *Executor) adopt(ctx context.Context) ([]executor.Attempt, error) {
	if x.env.Dir == "" {
		return nil, nil
	}
	var l *shimLink
	var known []*message
	for try := 0; ; try++ {
		c, err := dial(ctx, x.dir)
		if err != nil {
			return nil, nil // no supervisor: one is started when there is something to run
		}
		if l, known, err = x.greet(ctx, c); err == nil {
			break
		}
		if errors.Is(err, errHungUp) && try < hangUps {
			continue // it was just ending
		}
		return nil, fmt.Errorf("commands: supervisor of %s: %w; end it, or choose another state folder", x.dir, err)
	}
	x.use(l)
	var left []executor.Attempt
	for _, m := range known {
		a := &attempt{x: x, ref: m.Ref, link: l, adopted: true, pid: int(m.PID), got: m.Offset, done: make(chan struct{})}
		x.mu.Lock()
		x.attempts[m.Ref] = a
		x.mu.Unlock()
		left = append(left, a)
	}
	return left, nil
}

// supervisor returns the connection to the supervisor, which it starts when there is none.
func (x *Executor) supervisor(ctx context.Context) (*shimLink, error) {
	x.mu.Lock()
	l := x.link
	x.mu.Unlock()
	if l != nil {
		return l, nil
	}
	x.connecting.Lock()
	defer x.connecting.Unlock()
	x.mu.Lock()
	l, closed := x.link, x.closed
	x.mu.Unlock()
	if l != nil {
		return l, nil
	}
	if closed {
		return nil, fmt.Errorf("commands: %w: the worker is closing", haulier.ErrUnavailable)
	}
	return x.connect(ctx)
}

func (x *Executor) connect(ctx context.Context) (*shimLink, error) {
	if x.env.Dir == "" {
		return x.inProcess(ctx)
	}
	l, err := x.running(ctx)
	if err == nil {
		return l, nil
	}
	p, err := x.spawn(ctx)
	if err != nil {
		return nil, err
	}
	c, err := dial(ctx, x.dir)
	if err != nil {
		p.abandon()
		return nil, fmt.Errorf("commands: supervisor that was just started: %w", err)
	}
	if l, _, err = x.greet(ctx, c); err != nil {
		p.abandon()
		return nil, fmt.Errorf("commands: supervisor that was just started: %w", err)
	}
	l.process = p
	x.use(l)
	return l, nil
}

var errOtherBuild = errors.New("the supervisor is of another build and idle")

// running connects to a supervisor that is there. One of another build that has nothing to do makes way for a new one.
func (x *Executor) running(ctx context.Context) (*shimLink, error) {
	c, err := dial(ctx, x.dir)
	if err != nil {
		return nil, err
	}
	l, known, err := x.greet(ctx, c)
	if err != nil {
		return nil, err
	}
	if l.build != x.env.Version && len(known) == 0 {
		l.conn.send(&message{Kind: msgQuit})
		l.conn.finish(ctx)
		return nil, errOtherBuild
	}
	x.use(l)
	return l, nil
}

// Lease implements executor.Executor.
func (x *Executor) Lease(until time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.until = until
	if x.link != nil {
		x.link.lease(until)
	}
}

// use makes l the connection of the executor until it ends.
func (x *Executor) use(l *shimLink) {
	x.mu.Lock()
	x.link = l
	if !x.until.IsZero() {
		l.lease(x.until)
	}
	x.mu.Unlock()
	x.wg.Go(func() {
		<-l.ended
		x.lost(l)
	})
}

// lost ends the attempts of a supervisor that is gone.
func (x *Executor) lost(l *shimLink) {
	l.process.abandon()
	x.mu.Lock()
	if x.link == l {
		x.link = nil
	}
	var orphans []*attempt
	for _, a := range x.attempts {
		if a.on(l) {
			orphans = append(orphans, a)
		}
	}
	closed := x.closed
	x.mu.Unlock()
	if closed {
		return
	}
	if len(orphans) > 0 {
		x.env.Log.Error("supervisor of commands is gone", "dir", x.dir, "attempts", len(orphans))
	}
	for _, a := range orphans {
		a.orphaned()
	}
}

// find returns the attempt that a message is about, or nil.
func (x *Executor) find(r haulier.Ref) *attempt {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.attempts[r]
}

// Close implements executor.Executor.
func (x *Executor) Close() error {
	x.connecting.Lock()
	x.mu.Lock()
	x.closed = true
	l := x.link
	x.mu.Unlock()
	x.connecting.Unlock()
	if l != nil {
		l.conn.finish(context.Background())
	}
	x.wg.Wait()
	if x.env.Dir == "" && x.dir != "" {
		return os.RemoveAll(x.dir)
	}
	return nil
}

// inProcess starts a supervisor within this process.
func (x *Executor) inProcess(ctx context.Context) (*shimLink, error) {
	ours, theirs := net.Pipe()
	s := newSupervisor(x.dir, x.env.Version, false, x.env.Log)
	x.wg.Go(func() {
		s.serve(theirs)
		s.close()
	})
	l, _, err := x.greet(ctx, ours)
	if err != nil {
		return nil, fmt.Errorf("commands: %w", err)
	}
	x.use(l)
	return l, nil
}

func lookEnv(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], name+"="); ok {
			return v
		}
	}
	return ""
}
