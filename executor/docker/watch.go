package docker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/moby/moby/client"
)

// watcher is the process that removes a worker's containers when the worker can't: see RunWatch.
type watcher struct {
	cmd   *exec.Cmd
	ended chan struct{}

	mu sync.Mutex
	in io.WriteCloser
}

// turnFile names the worker that watches over the folder's containers: who finds another name in it has been followed.
const turnFile = "turn"

// watched starts the watch before the first container does.
func (x *Executor) watched() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.watch != nil || len(x.cfg.Watch) == 0 {
		return nil
	}
	w, err := startWatch(x.cfg.Watch, x.dir, x.cfg.Host, x.env.Patience)
	if err != nil {
		return fmt.Errorf("containers: start their watch: %w", err)
	}
	x.watch = w
	if !x.until.IsZero() {
		w.tell(x.until)
	}
	return nil
}

func startWatch(command []string, dir, host string, patience time.Duration) (*watcher, error) {
	turn := strconv.Itoa(os.Getpid()) + "." + strconv.FormatInt(time.Now().UnixNano(), 36)
	if err := os.WriteFile(filepath.Join(dir, turnFile), []byte(turn), 0o600); err != nil {
		return nil, err
	}
	w := &watcher{cmd: exec.Command(command[0], append(command[1:len(command):len(command)], "--dir", dir)...), ended: make(chan struct{})} //nolint:noctx // it outlives whoever starts it
	w.cmd.Env = os.Environ()
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if host != "" {
		w.cmd.Env = append(w.cmd.Env, client.EnvOverrideHost+"="+host)
	}
	in, err := w.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	w.in = in
	if err := w.cmd.Start(); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	go func() { // ends with the process; leave waits for that
		defer close(w.ended)
		_ = w.cmd.Wait() // what went wrong it has said
	}()
	w.say("turn " + turn)
	w.say("patience " + patience.String())
	return w, nil
}

// say writes a line. A watch that is gone is no reason to stop.
func (w *watcher) say(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = io.WriteString(w.in, line+"\n")
}

func (w *watcher) tell(until time.Time) { w.say("lease " + time.Until(until).String()) }

// leave leaves the watch alone with what still runs. It ends soon when that is nothing.
func (w *watcher) leave() {
	w.mu.Lock()
	w.in.Close()
	w.mu.Unlock()
	t := time.NewTimer(leaveWait)
	defer t.Stop()
	select {
	case <-w.ended:
	case <-t.C:
	}
}

// leaveWait is how long a worker that ends waits for its watch, which stays when there are containers.
const leaveWait = 200 * time.Millisecond

// RunWatch is the process that outlives a worker to remove its containers. It is what the hidden command "haulier watch
// --dir DIR" does, where DIR is the folder of containers in the worker's state folder. From in it reads lines:
//
//	turn NAME        of the worker; first
//	patience TIME    that containers may run on after the worker's end, until the next one comes
//	lease TIME       from now on that containers may run, unless there is another such line
//
// The end of in is that of the worker. RunWatch returns when there is nothing to watch over any more, or when ctx ends.
func RunWatch(ctx context.Context, dir string, in io.Reader, log *slog.Logger) error {
	ignored := make(chan os.Signal, 1) // those for the worker's session or service are not for the containers
	signal.Notify(ignored, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(ignored)
	w := &watch{dir: dir, log: log, lines: make(chan string)}
	var err error
	if w.owner, err = ownerOf(dir); err != nil {
		return err
	}
	if w.cli, err = connect(""); err != nil {
		return err
	}
	defer w.cli.Close()
	go func() { // ends with the worker, or with this process
		defer close(w.lines)
		s := bufio.NewScanner(in)
		for s.Scan() {
			w.lines <- s.Text()
		}
	}()
	return w.run(ctx)
}

// watch is the state of RunWatch.
type watch struct {
	dir, owner, turn string
	cli              *client.Client
	log              *slog.Logger
	lines            chan string
	patience         time.Duration
}

func (w *watch) run(ctx context.Context) error {
	deadline := time.NewTimer(time.Hour)
	defer deadline.Stop()
	deadline.Stop()
	lines := w.lines
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				lines = nil
				if w.followed() || w.idle(ctx) {
					return nil
				}
				deadline.Reset(w.patience)
				continue
			}
			if left, ok := w.hear(line); ok {
				deadline.Reset(max(left, 0))
			}
		case <-deadline.C:
			if w.followed() {
				return nil
			}
			if err := w.clear(ctx); err != nil {
				w.log.Warn("containers of a lost worker not removed yet", "err", err)
				deadline.Reset(askAgain)
				continue
			}
			if lines == nil {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// hear takes a line; a lease is how long containers may run.
func (w *watch) hear(line string) (lease time.Duration, told bool) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "turn":
		w.turn = rest
	case "patience":
		w.patience, _ = time.ParseDuration(rest) // the worker has written it
	case "lease":
		d, err := time.ParseDuration(rest)
		return d, err == nil
	}
	return 0, false
}

// followed reports whether another worker, with a watch of its own, has come, or somebody has removed the state folder.
func (w *watch) followed() bool {
	b, err := os.ReadFile(filepath.Join(w.dir, turnFile))
	return err == nil && string(b) != w.turn || errors.Is(err, os.ErrNotExist)
}

func (w *watch) idle(ctx context.Context) bool {
	list, err := owned(ctx, w.cli, w.owner)
	return err == nil && len(list) == 0
}

// clear removes all containers of the worker, and without a state folder what else it has left.
func (w *watch) clear(ctx context.Context) error {
	list, err := owned(ctx, w.cli, w.owner)
	if err != nil {
		return err
	}
	for i := range list {
		if err := remove(ctx, w.cli, list[i].ID); err != nil {
			return err
		}
	}
	if len(list) > 0 {
		w.log.Warn("containers of a lost worker were removed", "containers", len(list))
	}
	if filepath.Base(w.dir) != stateFolder {
		return os.RemoveAll(w.dir)
	}
	return nil
}
