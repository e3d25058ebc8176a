package process

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
)

// attempt is one run of a command, as the worker sees it.
type attempt struct {
	x       *Executor
	ref     haulier.Ref
	adopted bool
	spec    *message         // what to start; nil when adopted
	refused *executor.Result // what is wrong with the task itself

	mu     sync.Mutex
	link   *shimLink // that it runs under; nil before Start
	sink   executor.Sink
	pid    int
	got    int64    // offset after the output that came
	exit   *message // how the command ended
	over   bool     // done is closed
	closed bool
	lost   bool          // the supervisor is gone
	done   chan struct{} // closed when it has ended and its output is here
}

// Ref implements executor.Attempt.
func (a *attempt) Ref() haulier.Ref { return a.ref }

// Folder implements executor.Attempt.
func (a *attempt) Folder() string {
	if a.refused != nil {
		return ""
	}
	return filepath.Join(a.x.folder(a.ref), workFolder)
}

// Start implements executor.Attempt.
func (a *attempt) Start(ctx context.Context, out executor.Sink) error {
	if a.refused != nil {
		return nil
	}
	l := a.link
	if !a.adopted {
		if why := a.x.resolve(a.spec); why != "" {
			a.refuse(why)
			return nil
		}
		if err := a.x.jail.close(a.spec); err != nil {
			return fmt.Errorf("commands: %w", err)
		}
		var err error
		if l, err = a.x.supervisor(ctx); err != nil {
			return err
		}
		if a.spec.confined() && l.version < confineVersion {
			return fmt.Errorf("commands: %w: the supervisor of build %s knows no limits; it makes way when its commands have ended", haulier.ErrUnavailable, l.build)
		}
	}
	a.mu.Lock()
	a.link, a.sink = l, out
	a.mu.Unlock()
	if a.adopted {
		l.conn.send(&message{Kind: msgAttach, Ref: a.ref})
	} else {
		l.conn.send(a.spec)
		a.spec = nil
	}
	select {
	case <-l.ended: // it may have missed the new attempt when it told all others
		a.orphaned()
	default:
	}
	return nil
}

// on reports whether the attempt runs under the supervisor.
func (a *attempt) on(l *shimLink) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.link == l
}

// hear takes a message of the supervisor. Only the connection's reader calls it.
func (a *attempt) hear(l *shimLink, m *message) {
	a.mu.Lock()
	sink, closed := a.sink, a.closed
	stale := a.link != l
	a.mu.Unlock()
	if stale || closed {
		return
	}
	switch m.Kind {
	case msgStarted:
		a.mu.Lock()
		a.pid = int(m.PID)
		a.mu.Unlock()
	case msgOutput:
		// The supervisor sends no more than the window, so this does not block.
		if err := sink.Log(context.Background(), m.Offset, m.Data); err != nil {
			return
		}
		a.mu.Lock()
		a.got = m.Offset + int64(len(m.Data))
		a.mu.Unlock()
		a.settle()
	case msgExit:
		end := *m
		end.Data = append([]byte(nil), m.Data...)
		a.mu.Lock()
		a.exit, a.pid = &end, 0
		a.mu.Unlock()
		a.settle()
	}
}

// settle ends the attempt when the command has ended and all its output is here.
func (a *attempt) settle() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.over && (a.lost || a.exit != nil && a.got >= a.exit.Size) {
		a.over = true
		close(a.done)
	}
}

// orphaned ends the attempt, and what is left of the command, since the supervisor is gone.
func (a *attempt) orphaned() {
	a.mu.Lock()
	pid := a.pid
	a.pid, a.lost = 0, true
	a.mu.Unlock()
	if pid > 0 {
		signalGroup(pid, syscall.SIGKILL)
	}
	a.settle()
}

// Wait implements executor.Attempt.
func (a *attempt) Wait(ctx context.Context) (executor.Result, error) {
	if a.refused != nil {
		return *a.refused, nil
	}
	select {
	case <-a.done:
	case <-ctx.Done():
		return executor.Result{}, ctx.Err()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.exit == nil || a.got < a.exit.Size {
		return executor.Result{Outcome: haulier.OutcomeError, Code: -1, Error: "the supervisor of this worker's commands was lost, and the command with it"}, nil
	}
	r := result(a.exit)
	r.Lapsed = a.exit.Why == endedAbandoned && !a.adopted
	return r, nil
}

// Acked implements executor.Attempt.
func (a *attempt) Acked(offset int64) {
	a.mu.Lock()
	over := a.over
	a.mu.Unlock()
	if !over { // or else all of the output is here
		a.tell(&message{Kind: msgAck, Ref: a.ref, Offset: offset})
	}
}

// Stop implements executor.Attempt.
func (a *attempt) Stop(grace time.Duration) {
	a.tell(&message{Kind: msgStop, Ref: a.ref, Grace: grace})
}

func (a *attempt) tell(m *message) {
	a.mu.Lock()
	l := a.link
	a.mu.Unlock()
	if l != nil {
		l.conn.send(m)
	}
}

// Close implements executor.Attempt.
func (a *attempt) Close() error {
	a.mu.Lock()
	again, l, lost := a.closed, a.link, a.lost
	a.closed = true
	a.mu.Unlock()
	if again {
		return nil
	}
	a.x.mu.Lock()
	delete(a.x.attempts, a.ref)
	a.x.mu.Unlock()
	if l != nil && !lost {
		l.conn.send(&message{Kind: msgForget, Ref: a.ref})
		return nil
	}
	os.Remove(a.x.folder(a.ref) + spoolSuffix)
	return os.RemoveAll(a.x.folder(a.ref))
}

// result says what the end of a command means.
func result(m *message) executor.Result {
	r := executor.Result{
		Outcome: haulier.OutcomeError, Code: int(m.Code), Result: m.Data,
	}
	if m.CPU > 0 || m.MaxRSS > 0 {
		r.Account = &haulier.Account{CPU: haulier.Duration(m.CPU), MaxMemory: m.MaxRSS}
	}
	if m.Signal != 0 {
		r.Code = 128 + int(m.Signal)
	}
	switch m.Why {
	case endedStopped:
		r.Stopped = true
		r.Error = "stopped: " + describe(m)
	case endedTimeout:
		r.Error = "timed out: " + describe(m)
	case endedAbandoned:
		r.Error = "its worker did not come back in time: " + describe(m)
		if m.Error != "" {
			r.Error = m.Error + ": its worker's lease is over"
		}
	case endedNoStart:
		r.Outcome, r.Code, r.Error = haulier.OutcomeFailed, -1, "not started: "+m.Error
	case endedNoRoom:
		r.Code, r.Error = -1, "not started: "+m.Error
	default:
		r.Outcome, r.Error = byCode(m)
	}
	return r
}

// byCode is the outcome that a command chose itself.
func byCode(m *message) (haulier.Outcome, string) {
	switch {
	case m.Signal != 0:
	case m.Code == 0:
		return haulier.OutcomeOK, ""
	case m.Code == 75:
		return haulier.OutcomeRetry, "exit status 75: asked to run again"
	case m.Code == 65 || m.Code == 66:
		return haulier.OutcomeFailed, fmt.Sprintf("exit status %d: failed for good", m.Code)
	}
	return haulier.OutcomeError, describe(m)
}

func describe(m *message) string {
	if m.Signal != 0 {
		return fmt.Sprintf("killed by signal %d (%v)", m.Signal, syscall.Signal(m.Signal))
	}
	return fmt.Sprintf("exit status %d", m.Code)
}
