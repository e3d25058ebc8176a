package pebble

import (
	"context"

	pdb "github.com/cockroachdb/pebble/v2"

	"github.com/haulier/haulier"
)

// band returns the lane's band of the rank, which is new and empty if need be.
func (s *Store) band(l *lane, rank byte) *band {
	b := l.bands[rank]
	if b == nil {
		b = &band{lane: l, rank: rank, sizes: &s.windows, bound: firstMark, whole: true}
		l.bands[rank] = b
	}
	return b
}

// enterBand adds a pending job and reports whether the window has it, or may have it before
// it is visible on disk, since a scan that ends meanwhile takes in what was noted.
func (s *Store) enterBand(l *lane, j *haulier.Job, stored bool) (near bool) {
	b := s.band(l, rank(j.Priority))
	b.n++
	b.changed = true
	h := head{mark{micros(j.Status.RunAt), j.ID}, stored}
	s.heads += b.add(h)
	return b.covers(h.mark) || b.filling != nil
}

// leaveBand takes a pending job out, also from under a claim that has reserved it.
func (s *Store) leaveBand(l *lane, j *haulier.Job) {
	b := s.band(l, rank(j.Priority))
	b.n--
	b.changed = true
	m := mark{micros(j.Status.RunAt), j.ID}
	if _, held := s.reserved[j.ID]; held {
		delete(s.reserved, j.ID)
		b.reserved--
		b.note(head{mark: m}, true)
		return
	}
	s.heads -= b.remove(m)
}

// Bands implements haulier.Store. Jobs that a claim is just taking are not counted.
func (s *Store) Bands(context.Context) ([]haulier.BandHead, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	var heads []haulier.BandHead
	for _, l := range s.lanes.byID {
		for _, b := range l.bands {
			if n := b.free(); n > 0 {
				heads = append(heads, haulier.BandHead{Band: b.name(), N: n, Since: b.since().time()})
			}
		}
	}
	return heads, nil
}

// Counts implements haulier.Store.
func (s *Store) Counts(context.Context) ([]haulier.Count, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	var counts []haulier.Count
	for _, l := range s.lanes.byID {
		for state, n := range l.counts {
			if n != 0 {
				counts = append(counts, haulier.Count{Lane: l.name, State: haulier.State(state), N: n})
			}
		}
	}
	return counts, nil
}

// refill asks for a scan that fills the band's window. The caller holds mu.
func (s *Store) refill(b *band) *filling {
	if b.filling == nil {
		b.filling = &filling{from: b.bound, done: make(chan struct{})}
		s.queue.add(&request{fill: b})
	}
	return b.filling
}

// scan begins a refill between two groups, when disk and memory agree. What
// changes from here on is noted; what was noted before is on disk already.
func (s *Store) scan(b *band) {
	prefix := readyPrefix(nil, b.lane.id, b.rank)
	s.mu.Lock()
	f := b.filling
	f.from, f.noted = b.bound, nil
	s.mu.Unlock()
	it, err := s.db.NewIter(&pdb.IterOptions{
		LowerBound: appendMark(prefix[:len(prefix):len(prefix)], f.from),
		UpperBound: after(prefix),
	})
	s.background.Add(1)
	go func() {
		defer s.background.Done()
		var found []head
		all := false
		if err == nil {
			found, all, err = readHeads(it, s.windows.fill)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		f.err = err
		s.heads += b.filled(found, all, s.isReserved)
	}()
}

// isReserved reports whether a claim under way has taken the job. The caller holds mu.
func (s *Store) isReserved(id haulier.ID) bool {
	_, held := s.reserved[id]
	return held
}

func readHeads(it *pdb.Iterator, n int) (found []head, all bool, err error) {
	found = make([]head, 0, n+1)
	ok := it.First()
	for ; ok && len(found) <= n; ok = it.Next() {
		m, err := parseMark(it.Key())
		if err != nil {
			it.Close()
			return nil, false, err
		}
		found = append(found, head{m, len(it.Value()) > 0})
	}
	if err := it.Close(); err != nil {
		return nil, false, corrupt(err)
	}
	return found, !ok, nil
}

// shrink drops the windows of bands that were not claimed from lately, until
// there is room again. The caller holds mu.
func (s *Store) shrink() {
	if s.heads <= s.windows.total {
		return
	}
	for _, l := range s.lanes.byID {
		for _, b := range l.bands {
			if s.heads <= s.windows.total/2 {
				return
			}
			if len(b.window) > 0 && b.filling == nil && b.used+s.windows.idle < s.clock {
				s.heads -= b.cutTo(0)
			}
		}
	}
	s.clock += s.windows.idle // all were used: next time those will be older that still are not
}
