package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/haulier/haulier"
)

const (
	socketName    = "shim.sock"
	maxSocketPath = 100 // bytes that fit an address of a Unix socket everywhere
	readyFD       = 3   // where a supervisor that a worker started says that it listens
)

func socketPath(dir string) string { return filepath.Join(dir, socketName) }

// ShimConfig configures the supervisor process.
type ShimConfig struct {
	Dir   string // state folder of the worker
	Build string // version of the program
	Log   *slog.Logger
}

// RunShim is the supervisor process: it runs the commands of the worker of a
// state folder, and outlives that worker. It is what the hidden command "haulier
// shim --dir DIR" does; only one runs for a folder. It returns when no worker
// is connected and nothing runs or is unreported, or when ctx ends.
func RunShim(ctx context.Context, c ShimConfig) error {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	// Signals for the worker's session or service are not for the commands.
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE)
	defer signal.Stop(ignored)
	lock, err := lockShim(ctx, c.Dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := os.MkdirAll(filepath.Join(c.Dir, jobsFolder), 0o700); err != nil {
		return fmt.Errorf("shim: %w", err)
	}
	if err := adoptOrphans(); err != nil {
		c.Log.Warn("orphans of commands go to the system", "err", err)
	}
	listener, err := listen(c.Dir)
	if err != nil {
		return fmt.Errorf("shim: %w", err)
	}
	sayReady()
	s := newSupervisor(c.Dir, c.Build, true, c.Log)
	s.accept(ctx, listener)
	s.close()
	return nil
}

// accept serves workers until the supervisor is of no more use.
func (s *supervisor) accept(ctx context.Context, listener net.Listener) {
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				s.log.Warn("connection refused", "err", err)
				select {
				case <-time.After(100 * time.Millisecond): // out of files, most likely
				case <-ctx.Done():
				}
				continue
			}
			wg.Go(func() { s.serve(c) })
		}
	})
	s.life(ctx)
	os.Remove(socketPath(s.dir))
	listener.Close()
	s.hangUp()
	wg.Wait()
}

// lockShim makes this the only supervisor of the folder. One that is about to end is waited for.
func lockShim(ctx context.Context, dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "shim.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("shim: %w", err)
	}
	locked := make(chan error, 1)
	go func() { locked <- syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }()
	select {
	case err = <-locked:
		if err != nil {
			err = fmt.Errorf("shim: lock %s: %w", f.Name(), err)
		}
		return f, err
	case <-time.After(lockWait):
		return nil, fmt.Errorf("shim: %w: another supervisor serves %s", haulier.ErrConflict, dir)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

const lockWait = 5 * time.Second

func listen(dir string) (net.Listener, error) {
	if err := os.Remove(socketPath(dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var l *net.UnixListener
	err := withSocket(dir, func(path string) (err error) {
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		return err
	})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	return l, os.Chmod(socketPath(dir), 0o600)
}

// sayReady tells the worker that started this process. Started by hand, there is nobody to tell.
func sayReady() {
	if os.Getenv(readyEnv) == "" {
		return
	}
	os.Unsetenv(readyEnv)
	f := os.NewFile(readyFD, "ready")
	fmt.Fprintln(f, "ready")
	f.Close()
}

const readyEnv = "HAULIER_SHIM_READY"
