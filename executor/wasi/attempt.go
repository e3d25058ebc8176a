package wasi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"crypto/rand"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/experimental/sysfs"
	"github.com/tetratelabs/wazero/sys"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
)

// attempt is one run of a module.
type attempt struct {
	x       *Executor
	job     *haulier.Job
	task    *haulier.WasiTask
	payload []byte
	dir     string
	ctx     context.Context //nolint:containedctx // ends with Stop, which may come at any time
	cancel  context.CancelCauseFunc
	stdout  stdout
	begun   bool          // Start was called
	ended   chan struct{} // closed when it has ended
	result  executor.Result
	closing sync.Once
}

var (
	errStopped = errors.New("stopped")
	errCPU     = errors.New("it used more processor time than the task allows")
)

// Ref implements executor.Attempt.
func (a *attempt) Ref() haulier.Ref { return haulier.Ref{Job: a.job.ID, Attempt: a.job.Attempt} }

// Folder implements executor.Attempt.
func (a *attempt) Folder() string { return filepath.Join(a.dir, "work") }

// Start implements executor.Attempt.
func (a *attempt) Start(_ context.Context, out executor.Sink) error {
	a.begun = true
	a.x.runs.Go(func() {
		defer close(a.ended)
		a.result = a.run(out)
	})
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

// Acked implements executor.Attempt.
func (*attempt) Acked(int64) {}

// Stop implements executor.Attempt: a module can't be asked, so it is ended at once.
func (a *attempt) Stop(time.Duration) { a.cancel(errStopped) }

// Close implements executor.Attempt.
func (a *attempt) Close() (err error) {
	a.closing.Do(func() {
		a.cancel(errStopped)
		if a.begun {
			<-a.ended
		}
		err = errors.Join(a.stdout.close(), os.RemoveAll(a.dir))
	})
	return err
}

// run runs the module, and keeps what it wrote.
func (a *attempt) run(out executor.Sink) executor.Result {
	log := &logWriter{ctx: a.ctx, out: out}
	r := a.perform(log)
	log.end()
	if r.Stopped || a.stdout.size == 0 {
		return r
	}
	var err error
	if r.Result, err = a.stdout.head(haulier.MaxResult); err == nil {
		r.ResultBlob, err = a.keep()
	}
	if err == nil {
		return r
	}
	if cause := context.Cause(a.ctx); cause != nil {
		return executor.Result{Outcome: haulier.OutcomeError, Code: -1, Error: cause.Error(), Stopped: true}
	}
	if r.Outcome == haulier.OutcomeOK {
		r.Outcome, r.Code = haulier.OutcomeError, -1
	}
	r.Error = fmt.Sprintf("%s: its standard output was not kept: %v", orElse(r.Error, "it ran"), err)
	return r
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// failed is the result of what another attempt would not do better.
func failed(format string, args ...any) executor.Result {
	return executor.Result{Outcome: haulier.OutcomeFailed, Code: -1, Error: fmt.Sprintf(format, args...)}
}

// perform fetches the module and calls it.
func (a *attempt) perform(log *logWriter) executor.Result {
	limit := a.x.cfg.Memory
	if m := a.task.Memory; m > limit {
		return failed("it asks for %d bytes of memory, and this worker gives at most %d: start one with a larger --wasi-memory", m, limit)
	} else if m > 0 {
		limit = m
	}
	m, err := a.x.modules.get(a.ctx, a.job.Tenant, a.task.Module)
	if err == nil {
		defer a.x.modules.done(m)
		if err = m.admits(limit); err == nil {
			return a.call(m, limit, log)
		}
	}
	if cause := context.Cause(a.ctx); cause != nil {
		return executor.Result{Outcome: haulier.OutcomeError, Code: -1, Error: cause.Error(), Stopped: true}
	}
	if errors.Is(err, haulier.ErrInvalid) || errors.Is(err, haulier.ErrNotFound) || errors.Is(err, haulier.ErrTooLarge) {
		return failed("module %s: %v", a.task.Module, err)
	}
	return executor.Result{Outcome: haulier.OutcomeError, Code: -1, Error: fmt.Sprintf("module %s: %v", a.task.Module, err)}
}

// call runs the module within its limits.
func (a *attempt) call(m *module, limit int64, log *logWriter) executor.Result {
	ctx, cancel := context.WithCancelCause(a.ctx)
	defer cancel(nil)
	if d := time.Duration(a.job.Timeout); d > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, d, fmt.Errorf("timed out after %v", d))
		defer stop()
	}
	in, err := a.stdin(ctx)
	if err != nil {
		return a.judge(ctx, err, nil)
	}
	defer in.close()
	root := &folder{dir: a.Folder()}
	defer root.close()
	a.stdout.full = cancel
	config := a.config(ctx, in, log).WithFSConfig(wazero.NewFSConfig().(sysfs.FSConfig).WithSysFSMount(root, "/"))
	run := experimental.WithMemoryAllocator(ctx, allocator(limit))
	if d := time.Duration(a.task.CPU); d > 0 {
		runtime.LockOSThread() // whose time is what is measured
		defer runtime.UnlockOSThread()
		watch := watchCPU(d, func() { cancel(errCPU) })
		defer watch.stop()
	}
	mod, err := a.x.modules.runtime.InstantiateModule(run, m.compiled, config)
	if mod != nil {
		_ = mod.Close(context.WithoutCancel(ctx)) // it has run
	}
	return a.judge(ctx, err, in)
}

// config is what the module finds.
func (a *attempt) config(ctx context.Context, in io.Reader, log *logWriter) wazero.ModuleConfig {
	c := wazero.NewModuleConfig().WithName("").WithArgs(append([]string{a.job.Type}, a.task.Args...)...).
		WithStdin(in).WithStdout(&a.stdout).WithStderr(log)
	for _, k := range slices.Sorted(maps.Keys(a.task.Env)) {
		c = c.WithEnv(k, a.task.Env[k])
	}
	for _, v := range executor.Variables(a.job) {
		name, value, _ := strings.Cut(v, "=")
		c = c.WithEnv(name, value)
	}
	if a.task.Clock {
		c = c.WithSysWalltime().WithSysNanotime().WithNanosleep(func(ns int64) { pause(ctx, time.Duration(ns)) })
	}
	if a.task.Random {
		c = c.WithRandSource(rand.Reader)
	}
	return c
}

// pause is a sleep of the module, which ends with it.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// judge says what the end of a module means.
func (a *attempt) judge(ctx context.Context, err error, in *stdin) executor.Result {
	r := executor.Result{Outcome: haulier.OutcomeError, Code: -1}
	var exit *sys.ExitError
	exited := errors.As(err, &exit)
	if cause := context.Cause(ctx); cause != nil && (!exited || exit.ExitCode() == sys.ExitCodeContextCanceled || exit.ExitCode() == sys.ExitCodeDeadlineExceeded) && err != nil {
		r.Error, r.Stopped = cause.Error(), a.ctx.Err() != nil
		if errors.Is(cause, haulier.ErrTooLarge) {
			r.Outcome = haulier.OutcomeFailed
		}
		return r
	}
	if in != nil && in.err != nil {
		r.Error = "standard input: " + in.err.Error()
		return r
	}
	switch {
	case err == nil:
		return executor.Result{Outcome: haulier.OutcomeOK}
	case exited:
		r.Code = int(min(exit.ExitCode(), math.MaxInt32))
		r.Outcome, r.Error = byCode(exit.ExitCode())
	default:
		r.Error = "trapped: " + firstLines(err.Error())
	}
	return r
}

// byCode is the outcome that a module chose itself.
func byCode(code uint32) (haulier.Outcome, string) {
	switch code {
	case 0:
		return haulier.OutcomeOK, ""
	case 75:
		return haulier.OutcomeRetry, "exit status 75: asked to run again"
	case 65, 66:
		return haulier.OutcomeFailed, fmt.Sprintf("exit status %d: failed for good", code)
	}
	return haulier.OutcomeError, fmt.Sprintf("exit status %d", code)
}

// firstLines is the head of a trap's stack.
func firstLines(text string) string {
	const lines, most = 8, 1000
	n := 0
	for i, c := range text {
		if c == '\n' {
			if n++; n == lines {
				return text[:i]
			}
		}
		if i >= most {
			return text[:i]
		}
	}
	return text
}

// stdin is the standard input. A failure of it is not the module's.
type stdin struct {
	r   io.Reader
	c   io.Closer // nil: nothing to close
	err error
}

// stdin opens what the module reads.
func (a *attempt) stdin(ctx context.Context) (*stdin, error) {
	if a.task.Stdin == "" {
		return &stdin{r: bytes.NewReader(a.payload)}, nil
	}
	var r io.ReadCloser
	err := patiently(ctx, func() (err error) {
		r, _, err = a.x.blobs.ReadBlob(ctx, a.job.Tenant, a.task.Stdin, 0, -1)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return &stdin{r: r, c: r}, nil
}

// Read implements io.Reader.
func (s *stdin) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

func (s *stdin) close() {
	if s.c != nil {
		s.c.Close()
	}
}

// keep makes a blob of the standard output, and returns its address.
func (a *attempt) keep() (string, error) {
	addr := a.stdout.address()
	return addr, patiently(a.ctx, func() error {
		content, err := a.stdout.reader()
		if err != nil {
			return err
		}
		return a.x.blobs.PutBlob(a.ctx, a.job.Tenant, addr, content)
	})
}

// patiently does again what fails since the server can't be reached, until ctx ends.
func patiently(ctx context.Context, do func() error) error {
	for wait := 50 * time.Millisecond; ; wait = min(wait*2, 5*time.Second) {
		err := do()
		if err == nil || !errors.Is(err, haulier.ErrUnavailable) || ctx.Err() != nil {
			return err
		}
		pause(ctx, wait)
	}
}
