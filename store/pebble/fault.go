package pebble

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/haulier/haulier"
)

// fault is what ended the store before its time. After it nothing is written
// any more, and what was not acknowledged is in doubt until the store is opened again.
type fault struct {
	once    sync.Once
	done    chan struct{} // closed by the first failure
	err     error         // read it after done
	stopped sync.Once
	stuck   chan struct{} // closed when Pebble was stopped in the middle and can't be closed
	log     *slog.Logger
}

func newFault(log *slog.Logger) *fault {
	return &fault{done: make(chan struct{}), stuck: make(chan struct{}), log: log}
}

// fail records the first failure and wakes all who wait.
func (f *fault) fail(cause error) {
	f.once.Do(func() {
		f.err = fmt.Errorf("store: %w: %w: nothing more is written; free disk space or repair the disk, then start again",
			haulier.ErrUnavailable, cause)
		f.log.Error("store failed", "err", cause)
		close(f.done)
	})
}

// stop records a failure in the middle of Pebble, which leaves it unfit to be closed.
func (f *fault) stop(cause error) {
	f.fail(cause)
	f.stopped.Do(func() { close(f.stuck) })
}

// halt is stop, and ends the goroutine with the locks it holds released: going on
// is not safe, and ending the process is not ours to decide.
func (f *fault) halt(cause error) {
	f.stop(cause)
	runtime.Goexit()
}

func (f *fault) isStuck() bool {
	select {
	case <-f.stuck:
		return true
	default:
		return false
	}
}

// check is the failure, if there was one.
func (f *fault) check() error {
	select {
	case <-f.done:
		return f.err
	default:
		return nil
	}
}

// pebbleLog passes on what Pebble says.
type pebbleLog struct {
	log   *slog.Logger
	fault *fault
}

// Infof implements pebble.Logger.
func (l pebbleLog) Infof(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("pebble", "note", fmt.Sprintf(format, args...))
	}
}

// Errorf implements pebble.Logger.
func (l pebbleLog) Errorf(format string, args ...any) {
	l.log.Warn("pebble", "note", fmt.Sprintf(format, args...))
}

// Fatalf implements pebble.Logger, whose callers do not expect it to return.
func (l pebbleLog) Fatalf(format string, args ...any) {
	l.fault.halt(fmt.Errorf(format, args...))
}

// listener ends the store when Pebble can no longer write in the background;
// Pebble itself would try again at once and for ever.
func (f *fault) listener() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) { f.halt(err) },
		DataCorruption:  func(pebble.DataCorruptionInfo) {}, // the read that met it tells its caller
	}
}

// attempt calls run in a goroutine of its own, since Pebble may end the goroutine
// that it finds itself in, and gives up when Pebble is stuck.
func (f *fault) attempt(run func() error) error {
	result := make(chan error, 1)
	go func() {
		err := errHalted
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("%v", r)
			}
			result <- err
		}()
		err = run()
	}()
	var err error
	select {
	case err = <-result:
	case <-f.stuck:
		err = errHalted
	}
	if errors.Is(err, errHalted) {
		return f.check()
	}
	return err
}

var errHalted = errors.New("halted")
