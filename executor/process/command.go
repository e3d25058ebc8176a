package process

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/joblog"
)

const (
	maxInlineStdin = 4 << 10 // bytes that a pipe takes without a reader
	lingerPoll     = 20 * time.Millisecond
	closeWait      = time.Second            // for what outlives its group with our pipes open
	groupWait      = 200 * time.Millisecond // for killed processes to be reaped, which is up to their parent
)

// command is one run of a program, in the supervisor.
type command struct {
	s     *supervisor
	spec  *message // the Start message
	spool *spool

	exited   chan exitStatus
	stopping chan struct{} // poked by stop

	mu     sync.Mutex
	killAt time.Time // zero: nobody has asked to stop it
	why    reason

	// Guarded by the supervisor's lock.
	group     *cgroup // nil: it has none
	pid       int
	exit      *message // how it ended
	forgotten bool
	attached  bool // the worker that is connected wants to hear of it
	queued    bool // stands in the list of those with output
	sent      int64
	acked     int64
}

func newCommand(s *supervisor, spec *message) *command {
	return &command{
		s: s, spec: spec, exited: make(chan exitStatus, 1), stopping: make(chan struct{}, 1),
		spool: newSpool(filepath.Join(s.dir, jobsFolder, refName(spec.Ref)+spoolSuffix), spec.Head, spec.Tail),
	}
}

// stop asks the command to end, and kills it when grace has passed. The earliest kill asked for holds;
// a negative grace is the task's own.
func (c *command) stop(grace time.Duration, why reason) {
	if grace < 0 {
		grace = c.spec.Grace
	}
	at := time.Now().Add(max(grace, 0))
	c.mu.Lock()
	if c.killAt.IsZero() || at.Before(c.killAt) {
		c.killAt = at
	}
	if c.why == endedItself {
		c.why = why
	}
	c.mu.Unlock()
	select {
	case c.stopping <- struct{}{}:
	default:
	}
}

func (c *command) deadline() (killAt time.Time, why reason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.killAt, c.why
}

// run lives as long as the command.
func (c *command) run() {
	defer c.s.wg.Done()
	var last lastLine
	last.max = haulier.MaxResult
	pid, pipes, err := c.start(&last)
	if err != nil {
		c.s.ended(c, noStart(c.spec, err))
		return
	}
	c.s.started(c, pid)
	status, why := c.await(pid)
	c.endGroup(pid)
	c.group.remove()
	pipes.close()
	exit := &message{
		Kind: msgExit, Ref: c.spec.Ref, Why: why, Size: c.spool.seal(time.Now()),
		CPU: status.cpuTime(), MaxRSS: status.maxRSS(), Data: readResult(c.spec.Result),
	}
	if status.status.Signaled() {
		exit.Signal = int64(status.status.Signal())
	} else {
		exit.Code = int64(status.status.ExitStatus())
	}
	if len(exit.Data) == 0 {
		exit.Data = last.text()
	}
	c.s.ended(c, exit)
}

func noStart(spec *message, err error) *message {
	m := &message{Kind: msgExit, Ref: spec.Ref, Why: endedNoStart, Error: err.Error()}
	for _, e := range []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ETXTBSY, syscall.EIO, syscall.ENOSPC, syscall.EINTR} {
		if errors.Is(err, e) || errors.Is(err, errConfine) {
			m.Why = endedNoRoom
		}
	}
	return m
}

// start runs the program with its pipes.
func (c *command) start(last *lastLine) (int, *outputs, error) {
	stdin, err := openStdin(c.spec)
	if err != nil {
		return 0, nil, err
	}
	defer stdin.Close()
	p := &outputs{}
	stdout, err := p.pipe()
	if err != nil {
		return 0, nil, err
	}
	defer syscall.Close(stdout)
	stderr, err := p.pipe()
	if err != nil {
		p.close()
		return 0, nil, err
	}
	defer syscall.Close(stderr)
	sys := ownGroup()
	bind, err := c.confined(sys)
	if err != nil {
		p.close()
		return 0, nil, err
	}
	pid, err := c.s.launch.start(c.spec.Path, c.spec.Argv, &syscall.ProcAttr{
		Dir:   c.spec.Dir,
		Env:   mergeEnv(c.s.baseEnv(), c.spec.Env),
		Files: []uintptr{stdin.Fd(), uintptr(stdout), uintptr(stderr)},
		Sys:   sys,
	}, bind, func(st exitStatus) { c.exited <- st })
	if err != nil {
		c.group.remove()
		p.close()
		return 0, nil, err
	}
	p.copy(0, func(b []byte) {
		last.write(b)
		c.output(joblog.Stdout, b)
	})
	p.copy(1, func(b []byte) { c.output(joblog.Stderr, b) })
	return pid, p, nil
}

func (c *command) output(stream joblog.Stream, b []byte) {
	if c.spool.add(stream, time.Now(), b) {
		c.s.grew(c)
	}
}

// await waits for the end of the program, and sees to timeout, TERM and KILL.
func (c *command) await(pid int) (exitStatus, reason) {
	var timeout <-chan time.Time
	if c.spec.Timeout > 0 {
		t := time.NewTimer(c.spec.Timeout)
		defer t.Stop()
		timeout = t.C
	}
	kill := time.NewTimer(time.Hour)
	defer kill.Stop()
	kill.Stop()
	told := false
	for {
		select {
		case st := <-c.exited:
			_, why := c.deadline()
			if !told {
				why = endedItself // it was faster than who asked
			}
			return st, why
		case <-timeout:
			c.stop(c.spec.Grace, endedTimeout)
		case <-c.stopping:
			at, _ := c.deadline()
			left := time.Until(at)
			if !told && left > 0 {
				c.terminate(pid)
				signalGroup(pid, syscall.SIGCONT) // a stopped process hears nothing else
			}
			told = true
			kill.Reset(max(left, 0))
		case <-kill.C:
			signalGroup(pid, syscall.SIGKILL)
		}
	}
}

// endGroup ends what the program left behind in its group. Who was asked to stop may
// use the rest of the grace; nobody tells when a group is empty, so it is looked at.
func (c *command) endGroup(pid int) {
	tick := time.NewTicker(lingerPoll)
	defer tick.Stop()
	for {
		at, _ := c.deadline()
		if at.IsZero() || !time.Now().Before(at) {
			break
		}
		if !signalGroup(pid, 0) {
			return
		}
		select {
		case <-tick.C:
		case <-c.stopping:
		}
	}
	giveUp := time.Now().Add(groupWait)
	for signalGroup(pid, syscall.SIGKILL) && time.Now().Before(giveUp) {
		<-tick.C
	}
}

// outputs are the reading ends of a command's pipes.
type outputs struct {
	files []*os.File
	wg    sync.WaitGroup
}

// pipe makes a pipe and returns the writing end, which the command gets: it blocks, as programs expect.
func (p *outputs) pipe() (write int, err error) {
	var fds [2]int
	syscall.ForkLock.RLock()
	err = syscall.Pipe(fds[:])
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return -1, os.NewSyscallError("pipe", err)
	}
	if err := syscall.SetNonblock(fds[0], true); err != nil {
		return -1, os.NewSyscallError("pipe", err)
	}
	p.files = append(p.files, os.NewFile(uintptr(fds[0]), "output"))
	return fds[1], nil
}

var readBuffers = sync.Pool{New: func() any { return new([joblog.MaxFrame]byte) }}

// copy hands what is read from a pipe to f until its end. It holds a buffer only while there is something to read.
func (p *outputs) copy(i int, f func([]byte)) {
	p.wg.Add(1)
	go func() {
		defer p.wg.Done()
		raw, err := p.files[i].SyscallConn()
		for err == nil {
			var n int
			err2 := raw.Read(func(fd uintptr) bool {
				buf := readBuffers.Get().(*[joblog.MaxFrame]byte)
				defer readBuffers.Put(buf)
				if n, err = syscall.Read(int(fd), buf[:]); errors.Is(err, syscall.EAGAIN) {
					return false
				}
				if n > 0 {
					f(buf[:n])
				}
				return true
			})
			if err2 != nil || n == 0 && err == nil {
				return
			}
			if errors.Is(err, syscall.EINTR) {
				err = nil
			}
		}
	}()
}

// close waits for the end of the pipes, but not for long: a process that left the group may hold them open.
func (p *outputs) close() {
	for _, f := range p.files {
		f.SetReadDeadline(time.Now().Add(closeWait))
	}
	p.wg.Wait()
	for _, f := range p.files {
		f.Close()
	}
}

// openStdin returns the standard input. Its closing closes only our end.
func openStdin(spec *message) (*os.File, error) {
	if spec.StdinFile != "" {
		return os.Open(spec.StdinFile)
	}
	if len(spec.Stdin) == 0 {
		return os.Open(os.DevNull)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	if _, err := w.Write(spec.Stdin[:min(len(spec.Stdin), maxInlineStdin)]); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// readResult reads the file that the command may have left its result in.
func readResult(path string) []byte {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil
	}
	b, _ := io.ReadAll(io.LimitReader(f, haulier.MaxResult))
	return b
}

// mergeEnv adds variables to those of base, in whose place they come.
func mergeEnv(base, added []string) []string {
	names := make(map[string]bool, len(added))
	for _, v := range added {
		names[envName(v)] = true
	}
	env := make([]string, 0, len(base)+len(added))
	for _, v := range base {
		if !names[envName(v)] {
			env = append(env, v)
		}
	}
	return append(env, added...)
}

func envName(v string) string {
	for i := 1; i < len(v); i++ {
		if v[i] == '=' {
			return v[:i]
		}
	}
	return v
}
