package engine

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haulier/haulier"
)

// session is what the engine knows of a live session beyond its document.
type session struct {
	ID haulier.ID
	// claims is held for reading by each claim under way, for writing by who ends the session.
	claims sync.RWMutex
	gone   chan struct{} // closed when the session has ended

	mu        sync.Mutex
	info      haulier.Session
	rev       uint64             // of its document
	expired   bool               // its jobs are being returned
	void      atomic.Uint64      // claims up to this number were given up by the worker
	resumed   bool               // by a worker that has not said yet what it took over
	renewals  uint64             // counts renewals, to tell an old broken connection from a new one
	connected int                // renewals that wait right now
	jobs      int                // jobs it holds
	cancels   map[haulier.ID]int // attempts that it is to cancel, by job
	told      chan struct{}      // closed and replaced when cancels grow
	asked     uint64             // cancellations asked for so far
	announced uint64             // asked, when the newest reply was given
}

// unheld says what becomes of jobs which the session's worker does not hold: of a former worker's
// they are lost, otherwise they are of a claim whose answer never arrived.
func (s *session) unheld() (how haulier.EventKind, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resumed {
		return haulier.EventLost, ""
	}
	return haulier.EventRelease, "it never reached its worker"
}

// settled notes that a worker that took over has said what it holds.
func (s *session) settled() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resumed = false
}

func newSession(info haulier.Session, rev uint64) *session {
	return &session{ID: info.ID, info: info, rev: rev, gone: make(chan struct{}), cancels: map[haulier.ID]int{}, told: make(chan struct{})}
}

// snapshot is the session as people see it.
func (s *session) snapshot() haulier.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := s.info
	info.Jobs, info.Connected = s.jobs, s.connected > 0
	return info
}

func (s *session) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.expired
}

func (s *session) draining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info.Draining
}

func (s *session) lost() error {
	return noSession(s.ID)
}

// toCancel lists what the session is to cancel, and a channel that is closed when there is more.
func (s *session) toCancel() ([]haulier.Ref, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var refs []haulier.Ref
	for id, attempt := range s.cancels {
		refs = append(refs, haulier.Ref{Job: id, Attempt: attempt})
	}
	return refs, s.told
}

// toldAll notes that a reply carries all cancellations, and reports whether one of them is new.
func (s *session) toldAll() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh := s.announced != s.asked
	s.announced = s.asked
	return fresh
}

// connect notes a renewal that begins to wait; the result names it.
func (s *session) connect(now time.Time, r *haulier.RenewRequest) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewals++
	s.connected++
	s.info.SeenAt = now
	s.info.Draining = s.info.Draining || r.Drain
	if r.Load != nil {
		s.info.Load = r.Load
	}
	return s.renewals
}

// disconnect notes that a renewal no longer waits, and reports whether it was the newest.
func (s *session) disconnect(renewal uint64) (newest bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connected--
	return s.renewals == renewal && !s.expired
}

// sessions is the view of all live sessions and of who holds which job.
type sessions struct {
	mu     sync.Mutex
	byID   map[haulier.ID]*session
	owners map[haulier.ID]*session // of claimed and running jobs
}

func newSessions() *sessions {
	return &sessions{byID: map[haulier.ID]*session{}, owners: map[haulier.ID]*session{}}
}

func (t *sessions) get(id haulier.ID) (*session, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.byID[id]; s != nil {
		return s, nil
	}
	return nil, noSession(id)
}

func noSession(id haulier.ID) error {
	return fmt.Errorf("session %v: %w: it has expired or was closed; open a new one", id, haulier.ErrLeaseLost)
}

func (t *sessions) add(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byID[s.ID] = s
}

// adopt adds a session unless it is known, and returns the one that is.
func (t *sessions) adopt(s *session) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.byID[s.ID]; known != nil {
		return known
	}
	t.byID[s.ID] = s
	return s
}

func (t *sessions) all() []*session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.byID))
}

// remove forgets an ended session and wakes who waits on it.
func (t *sessions) remove(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[s.ID] == s {
		delete(t.byID, s.ID)
		close(s.gone)
	}
}

// list returns the sessions that serve the tenant ("" for all).
func (t *sessions) list(tenant string) []haulier.Session {
	var out []haulier.Session
	for _, s := range t.all() {
		info := s.snapshot()
		if tenant == "" || info.Serves(tenant) {
			out = append(out, info)
		}
	}
	return out
}

// holding returns some of the jobs that each session holds: the first MaxHolding that are found, by id.
func (t *sessions) holding() map[haulier.ID][]haulier.ID {
	t.mu.Lock()
	defer t.mu.Unlock()
	held := map[haulier.ID][]haulier.ID{}
	for id, s := range t.owners {
		if list := held[s.ID]; len(list) < haulier.MaxHolding {
			held[s.ID] = append(list, id)
		}
	}
	for _, list := range held {
		slices.SortFunc(list, func(a, b haulier.ID) int { return bytes.Compare(a[:], b[:]) })
	}
	return held
}

// changed keeps who holds which job, and tells sessions of cancellations.
func (t *sessions) changed(changes []haulier.JobChange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range changes {
		c := &changes[i]
		if c.Status.State.Owned() || c.Before.Owned() {
			t.own(c)
		}
	}
}

func (t *sessions) own(c *haulier.JobChange) {
	id := c.Spec.ID
	before, after := t.owners[id], (*session)(nil)
	if c.Status.State.Owned() {
		after = t.byID[c.Status.Session]
	}
	if before != after {
		if before != nil {
			before.mu.Lock()
			before.jobs--
			delete(before.cancels, id)
			before.mu.Unlock()
			delete(t.owners, id)
		}
		if after != nil {
			after.mu.Lock()
			after.jobs++
			after.mu.Unlock()
			t.owners[id] = after
		}
	}
	if after == nil || !c.Status.Cancelling {
		return
	}
	after.mu.Lock()
	defer after.mu.Unlock()
	if _, known := after.cancels[id]; !known {
		after.cancels[id] = c.Status.Attempt
		after.asked++
		close(after.told)
		after.told = make(chan struct{})
	}
}

func has[T comparable](list []T, v T) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}
