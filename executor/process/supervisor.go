package process

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
)

// supervisor runs commands for one worker at a time and keeps what they said
// and how they ended until a worker says that it has reported it.
type supervisor struct {
	dir    string
	build  string
	log    *slog.Logger
	launch *launcher
	wg     sync.WaitGroup // of commands
	news   chan struct{}  // poked when a worker comes or goes, and when a command is forgotten

	mu       sync.Mutex
	commands map[haulier.Ref]*command
	link     *link // of the worker that is connected
	conns    map[*conn]bool
	environ  []string
	patience time.Duration
	leftAt   time.Time // when the worker before went; zero while one is connected
	until    time.Time // commands may run so long; zero: nobody has said
	served   bool      // some worker was here
	quit     bool      // asked to end
}

// link is the connection of a worker.
type link struct {
	conn  *conn
	ready []*command // with output to send
}

func newSupervisor(dir, build string, reapAll bool, log *slog.Logger) *supervisor {
	return &supervisor{
		dir: dir, build: build, log: log, launch: newLauncher(reapAll), news: make(chan struct{}, 1),
		commands: map[haulier.Ref]*command{}, conns: map[*conn]bool{}, patience: firstPatience, leftAt: time.Now(),
	}
}

func (s *supervisor) baseEnv() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.environ
}

func (s *supervisor) poke() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// serve talks to one worker until its connection ends.
func (s *supervisor) serve(c net.Conn) {
	l := &link{}
	l.conn = newConn(c, func(b []byte) []byte { return s.fill(l, b) })
	s.mu.Lock()
	s.conns[l.conn] = true
	s.mu.Unlock()
	var writer sync.WaitGroup
	writer.Go(l.conn.write)
	err := l.conn.read(func(m *message) error { return s.handle(l, m) })
	l.conn.close()
	writer.Wait()
	s.mu.Lock()
	delete(s.conns, l.conn)
	if s.link == l {
		s.link = nil
		s.left(time.Now())
	}
	s.mu.Unlock()
	if err != nil {
		s.log.Warn("worker's connection ended", "err", err)
	}
	s.poke()
}

// left notes that the worker has gone.
func (s *supervisor) left(now time.Time) {
	s.leftAt = now
	if at := now.Add(s.patience); s.until.IsZero() || at.Before(s.until) {
		s.until = at
	}
}

// handle does what a message asks. An error ends the connection.
func (s *supervisor) handle(l *link, m *message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Kind == msgHello {
		return s.hello(l, m)
	}
	if s.link != l {
		return fmt.Errorf("message %d: %w: another worker has come, or there was no hello", m.Kind, haulier.ErrConflict)
	}
	c := s.commands[m.Ref]
	switch m.Kind {
	case msgStart:
		if c == nil {
			s.start(m)
		}
	case msgLease:
		s.until = time.Now().Add(m.Patience)
		s.poke()
	case msgQuit:
		s.quit = len(s.commands) == 0
		s.poke()
	}
	if c == nil {
		return nil
	}
	switch m.Kind {
	case msgStart, msgAttach:
		s.attach(c)
	case msgStop:
		c.stop(m.Grace, endedStopped)
	case msgAck:
		c.acked = max(c.acked, m.Offset)
		s.queue(c)
	case msgForget:
		s.forget(c)
	}
	return nil
}

func (s *supervisor) hello(l *link, m *message) error {
	l.conn.send(&message{Kind: msgWelcome, Version: protocolVersion, Oldest: protocolOldest, Build: s.build, PID: int64(os.Getpid())})
	if m.Version < protocolOldest || m.Oldest > protocolVersion {
		return fmt.Errorf("hello: %w: worker speaks versions %d to %d", haulier.ErrInvalid, m.Oldest, m.Version)
	}
	if s.link != nil && s.link != l {
		s.link.conn.close()
	}
	s.link, s.leftAt, s.served = l, time.Time{}, true
	s.environ, s.patience = slices.Clone(m.Environ), max(m.Patience, minPatience)
	for _, c := range s.commands {
		c.attached, c.queued = false, false
		if !c.forgotten {
			l.conn.send(&message{Kind: msgKnown, Ref: c.spec.Ref, PID: int64(c.pid), Offset: c.acked})
		}
	}
	l.conn.send(&message{Kind: msgListed})
	s.poke()
	return nil
}

func (s *supervisor) start(m *message) {
	c := newCommand(s, m)
	c.attached = true
	s.commands[m.Ref] = c
	if s.lapsed(time.Now()) {
		c.exit = &message{Kind: msgExit, Ref: m.Ref, Why: endedAbandoned, Code: -1, Error: "not started"}
		s.link.conn.send(c.exit)
		return
	}
	s.wg.Add(1)
	go c.run()
}

// lapsed reports whether others may run the worker's jobs.
func (s *supervisor) lapsed(now time.Time) bool { return !s.until.IsZero() && !now.Before(s.until) }

// attach begins to tell the worker of a command, from what the server has on.
func (s *supervisor) attach(c *command) {
	c.attached, c.sent = true, c.acked
	if c.pid != 0 {
		s.link.conn.send(&message{Kind: msgStarted, Ref: c.spec.Ref, PID: int64(c.pid)})
	}
	if c.exit != nil {
		s.link.conn.send(c.exit)
	}
	s.queue(c)
}

// forget drops a command, or kills it and drops it when it has ended.
func (s *supervisor) forget(c *command) {
	c.attached = false
	if c.exit == nil {
		c.forgotten = true
		c.stop(0, endedStopped)
		return
	}
	delete(s.commands, c.spec.Ref)
	c.remove()
	s.poke()
}

// remove frees the command's files.
func (c *command) remove() {
	c.spool.remove()
	if c.spec.Folder != "" {
		if err := os.RemoveAll(c.spec.Folder); err != nil {
			c.s.log.Warn("folder of a job not removed", "job", c.spec.Ref.Job, "attempt", c.spec.Ref.Attempt, "err", err)
		}
	}
}

func (s *supervisor) started(c *command, pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.pid = pid
	if c.attached && s.link != nil {
		s.link.conn.send(&message{Kind: msgStarted, Ref: c.spec.Ref, PID: int64(pid)})
	}
}

// ended notes how a command ended.
func (s *supervisor) ended(c *command, exit *message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.exit, c.pid = exit, 0
	if c.forgotten {
		s.forget(c)
		return
	}
	if c.attached && s.link != nil {
		s.link.conn.send(exit)
	}
	s.queue(c)
}

// grew notes that a command has more output.
func (s *supervisor) grew(c *command) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue(c)
}

func (s *supervisor) queue(c *command) {
	if c.attached && !c.queued && s.link != nil {
		c.queued = true
		s.link.ready = append(s.link.ready, c)
		s.link.conn.poke()
	}
}

// fill appends output to what is sent: a chunk of one command after the other.
func (s *supervisor) fill(l *link, b []byte) []byte {
	for len(b) < executor.Window {
		s.mu.Lock()
		if s.link != l || len(l.ready) == 0 {
			s.mu.Unlock()
			return b
		}
		c := l.ready[0]
		l.ready = append(l.ready[:0], l.ready[1:]...)
		c.queued = false
		from, room := c.sent, c.acked+executor.Window-c.sent
		s.mu.Unlock()
		if room <= 0 {
			continue
		}
		frames, err := c.spool.read(from, room)
		if err != nil {
			s.log.Error("output lost", "job", c.spec.Ref.Job, "attempt", c.spec.Ref.Attempt, "err", err)
		}
		if len(frames) == 0 {
			continue
		}
		b = appendMessage(b, &message{Kind: msgOutput, Ref: c.spec.Ref, Offset: from, Data: frames})
		s.mu.Lock()
		if s.link == l {
			c.sent = from + int64(len(frames))
			s.queue(c)
		}
		s.mu.Unlock()
	}
	return b
}

// hangUp ends all connections.
func (s *supervisor) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.close()
	}
}

// killAll ends every command. The caller holds mu.
func (s *supervisor) killAll(why reason) {
	for _, c := range s.commands {
		if c.exit == nil {
			c.stop(0, why)
		}
	}
}

// close ends everything. No worker may be connected.
func (s *supervisor) close() {
	s.mu.Lock()
	s.killAll(endedAbandoned)
	s.mu.Unlock()
	s.wg.Wait()
	s.launch.close()
	for _, c := range s.commands {
		c.remove()
	}
}

// life ends commands when others may run their jobs. It blocks until the supervisor is of no more use: nobody is
// connected, and nothing runs or is unreported, or no worker came for so long that nobody wants to know any more.
func (s *supervisor) life(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next, over := s.look(time.Now())
		if over {
			return
		}
		timer.Reset(next)
		select {
		case <-s.news:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// look sees to what the time demands and says when to look again.
func (s *supervisor) look(now time.Time) (next time.Duration, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	connected := s.link != nil
	if s.served && len(s.commands) == 0 && (s.quit || !connected) {
		return 0, true
	}
	next = time.Hour
	if !connected {
		wait := s.patience * longGone
		if !s.served {
			wait = s.patience // nothing can run: whoever started it was killed before it came
		}
		if next = s.leftAt.Add(wait).Sub(now); next <= 0 {
			return 0, true
		}
	}
	if s.lapsed(now) {
		s.killAll(endedAbandoned)
	} else if !s.until.IsZero() {
		next = min(next, s.until.Sub(now))
	}
	return next, false
}

const (
	firstPatience = 10 * time.Second // until the first worker comes
	minPatience   = 500 * time.Millisecond
	longGone      = 10 // times the patience, after which ended commands are dropped
	jobsFolder    = "jobs"
	spoolSuffix   = ".out"
)

func refName(r haulier.Ref) string { return fmt.Sprintf("%v.%d", r.Job, r.Attempt) }
