package engine

import (
	"sync"
	"time"

	"github.com/haulier/haulier"
)

// scheduler brings bands with work and waiting claims together.
type scheduler struct {
	mu      sync.Mutex
	policy  Policy
	waiters []*waiter // in the order in which they began to wait
	closed  bool
	// fit reports whether a session has what the lane's jobs need beyond what the session says it runs.
	fit func(*haulier.Session, haulier.Lane) bool
}

// waiter is a claim that waits for jobs.
type waiter struct {
	session *haulier.Session
	wake    chan struct{} // one place: a wake-up that was not used yet
	owes    bool          // a wake-up was taken, and no look for work has followed; only the claim uses it
	deaf    bool          // it can't take anything any more; guarded by the scheduler's lock
}

func newScheduler(p Policy, fit func(*haulier.Session, haulier.Lane) bool) *scheduler {
	return &scheduler{policy: p, fit: fit}
}

// runs reports whether a session can run a lane's jobs, and the weight of their queue.
func (s *scheduler) runs(session *haulier.Session, lane haulier.Lane) (weight int, ok bool) {
	weight, ok = session.Runs(lane)
	return weight, ok && s.fit(session, lane)
}

// join begins to wait; the claim looks for work only after it, so that no wake-up is missed.
func (s *scheduler) join(session *haulier.Session) *waiter {
	w := &waiter{session: session, wake: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiters = append(s.waiters, w)
	if s.closed {
		w.wake <- struct{}{}
	}
	return w
}

// leave ends the wait.
func (s *scheduler) leave(w *waiter) {
	s.mu.Lock()
	for i, x := range s.waiters {
		if x == w {
			s.waiters = append(s.waiters[:i], s.waiters[i+1:]...)
			break
		}
	}
	s.mu.Unlock()
	s.passOn(w)
}

// deafen lets a claim wait on that can't take anything any more.
func (s *scheduler) deafen(w *waiter) {
	s.mu.Lock()
	w.deaf = true
	s.mu.Unlock()
	s.passOn(w)
}

// passOn wakes others when the waiter had a wake-up that it made no use of: the job
// that it was for must not wait until somebody looks by chance.
func (s *scheduler) passOn(w *waiter) {
	select {
	case <-w.wake:
		w.owes = true
	default:
	}
	if w.owes {
		w.owes = false
		s.wakeAll()
	}
}

// changed wakes claims that can run what became pending: for each lane as many as it has new jobs.
func (s *scheduler) changed(changes []haulier.JobChange) {
	var fresh map[haulier.Lane]int
	var stopped map[haulier.Lane]int
	for i := range changes {
		c := &changes[i]
		if c.Status.State == haulier.Pending {
			fresh = count(fresh, c.Spec.Lane())
		}
		if c.Before.Owned() && !c.Status.State.Owned() {
			stopped = count(stopped, c.Spec.Lane())
		}
	}
	if fresh == nil && stopped == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for lane, n := range stopped {
		s.policy.Stopped(lane, n)
	}
	for lane, n := range fresh {
		s.wakeLane(lane, n)
	}
}

func count(m map[haulier.Lane]int, l haulier.Lane) map[haulier.Lane]int {
	if m == nil {
		m = map[haulier.Lane]int{}
	}
	m[l]++
	return m
}

func (s *scheduler) wakeLane(lane haulier.Lane, n int) {
	for _, w := range s.waiters {
		if n == 0 {
			return
		}
		if w.deaf {
			continue
		}
		if _, ok := s.runs(w.session, lane); ok && w.signal() {
			n--
		}
	}
}

// wakeAll makes every waiting claim look again, as after a queue was resumed.
func (s *scheduler) wakeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.waiters {
		if !w.deaf {
			w.signal()
		}
	}
}

// signal reports whether the waiter had no wake-up pending.
func (w *waiter) signal() bool {
	select {
	case w.wake <- struct{}{}:
		return true
	default:
		return false
	}
}

// pick chooses what to take of the bands for a session.
func (s *scheduler) pick(session *haulier.Session, bands []haulier.BandHead, q *queues, n int, now time.Time) []haulier.Take {
	var fit []Candidate
	for _, b := range bands {
		w, ok := s.runs(session, b.Lane)
		if !ok || b.N <= 0 {
			continue
		}
		paused, share := q.setting(b.Lane.Tenant, b.Lane.Queue)
		if !paused {
			fit = append(fit, Candidate{BandHead: b, Weight: w * share})
		}
	}
	if len(fit) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.policy.Pick(fit, n, now)
}

func (s *scheduler) started(jobs []haulier.Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := 0; i < len(jobs); {
		band := haulier.Band{Lane: jobs[i].Lane(), Priority: jobs[i].Priority}
		k := i + 1
		for k < len(jobs) && jobs[k].Priority == band.Priority && jobs[k].Lane() == band.Lane {
			k++
		}
		s.policy.Started(band, k-i)
		i = k
	}
}

func (s *scheduler) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, w := range s.waiters {
		w.signal()
	}
}

func (s *scheduler) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}
