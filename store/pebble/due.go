package pebble

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	pdb "github.com/cockroachdb/pebble/v2"

	"github.com/haulier/haulier"
)

// Due implements haulier.Store. Timers and purges go by wall time, leases by the monotonic clock.
func (s *Store) Due(_ context.Context, limit int) (haulier.Due, error) {
	if err := s.enter(); err != nil {
		return haulier.Due{}, err
	}
	defer s.leave()
	s.dueMu.Lock()
	defer s.dueMu.Unlock()
	now := s.now()
	var due haulier.Due
	var next time.Time
	due.Sessions, next = s.leases.expired(now, limit)
	if !next.IsZero() {
		due.Next = next.UTC()
	}
	timers, first, err := s.passed(&s.timers, []byte{spaceTimer}, now, limit)
	if err != nil {
		return haulier.Due{}, err
	}
	sooner(&due.Next, first)
	for _, m := range timers {
		due.Timers = append(due.Timers, m.id)
	}
	if due.Purge, err = s.purge(now, limit, &due.Next); err != nil {
		return haulier.Due{}, err
	}
	return due, nil
}

// sooner lowers next to the mark's time.
func sooner(next *time.Time, m mark) {
	if t := m.time(); !t.IsZero() && (next.IsZero() || t.Before(*next)) {
		*next = t
	}
}

// passed returns the first entries of the index whose time has come, and the
// one that follows; lastMark when there is none.
func (s *Store) passed(w *lowWater, prefix []byte, now time.Time, limit int) (out []mark, next mark, err error) {
	s.mu.Lock()
	low := w.begin()
	s.mu.Unlock()
	next = lastMark
	if low.at > now.UnixMicro() {
		return nil, low, nil
	}
	it, err := s.db.NewIter(&pdb.IterOptions{
		LowerBound: appendMark(bytes.Clone(prefix), low),
		UpperBound: after(prefix),
	})
	if err != nil {
		return nil, next, corrupt(err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		m, err := parseMark(it.Key())
		if err != nil {
			return nil, next, err
		}
		if m.at > now.UnixMicro() || len(out) >= limit {
			next = m
			break
		}
		out = append(out, m)
	}
	if err := it.Error(); err != nil {
		return nil, next, corrupt(err)
	}
	first := next
	if len(out) > 0 {
		first = out[0]
	}
	s.mu.Lock()
	w.end(first)
	s.mu.Unlock()
	return out, next, nil
}

// shelf is the done jobs of one lane and state.
type shelf struct {
	water  *lowWater
	prefix []byte
	low    mark
}

// purge returns the jobs that may go, of all lanes the earliest first, and lowers next.
func (s *Store) purge(now time.Time, limit int, next *time.Time) ([]haulier.ID, error) {
	shelves := s.shelves()
	var found []mark
	for i, sh := range shelves {
		full := len(found) >= limit
		if sh.low.at > now.UnixMicro() || full && (limit == 0 || found[limit-1].before(sh.low)) {
			sooner(next, sh.low)
			break // so are all that follow
		}
		marks, following, err := s.passed(shelves[i].water, sh.prefix, now, limit)
		if err != nil {
			return nil, err
		}
		sooner(next, following)
		found = append(found, marks...)
		slices.SortFunc(found, mark.compare)
		if len(found) > limit {
			sooner(next, found[limit])
			found = found[:limit]
		}
	}
	var ids []haulier.ID
	for _, m := range found {
		ids = append(ids, m.id)
	}
	return ids, nil
}

// shelves are those that have jobs, ordered by the earliest that may stand there.
func (s *Store) shelves() []shelf {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []shelf
	for _, l := range s.lanes.byID {
		for _, state := range haulier.States {
			if state.Terminal() && l.counts[state] > 0 {
				w := l.shelf(state)
				out = append(out, shelf{w, donePrefix(nil, state, l.id), w.low})
			}
		}
	}
	slices.SortFunc(out, func(a, b shelf) int { return cmp.Or(a.low.compare(b.low), bytes.Compare(a.prefix, b.prefix)) })
	return out
}
