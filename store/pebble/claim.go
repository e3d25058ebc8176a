package pebble

import (
	"context"
	"fmt"
	"slices"

	"github.com/haulier/haulier"
)

// claim is jobs on their way from a band to a session.
type claim struct {
	session haulier.ID
	items   []item
}

// item is one job of a claim: reserved, then read and changed, then committed or dropped.
type item struct {
	head
	band  *band
	job   *haulier.Job // from the cache or from disk, then as the claim leaves it
	end   int          // of its entry at the session within the request's writes
	own   bool         // job is known to this claim alone
	ghost bool         // what was read is not pending: the window was wrong
	taken bool
}

// reservation is the item of a claim that a job was taken out of its window for.
type reservation struct {
	claim *claim
	item  int
}

// Claim implements haulier.Store.
func (s *Store) Claim(ctx context.Context, session haulier.ID, by string, takes []haulier.Take) ([]haulier.Job, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	jobs, err := s.claim(ctx, session, by, takes)
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	return jobs, nil
}

func (s *Store) claim(ctx context.Context, session haulier.ID, by string, takes []haulier.Take) ([]haulier.Job, error) {
	if err := s.live(session); err != nil {
		return nil, err
	}
	c := &claim{session: session}
	for _, t := range takes {
		if err := s.reserve(ctx, c, t); err != nil {
			s.release(c)
			return nil, err
		}
	}
	if len(c.items) == 0 {
		return nil, nil
	}
	s.readClaimed(c)
	r := s.newRequest()
	r.claim = c
	s.prepareClaim(r, by)
	if err := s.submit(ctx, r); err != nil {
		return nil, err
	}
	jobs := make([]haulier.Job, 0, len(c.items))
	for i := range c.items {
		if c.items[i].taken {
			jobs = append(jobs, *c.items[i].job)
		}
	}
	return jobs, nil
}

func (s *Store) live(session haulier.ID) error {
	if !s.leases.has(session) {
		return fmt.Errorf("session %v: %w: there is no such session; open a new one", session, haulier.ErrLeaseLost)
	}
	return nil
}

// reserve takes the first jobs of a band out of its window, filling it up if need be.
func (s *Store) reserve(ctx context.Context, c *claim, t haulier.Take) error {
	for left := t.N; left > 0; {
		f, n := s.reserveSome(c, t.Band, left)
		if left -= n; f == nil {
			return nil
		}
		select {
		case <-f.done:
			if f.err != nil {
				return f.err
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-s.fault.done:
			return s.fault.err
		}
	}
	return nil
}

// reserveSome takes what is in memory, and returns the scan to wait for when there is more on disk.
func (s *Store) reserveSome(c *claim, name haulier.Band, n int) (*filling, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lanes.byName[name.Lane]
	if l == nil || l.bands[rank(name.Priority)] == nil {
		return nil, 0
	}
	b := l.bands[rank(name.Priority)]
	s.clock++
	b.used = s.clock
	heads := b.take(n)
	s.heads -= len(heads)
	for _, h := range heads {
		it := item{head: h, band: b}
		if e := s.cache.byID[h.id]; e != nil {
			it.job = e.job
		}
		s.reserved[h.id] = reservation{c, len(c.items)}
		c.items = append(c.items, it)
	}
	switch {
	case len(heads) < n && b.dry(1):
		return s.refill(b), len(heads)
	case b.dry(s.windows.low):
		s.refill(b)
	}
	return nil, len(heads)
}

// release gives jobs back that were reserved and not claimed.
func (s *Store) release(c *claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range c.items {
		it := &c.items[i]
		if s.reserved[it.id] == (reservation{c, i}) {
			delete(s.reserved, it.id)
			it.band.reserved--
			s.heads += it.band.add(it.head)
		}
	}
}

// readClaimed reads the jobs that were not in memory. A job that can't be read stays
// reserved, so that it does not block those behind it; it is reported.
func (s *Store) readClaimed(c *claim) {
	missing := make([]*item, 0, len(c.items))
	for i := range c.items {
		if c.items[i].job == nil {
			missing = append(missing, &c.items[i])
		}
	}
	if len(missing) == 0 {
		return
	}
	slices.SortFunc(missing, func(a, b *item) int { return slices.Compare(a.id[:], b.id[:]) })
	jobs := s.newJobReader(len(missing))
	defer jobs.close()
	for _, it := range missing {
		j, err := jobs.read(it.id, it.stored)
		if err == nil && j == nil {
			err = fmt.Errorf("job %v: %w: its record is missing", it.id, haulier.ErrCorrupt)
		}
		if err != nil {
			s.log.Error("a ready job can't be read and is passed over", "job", it.id, "err", err)
			continue
		}
		it.job, it.own = j, true
	}
}

// prepareClaim decides how the jobs go on and encodes that.
func (s *Store) prepareClaim(r *request, by string) {
	c, now := r.claim, s.now()
	if r.watched {
		r.changes = make([]haulier.JobChange, 0, len(c.items))
	}
	for i := range c.items {
		it := &c.items[i]
		if it.job == nil {
			continue
		}
		next, err := it.job.Next(haulier.Event{Kind: haulier.EventClaim, Session: c.session, By: by}, now)
		if err != nil {
			it.ghost = true // changed since it was reserved: the committer finds the same
			continue
		}
		if it.own {
			it.job.Status = next
		} else {
			it.job = &haulier.Job{Spec: it.job.Spec, Status: next}
		}
		var room [40]byte
		r.ops.setOwned(indexKey(room[:0], 0, 0, it.id, &next), it.band.lane.id, &next)
		it.end = len(r.ops.body[spaceIndex(spaceOwned)])
	}
}

// commitClaim carries out a claim in memory, without the jobs that others have changed meanwhile.
func (s *Store) commitClaim(r *request, g *group) error {
	c := r.claim
	if err := s.live(c.session); err != nil {
		s.release(c)
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	writes, begin := r.ops.body[spaceIndex(spaceOwned)], 0
	for i := range c.items {
		it := &c.items[i]
		held := s.reserved[it.id] == reservation{c, i}
		if it.ghost && held {
			delete(s.reserved, it.id)
			it.band.reserved--
			s.log.Error("a job that is not pending stood in line", "job", it.id, "state", it.job.State.String())
		}
		if it.job == nil || it.ghost {
			continue
		}
		write := writes[begin:it.end]
		if begin = it.end; !held {
			continue
		}
		s.moveToSession(it, c.session, g)
		o := &g.ops.body[spaceIndex(spaceOwned)]
		*o = append(*o, write...)
		g.ops.n++
		if r.watched {
			r.changes = append(r.changes, haulier.JobChange{Spec: &it.job.Spec, Before: haulier.Pending, Status: it.job.Status})
		}
	}
	return nil
}

// moveToSession takes a reserved job from its band to the session.
func (s *Store) moveToSession(it *item, session haulier.ID, g *group) {
	it.taken = true
	b := it.band
	delete(s.reserved, it.id)
	b.reserved--
	b.n--
	b.changed = true
	b.note(it.head, true)
	var room [64]byte
	g.ops.removeOnce(appendMark(readyPrefix(room[:0], b.lane.id, b.rank), it.mark))
	s.lanes.count(b.lane, haulier.Pending, -1)
	s.lanes.count(b.lane, it.job.State, 1)
	s.owned[it.id] = session
	s.cache.put(it.id, it.job, b.lane, s.generation, nil, false)
}
