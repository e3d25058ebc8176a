package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
)

// fedFile says that the standard input of a container was written to its end.
const fedFile = "fed"

// reason says why a container ended, beyond its exit code.
type reason uint8

const (
	endedItself  reason = iota
	endedStopped        // after Stop
	endedTimeout        // after its timeout
	endedLapsed         // the worker's lease was over
)

// attempt is one run of a container.
type attempt struct {
	x       *Executor
	ref     haulier.Ref
	folder  string // on this side
	files   string // within the container; "": the job has none
	payload []byte
	timeout time.Duration // zero: none
	grace   time.Duration
	adopted bool

	ctx      context.Context //nolint:containedctx // ends with Close and with the executor
	cancel   context.CancelFunc
	stopping chan struct{} // poked by end
	ended    chan struct{}
	result   executor.Result // to be read when ended is closed

	mu      sync.Mutex
	id      string // of the container; "": there is none
	out     *output
	running bool // there is something to wait for
	killAt  time.Time
	why     reason
	account haulier.Account
	closed  bool
}

func (x *Executor) newAttempt(ref haulier.Ref) *attempt {
	a := &attempt{
		x: x, ref: ref, folder: filepath.Join(x.dir, fmt.Sprintf("%v.%d", ref.Job, ref.Attempt)),
		stopping: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	a.ctx, a.cancel = context.WithCancel(x.over)
	return a
}

// refuse makes it an attempt that ends failed without having run.
func (a *attempt) refuse(why string) *attempt {
	a.finish(executor.Result{Outcome: haulier.OutcomeFailed, Code: -1, Error: why})
	return a
}

func (a *attempt) finish(r executor.Result) {
	a.result = r
	close(a.ended)
}

func (a *attempt) isOver() bool {
	select {
	case <-a.ended:
		return true
	default:
		return false
	}
}

func (a *attempt) container() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.id
}

// Ref implements executor.Attempt.
func (a *attempt) Ref() haulier.Ref { return a.ref }

// Folder implements executor.Attempt.
func (a *attempt) Folder() string {
	if a.files == "" {
		return ""
	}
	return filepath.Join(a.folder, workFolder)
}

// Start implements executor.Attempt.
func (a *attempt) Start(_ context.Context, out executor.Sink) error {
	if a.isOver() {
		return nil
	}
	if err := a.x.watched(); err != nil {
		return err
	}
	a.mu.Lock()
	a.out, a.running = openOutput(filepath.Join(a.folder, "position"), out), true
	a.mu.Unlock()
	a.x.wg.Go(func() { a.finish(a.run(a.ctx)) })
	return nil
}

// run lives as long as the container does.
func (a *attempt) run(ctx context.Context) executor.Result {
	if a.x.lapsed() {
		a.end(0, endedLapsed)
	}
	if !a.adopted {
		if r := a.begin(ctx); r != nil {
			return *r
		}
	}
	var parts sync.WaitGroup
	defer parts.Wait()
	alive, over := context.WithCancel(ctx)
	defer over()
	parts.Go(func() { a.sample(alive) })
	var logs error
	followed := make(chan struct{})
	parts.Go(func() {
		defer close(followed)
		logs = a.follow(ctx)
	})
	err := a.await(ctx)
	over()
	<-followed
	if err = errors.Join(err, logs); err != nil {
		return a.trouble(err)
	}
	return a.conclude(ctx)
}

// trouble is the end of an attempt whose container can't be followed to its end.
func (a *attempt) trouble(err error) executor.Result {
	_, why := a.deadline()
	return executor.Result{
		Outcome: haulier.OutcomeError, Code: -1, Error: "container: " + err.Error(), Stopped: why == endedStopped, Lapsed: why == endedLapsed && !a.adopted,
	}
}

// begin fills the container and starts it. A result: it does not run.
func (a *attempt) begin(ctx context.Context) *executor.Result {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	asked := make(chan struct{})
	go func() { // ends with ctx, at the latest
		defer close(asked)
		select {
		case <-a.stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := a.start(ctx)
	cancel()
	<-asked
	_, why := a.deadline()
	if why != endedItself {
		a.poke() // also for what has started meanwhile
	}
	switch {
	case err == nil:
		return nil
	case why != endedItself:
		r := a.trouble(errors.New("ended before it was started"))
		return &r
	case lasting(err):
		return &executor.Result{Outcome: haulier.OutcomeFailed, Code: -1, Error: "not started: " + err.Error()}
	}
	return &executor.Result{Outcome: haulier.OutcomeError, Code: -1, Error: "not started: " + err.Error()}
}

func (a *attempt) start(ctx context.Context) error {
	if err := a.copyIn(ctx); err != nil {
		return fmt.Errorf("inputs: %v", err) // what is not found here may be there the next time
	}
	var in *client.ContainerAttachResult
	if len(a.payload) > 0 {
		res, err := a.x.cli.ContainerAttach(ctx, a.id, client.ContainerAttachOptions{Stream: true, Stdin: true})
		if err != nil {
			return fmt.Errorf("standard input: %w", err)
		}
		in = &res
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := a.x.cli.ContainerStart(ctx, a.id, client.ContainerStartOptions{}); err != nil {
		if in != nil {
			in.Close()
		}
		return err
	}
	if in != nil {
		stop := context.AfterFunc(a.ctx, in.Close)
		a.x.wg.Go(func() {
			defer stop()
			if err := a.feed(in); err != nil {
				a.x.env.Log.Debug("standard input not read to its end", "job", a.ref.Job, "attempt", a.ref.Attempt, "err", err)
			}
		})
	}
	return nil
}

// end asks the container to end, and ends it by force when grace has passed; negative: its own. The earliest force asked for holds.
func (a *attempt) end(grace time.Duration, why reason) {
	if grace < 0 {
		grace = a.grace
	}
	at := time.Now().Add(grace)
	a.mu.Lock()
	if a.killAt.IsZero() || at.Before(a.killAt) {
		a.killAt = at
	}
	if a.why == endedItself {
		a.why = why
	}
	a.mu.Unlock()
	a.poke()
}

func (a *attempt) poke() {
	select {
	case a.stopping <- struct{}{}:
	default:
	}
}

func (a *attempt) deadline() (killAt time.Time, why reason) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.killAt, a.why
}

// Stop implements executor.Attempt.
func (a *attempt) Stop(grace time.Duration) { a.end(grace, endedStopped) }

// await waits for the container's end, and sees to its timeout, TERM and KILL.
func (a *attempt) await(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	gone := make(chan error, 1)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel()
	waiting.Go(func() { gone <- a.exited(ctx) })
	var timeout <-chan time.Time
	if a.timeout > 0 {
		t := time.NewTimer(a.left(ctx))
		defer t.Stop()
		timeout = t.C
	}
	kill := time.NewTimer(time.Hour)
	defer kill.Stop()
	kill.Stop()
	told := false
	for {
		select {
		case err := <-gone:
			if !told {
				a.mu.Lock()
				a.why = endedItself // it was faster than who asked
				a.mu.Unlock()
			}
			return err
		case <-timeout:
			a.end(-1, endedTimeout)
		case <-a.stopping:
			at, _ := a.deadline()
			wait := time.Until(at)
			if !told && wait > 0 {
				a.signal(ctx, "")
			}
			told = true
			kill.Reset(max(wait, 0))
		case <-kill.C:
			a.signal(ctx, "KILL")
			kill.Reset(killAgain) // the engine may not have answered
		}
	}
}

// killAgain is how long after a KILL the next is sent to what has not ended.
const killAgain = 5 * time.Second

// left is how much of the timeout is left, which counts from when the container started.
func (a *attempt) left(ctx context.Context) time.Duration {
	if c, err := a.inspect(ctx); err == nil && c.Container.State != nil {
		if at, err := time.Parse(time.RFC3339Nano, c.Container.State.StartedAt); err == nil && at.Year() > 1 {
			return max(a.timeout-time.Since(at), 0)
		}
	}
	return a.timeout
}

// signal sends a signal; "" is the one that the config, or else the image, names for the end.
func (a *attempt) signal(ctx context.Context, name string) {
	if name == "" {
		name = "TERM"
		if c, err := a.inspect(ctx); err == nil && c.Container.Config != nil && c.Container.Config.StopSignal != "" {
			name = c.Container.Config.StopSignal
		}
	}
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	_, err := a.x.cli.ContainerKill(ctx, a.id, client.ContainerKillOptions{Signal: name})
	if err != nil && !missing(err) && !inRemoval(err) && ctx.Err() == nil {
		a.x.env.Log.Warn("signal not sent", "job", a.ref.Job, "attempt", a.ref.Attempt, "err", err)
	}
}

func (a *attempt) inspect(ctx context.Context) (client.ContainerInspectResult, error) {
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	return a.x.cli.ContainerInspect(ctx, a.id, client.ContainerInspectOptions{})
}

// exited waits until the container does not run. An engine that can't be reached is asked again.
func (a *attempt) exited(ctx context.Context) error {
	for {
		w := a.x.cli.ContainerWait(ctx, a.id, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
		var err error
		select {
		case <-w.Result:
			return nil
		case err = <-w.Error:
		}
		if missing(err) {
			return errors.New("somebody has removed it")
		}
		if !pause(ctx, askAgain) {
			return ctx.Err()
		}
	}
}

// askAgain is how long after an engine did not answer it is asked again.
const askAgain = 500 * time.Millisecond

// pause waits, and reports whether ctx lives.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// conclude says how a container that does not run any more has ended.
func (a *attempt) conclude(ctx context.Context) executor.Result {
	var c client.ContainerInspectResult
	for {
		var err error
		if c, err = a.inspect(ctx); err == nil {
			break
		}
		if missing(err) || !pause(ctx, askAgain) {
			return a.trouble(fmt.Errorf("its end is not known: %w", err))
		}
	}
	_, why := a.deadline()
	r := a.judge(c.Container.State, c.Container.HostConfig, why)
	note := ""
	a.mu.Lock()
	account := a.account
	a.mu.Unlock()
	var compact bytes.Buffer
	switch {
	case len(c.Raw) > haulier.MaxResult:
		note = fmt.Sprintf("the inspect object of the container has %d bytes and is not kept: at most %d\n", len(c.Raw), haulier.MaxResult)
	default:
		compact.Write(c.Raw)
		account.Container = compact.Bytes()
	}
	r.Account = &account
	if err := a.out.close(a.ctx, finishedAt(c.Container.State), note); err != nil {
		return a.trouble(err)
	}
	r.Result = a.resultOf(ctx)
	if a.files != "" {
		if err := a.copyOut(ctx); err != nil {
			r.Error = fmt.Sprintf("outputs: %v; %s", err, r.Error)
			if r.Outcome == haulier.OutcomeOK {
				r.Outcome = haulier.OutcomeError
			}
		}
	}
	return r
}

func finishedAt(s *container.State) time.Time {
	if s != nil {
		if at, err := time.Parse(time.RFC3339Nano, s.FinishedAt); err == nil {
			return at
		}
	}
	return time.Now()
}

// judge is what the end of a container means.
func (a *attempt) judge(s *container.State, h *container.HostConfig, why reason) executor.Result {
	if s == nil {
		return executor.Result{Outcome: haulier.OutcomeError, Code: -1, Error: "the engine does not say how the container ended"}
	}
	r := executor.Result{Outcome: haulier.OutcomeError, Code: s.ExitCode}
	status := fmt.Sprintf("exit status %d", s.ExitCode)
	switch {
	case why == endedStopped:
		r.Stopped, r.Error = true, "stopped: "+status
	case why == endedTimeout:
		r.Error = fmt.Sprintf("timed out after %v: %s", a.timeout, status)
	case why == endedLapsed:
		r.Lapsed, r.Error = !a.adopted, "its worker did not come back in time: "+status
	case s.OOMKilled && s.ExitCode != 0:
		r.Error = "out of memory: " + status
		if h != nil && h.Memory > 0 {
			r.Error = fmt.Sprintf("out of memory, of which it had %d bytes: %s", h.Memory, status)
		}
	case s.ExitCode == 0:
		r.Outcome = haulier.OutcomeOK
	case s.ExitCode == 75:
		r.Outcome, r.Error = haulier.OutcomeRetry, status+": asked to run again"
	case s.ExitCode == 65 || s.ExitCode == 66:
		r.Outcome, r.Error = haulier.OutcomeFailed, status+": failed for good"
	default:
		r.Error = status
	}
	return r
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
func (a *attempt) Acked(offset int64) {
	a.mu.Lock()
	out := a.out
	a.mu.Unlock()
	if out != nil {
		out.ack(offset)
	}
}

// Close implements executor.Attempt. The container goes in the background; Close of the executor waits for that.
func (a *attempt) Close() error {
	a.mu.Lock()
	again, id := a.closed, a.id
	a.closed = true
	a.mu.Unlock()
	if again {
		return nil
	}
	a.cancel()
	a.x.wg.Go(func() {
		a.mu.Lock()
		running := a.running
		a.mu.Unlock()
		if running {
			<-a.ended
		}
		if id != "" {
			a.x.discard(id)
		}
		a.x.mu.Lock()
		delete(a.x.attempts, a.ref)
		a.x.mu.Unlock()
		if err := os.RemoveAll(a.folder); err != nil {
			a.x.env.Log.Warn("folder of a job not removed", "folder", a.folder, "err", err)
		}
	})
	return nil
}
