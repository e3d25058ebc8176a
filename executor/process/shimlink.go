package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/haulier/haulier"
)

// shimLink is the worker's connection to its supervisor.
type shimLink struct {
	conn    *conn
	build   string
	version uint64        // of the protocol that it speaks
	process *shimProcess  // nil when this worker did not start it
	ended   chan struct{} // closed when the connection is gone
}

// lease tells the supervisor for how long commands may run.
func (l *shimLink) lease(until time.Time) {
	l.conn.send(&message{Kind: msgLease, Patience: max(time.Until(until), 0)})
}

func dial(ctx context.Context, dir string) (net.Conn, error) {
	var c net.Conn
	err := withSocket(dir, func(path string) (err error) {
		var d net.Dialer
		c, err = d.DialContext(ctx, "unix", path)
		return err
	})
	return c, err
}

// helloWait bounds the wait for a supervisor's first words.
const helloWait = 10 * time.Second

// errHungUp: the supervisor ended, or was ended, before it said anything.
var errHungUp = fmt.Errorf("%w: it hung up", haulier.ErrUnavailable)

// greet says hello and returns the connection and what the supervisor knows of.
func (x *Executor) greet(ctx context.Context, c net.Conn) (*shimLink, []*message, error) {
	l := &shimLink{conn: newConn(c, nil), ended: make(chan struct{})}
	var known []*message
	var versions error
	listed := make(chan struct{})
	x.wg.Go(l.conn.write)
	x.wg.Go(func() {
		defer close(l.ended)
		err := l.conn.read(func(m *message) error {
			switch m.Kind {
			case msgWelcome:
				l.build, l.version = m.Build, m.Version
				if m.Version < protocolOldest || m.Oldest > protocolVersion {
					versions = fmt.Errorf("%w: it speaks versions %d to %d of the protocol, this program %d to %d: let it finish under the program that it came from",
						haulier.ErrInvalid, m.Oldest, m.Version, protocolOldest, protocolVersion)
					return versions
				}
			case msgKnown:
				known = append(known, m)
			case msgListed:
				close(listed)
			default:
				if a := x.find(m.Ref); a != nil {
					a.hear(l, m)
				}
			}
			return nil
		})
		if err != nil {
			x.env.Log.Warn("connection to the supervisor broke", "err", err)
		}
	})
	l.conn.send(&message{Kind: msgHello, Version: protocolVersion, Oldest: protocolOldest, Build: x.env.Version, Environ: x.cfg.Env, Patience: x.env.Patience})
	timeout := time.NewTimer(helloWait)
	defer timeout.Stop()
	select {
	case <-listed:
		return l, known, nil
	case <-l.ended:
		if versions != nil {
			return nil, nil, versions
		}
		return nil, nil, errHungUp
	case <-timeout.C:
		l.conn.close()
		return nil, nil, fmt.Errorf("%w: it does not answer", haulier.ErrUnavailable)
	case <-ctx.Done():
		l.conn.close()
		return nil, nil, ctx.Err()
	}
}

// shimProcess is a supervisor that this worker started. It is no zombie when it ends while the worker lives.
type shimProcess struct {
	cmd  *exec.Cmd
	once sync.Once
}

// abandon is called when the connection is gone: a supervisor that has ended is reaped, one that goes on is let go.
func (p *shimProcess) abandon() {
	if p == nil {
		return
	}
	p.once.Do(func() {
		children := make(chan os.Signal, 1)
		signal.Notify(children, syscall.SIGCHLD)
		defer signal.Stop(children)
		timeout := time.NewTimer(reapWait)
		defer timeout.Stop()
		for {
			var st syscall.WaitStatus
			if pid, err := syscall.Wait4(p.cmd.Process.Pid, &st, syscall.WNOHANG, nil); pid != 0 || err != nil && err != syscall.EINTR {
				break
			}
			select {
			case <-children:
				continue
			case <-timeout.C:
			}
			break
		}
		p.cmd.Process.Release()
	})
}

// reapWait is how long a supervisor that has nothing left to do may take to end.
const reapWait = 200 * time.Millisecond

// spawn starts a supervisor in a session of its own and returns when it listens.
func (x *Executor) spawn(ctx context.Context) (*shimProcess, error) {
	argv := x.cfg.Shim
	if len(argv) == 0 {
		own, err := ownProgram()
		if err != nil {
			return nil, fmt.Errorf("commands: %w", err)
		}
		argv = []string{own, "shim"}
	}
	logFile, err := openLog(filepath.Join(x.dir, "shim.log"))
	if err != nil {
		return nil, fmt.Errorf("commands: %w", err)
	}
	defer logFile.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("commands: %w", err)
	}
	defer r.Close()
	cmd := exec.Command(argv[0], append(argv[1:len(argv):len(argv)], "--dir", x.dir)...)
	cmd.Env = append(append([]string(nil), x.cfg.Env...), readyEnv+"=1")
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.ExtraFiles = []*os.File{w} // becomes readyFD
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	w.Close()
	if err != nil {
		return nil, fmt.Errorf("commands: start supervisor %q: %w", argv[0], err)
	}
	p := &shimProcess{cmd: cmd}
	if err := awaitReady(ctx, r); err != nil {
		kill := errors.Join(cmd.Process.Kill(), cmd.Wait())
		x.env.Log.Warn("supervisor given up", "err", kill)
		return nil, fmt.Errorf("commands: supervisor %q did not come up: %w; see %s", argv[0], err, logFile.Name())
	}
	return p, nil
}

// awaitReady waits for the supervisor's word that it listens.
func awaitReady(ctx context.Context, r *os.File) error {
	deadline := time.Now().Add(helloWait)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	r.SetReadDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { r.SetReadDeadline(time.Now()) })
	defer stop()
	_, err := r.Read(make([]byte, 16))
	return err
}

// openLog opens the supervisor's log, emptied when it has grown large.
func openLog(path string) (*os.File, error) {
	flags := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	if st, err := os.Stat(path); err == nil && st.Size() > 1<<20 {
		flags |= os.O_TRUNC
	}
	return os.OpenFile(path, flags, 0o600)
}
