package script

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
)

const (
	lookEvery = time.Second     // at a context's memory while a job runs
	exitWait  = 2 * time.Second // for a context to end by itself
	pipeWait  = time.Second     // for what outlives a context with its pipes open
)

// process is a context: a process that runs jobs by handlers.
type process struct {
	x       *Executor
	g       *group
	dir     string
	wake    chan struct{}
	loaded  map[string]bool // handlers, by digest
	jobs    int
	batches int // that came to their end
	began   time.Time
	worn    bool // it is to end after this batch

	cmd     *exec.Cmd
	pid     atomic.Int64 // of the process, 0 before it has started
	told    *os.File     // lines go to it here
	says    lines        // and come from it here
	outputs [2]*os.File
	streams *streams
	exited  chan struct{} // closed when the process has ended
	wg      sync.WaitGroup

	// Guarded by the executor's lock.
	retire  bool // it is to end as soon as it has nothing to do
	called  bool // it will look for jobs in a moment
	ended   bool // it was killed since a job was stopped
	current *attempt
}

func newProcess(x *Executor, g *group, n int) *process {
	return &process{x: x, g: g, dir: filepath.Join(x.dir, "context-"+strconv.Itoa(n)), wake: make(chan struct{}, 1), loaded: map[string]bool{}, called: true}
}

// call lets a context that waits look for jobs. It is called with the lock held.
func (p *process) call() {
	if !p.called {
		p.called = true
		p.g.coming++
	}
	p.g.idle = remove(p.g.idle, p)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// arrive notes that the context looks for jobs. It is called with the lock held.
func (p *process) arrive() {
	if p.called {
		p.called = false
		p.g.coming--
	}
}

func remove(list []*process, p *process) []*process {
	for i, x := range list {
		if x == p {
			return append(list[:i], list[i+1:]...)
		}
	}
	return list
}

// run lives as long as the context.
func (p *process) run() {
	defer p.x.left(p)
	if err := p.start(); err != nil {
		p.shut()
		p.refuse(fmt.Sprintf("language %s: its process can't be started: %v", p.g.key.lang, err))
		return
	}
	for !p.worn {
		batch := p.next()
		if batch == nil {
			break
		}
		p.work(batch)
	}
	p.shut()
}

// refuse ends what waits for a context that can't be started.
func (p *process) refuse(why string) {
	p.x.mu.Lock()
	p.arrive()
	left := p.g.queue
	p.g.queue = nil
	p.x.mu.Unlock()
	for _, a := range left {
		a.finish(failed(why))
	}
}

func failed(why string) executor.Result {
	return executor.Result{Outcome: haulier.OutcomeError, Code: -1, Error: why}
}

// next waits for a batch; nil: the context is to end.
func (p *process) next() []*attempt {
	x, g := p.x, p.g
	idle := time.NewTimer(x.cfg.Idle)
	defer idle.Stop()
	x.mu.Lock()
	defer x.mu.Unlock()
	for over := false; ; {
		p.arrive()
		switch {
		case x.closed, p.retire, over:
			return nil
		case len(g.queue) > 0 && x.starved(g, patience), len(g.queue) == 0 && x.starved(g, 0):
			return nil
		case len(g.queue) > 0:
			return g.take(p, x.cfg.Jobs-p.jobs)
		}
		g.idle = append(g.idle, p)
		x.mu.Unlock()
		select {
		case <-p.wake:
		case <-idle.C:
			over = true
		case <-p.exited: // it has ended by itself
			over = true
		case <-x.over.Done():
		}
		x.mu.Lock()
		g.idle = remove(g.idle, p)
		over = over && len(g.queue) == 0 || p.gone()
	}
}

// gone reports whether the process has ended.
func (p *process) gone() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// start starts the process and waits for its first line.
func (p *process) start() error {
	p.exited = make(chan struct{})
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		close(p.exited)
		return err
	}
	pipes, err := openPipes()
	if err != nil {
		close(p.exited)
		return err
	}
	command := p.x.command(p.g.key.lang)
	args := make([]string, len(command))
	for i, arg := range command {
		args[i] = strings.ReplaceAll(arg, DriverWord, filepath.Join(p.x.dir, driverFiles[p.g.key.lang]))
	}
	p.cmd = exec.Command(args[0], args[1:]...)
	p.cmd.Dir, p.cmd.Env = p.dir, append(p.x.env[:len(p.x.env):len(p.x.env)], "PWD="+p.dir)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.ExtraFiles = pipes.out[1], pipes.err[1], []*os.File{pipes.told[0], pipes.says[1]}
	p.cmd.SysProcAttr = ownGroup()
	started := make(chan struct{})
	p.x.starts <- func() {
		defer close(started)
		err = p.cmd.Start()
	}
	<-started
	pipes.closeTheirs()
	p.told, p.says.f, p.outputs = pipes.told[1], pipes.says[0], [2]*os.File{pipes.out[0], pipes.err[0]}
	mark := rand.Text()
	p.streams = newStreams([]byte("\x1e" + mark + "\x1e"))
	if err != nil {
		p.cmd = nil
		close(p.exited)
		return err
	}
	p.wg.Go(func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // told by its state
	})
	for i, f := range p.outputs {
		p.wg.Go(func() { p.streams.read(i, f) })
	}
	p.pid.Store(int64(p.cmd.Process.Pid))
	p.began = time.Now()
	if p.x.over.Err() != nil {
		return p.x.over.Err()
	}
	var words []string
	if _, err = fmt.Fprintf(p.told, "hello %d %s\n", protocolVersion, mark); err == nil {
		words, err = p.hear("hello", 2, startTimeout)
	}
	if err == nil && words[1] != strconv.Itoa(protocolVersion) {
		err = fmt.Errorf("%w: its version is %.20q, that of this worker %d", errProtocol, words[1], protocolVersion)
	}
	if err != nil {
		return errors.New(p.fault(err))
	}
	return nil
}

// pipes are those between a worker and a context: reading end, writing end.
type pipes struct{ told, says, out, err [2]*os.File }

func openPipes() (p pipes, err error) {
	for _, ends := range []*[2]*os.File{&p.told, &p.says, &p.out, &p.err} {
		if ends[0], ends[1], err = os.Pipe(); err != nil {
			p.closeTheirs()
			closeAll(p.told[1], p.says[0], p.out[0], p.err[0])
			return p, err
		}
	}
	return p, nil
}

func (p *pipes) closeTheirs() { closeAll(p.told[0], p.says[1], p.out[1], p.err[1]) }

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// kill ends the process with all of its group, at once.
func (p *process) kill() {
	if pid := p.pid.Load(); pid > 0 {
		_ = syscall.Kill(-int(pid), syscall.SIGKILL) // it may have ended
	}
}

// shut ends the process, by itself if it does that soon, and what it has left.
func (p *process) shut() {
	closeAll(p.told)
	timer := time.NewTimer(exitWait)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
	}
	p.end()
	p.wg.Wait()
	closeAll(p.says.f, p.outputs[0], p.outputs[1])
	if err := os.RemoveAll(p.dir); err != nil {
		p.x.log.Warn("folder of a context not removed", "err", err)
	}
}

// end kills the process and reads what it has still said.
func (p *process) end() {
	p.kill()
	<-p.exited
	for _, f := range p.outputs {
		if f != nil {
			f.SetReadDeadline(time.Now().Add(pipeWait))
		}
	}
}

// Why a context was ended by its owner.
var (
	errTimeout = errors.New("timed out")
	errMemory  = errors.New("too much memory")
	errMarks   = errors.New("its output does not come to an end")
)

// hear waits for a line for at most the given time.
func (p *process) hear(verb string, n int, most time.Duration) ([]string, error) {
	until := time.Now().Add(most)
	for {
		line, err := p.says.next(func() {
			next := time.Now().Add(lookEvery)
			if next.After(until) {
				next = until
			}
			p.says.f.SetReadDeadline(next)
		})
		switch {
		case err == nil:
			return readLine(line, verb, n)
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return nil, err
		case !time.Now().Before(until):
			return nil, fmt.Errorf("%w after %v", errTimeout, most)
		}
		if used := rss(p.cmd.Process.Pid); used > 2*p.x.cfg.Memory {
			return nil, fmt.Errorf("%w: its process has %d MiB", errMemory, used>>20)
		}
	}
}

// lines reads lines of at most maxLine bytes. After a deadline it goes on where it was.
type lines struct {
	f    *os.File
	buf  []byte
	r, w int // what is not yet taken of buf
}

// next returns the next line without its end. It is valid until the following call. wait is called before each read.
func (l *lines) next(wait func()) ([]byte, error) {
	if l.buf == nil {
		l.buf = make([]byte, maxLine)
	}
	for scanned := l.r; ; {
		if i := bytes.IndexByte(l.buf[scanned:l.w], '\n'); i >= 0 {
			line := l.buf[l.r : scanned+i]
			l.r = scanned + i + 1
			return line, nil
		}
		if l.r > 0 {
			l.w = copy(l.buf, l.buf[l.r:l.w])
			l.r = 0
		}
		if scanned = l.w; l.w == len(l.buf) {
			return nil, fmt.Errorf("%w: a line has more than %d bytes", errProtocol, maxLine)
		}
		wait()
		n, err := l.f.Read(l.buf[l.w:])
		if l.w += n; n == 0 && err != nil {
			return nil, err
		}
	}
}

// fault ends the process, and says in words what was wrong.
func (p *process) fault(err error) string {
	p.worn = true
	timer := time.NewTimer(pipeWait)
	defer timer.Stop()
	own := errors.Is(err, errTimeout) || errors.Is(err, errMemory) || errors.Is(err, errProtocol) || errors.Is(err, errMarks)
	alive := false
	if !own { // it has closed the pipe, most often since it ends
		select {
		case <-p.exited:
		case <-timer.C:
			alive = true
		}
	}
	p.end()
	p.streams.drained()
	switch {
	case own:
		return err.Error()
	case alive:
		return "it closed the pipe on which outcomes are told"
	}
	return "its process ended: " + p.cmd.ProcessState.String()
}
