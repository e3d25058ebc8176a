package pebble

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	pdb "github.com/cockroachdb/pebble/v2"

	"github.com/haulier/haulier"
)

// List implements haulier.Store.
func (s *Store) List(_ context.Context, q haulier.Query) (haulier.Page, error) {
	if err := s.enter(); err != nil {
		return haulier.Page{}, err
	}
	defer s.leave()
	defer s.shown()
	page, err := s.list(&q)
	if err != nil {
		return haulier.Page{}, fmt.Errorf("list: %w", err)
	}
	return page, nil
}

// stretch is a range of an index of which a listing shows the jobs.
type stretch struct {
	prefix []byte
	lane   *lane // only jobs of this one; nil: of all
	newest bool  // downwards
}

// listing collects a page.
type listing struct {
	s     *Store
	q     *haulier.Query
	limit int // jobs
	left  int // entries that may yet be looked at
	page  haulier.Page
}

func (s *Store) list(q *haulier.Query) (haulier.Page, error) {
	l := &listing{s: s, q: q, limit: min(max(q.Limit, 1), 1000), left: q.Max}
	if l.left <= 0 {
		l.left = 10 * l.limit
	}
	stretches := s.stretches(q)
	var from *cursor
	if q.Cursor != "" {
		c, err := parseCursor(q.Cursor)
		if err != nil {
			return l.page, err
		}
		i := slices.IndexFunc(stretches, func(st stretch) bool { return st.number() == c.lane })
		if i < 0 {
			return l.page, fmt.Errorf("%w: the cursor belongs to another listing; begin again without one", haulier.ErrInvalid)
		}
		from, stretches = &c, stretches[i:]
	}
	for _, st := range stretches {
		full, err := l.collect(st, from)
		if full || err != nil {
			return l.page, err
		}
		from = nil
	}
	return l.page, nil
}

func (st *stretch) number() uint32 {
	if st.lane == nil {
		return 0
	}
	return st.lane.id
}

// stretches are what the query goes through, in its order.
func (s *Store) stretches(q *haulier.Query) []stretch {
	switch {
	case !q.Session.IsNil():
		return []stretch{{prefix: append([]byte{spaceOwned}, q.Session[:]...)}}
	case q.State == 0:
		return []stretch{{prefix: []byte{spaceJob}, newest: true}}
	}
	var out []stretch
	byLane := q.State == haulier.Pending || q.State.Terminal()
	if !byLane && len(q.Lanes) == 0 {
		return []stretch{{prefix: statePrefix(q.State, 0)}}
	}
	for _, l := range s.askedLanes(q.Lanes) {
		st := stretch{prefix: statePrefix(q.State, l.id), newest: q.State.Terminal()}
		st.lane = l
		out = append(out, st)
	}
	return out
}

// statePrefix begins the keys of jobs in the state; of one lane, where its index goes by lanes.
func statePrefix(s haulier.State, lane uint32) []byte {
	switch {
	case s == haulier.Pending:
		return binary.BigEndian.AppendUint32([]byte{spaceReady}, lane)
	case s.Terminal():
		return donePrefix(nil, s, lane)
	case s == haulier.Scheduled:
		return []byte{spaceTimer}
	case s.Owned():
		return []byte{spaceOwned}
	default:
		return []byte{spaceWaiting}
	}
}

// askedLanes are the lanes with the names, each once, in the order of asking; all, by name, when none is given.
func (s *Store) askedLanes(names []haulier.Lane) []*lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*lane
	if len(names) == 0 {
		for _, l := range s.lanes.byID {
			out = append(out, l)
		}
		slices.SortFunc(out, func(a, b *lane) int { return a.name.Compare(b.name) })
		return out
	}
	seen := make(map[*lane]bool, len(names))
	for _, name := range names {
		if l := s.lanes.byName[name]; l != nil && !seen[l] {
			seen[l] = true
			out = append(out, l)
		}
	}
	return out
}

// collect adds the jobs of a stretch, from behind the cursor on; full: the page ends within it.
func (l *listing) collect(st stretch, from *cursor) (full bool, err error) {
	low, high := st.prefix, after(st.prefix)
	if from != nil {
		if low, high, err = from.within(low, high, st.newest); err != nil {
			return true, err
		}
	}
	it, err := l.s.db.NewIter(&pdb.IterOptions{LowerBound: low, UpperBound: high})
	if err != nil {
		return true, corrupt(err)
	}
	defer it.Close()
	step := it.Next
	ok := false
	if st.newest {
		step, ok = it.Prev, it.Last()
	} else {
		ok = it.First()
	}
	for ok {
		ids, last := l.look(it, st, step, &ok)
		if err := l.add(ids); err != nil {
			return true, err
		}
		if len(l.page.Jobs) >= l.limit || l.left <= 0 {
			if ok {
				l.page.Next = cursor{st.number(), last}.String()
				return true, nil
			}
			break
		}
	}
	if err := it.Error(); err != nil {
		return true, corrupt(err)
	}
	return false, nil
}

// look reads index entries until the page may be full, and returns the ids that may belong to it.
func (l *listing) look(it *pdb.Iterator, st stretch, step func() bool, ok *bool) (ids []haulier.ID, last []byte) {
	for *ok && l.left > 0 && len(l.page.Jobs)+len(ids) < l.limit {
		key := it.Key()
		last = append(last[:0], key...)
		l.left--
		if st.lane == nil || key[0] == spaceReady || key[0] == spaceDone || hasLane(it.Value(), st.lane.id) {
			ids = append(ids, haulier.ID(key[len(key)-16:]))
		}
		*ok = step()
	}
	return ids, last
}

func hasLane(value []byte, lane uint32) bool {
	return len(value) >= 4 && binary.BigEndian.Uint32(value) == lane
}

// add adds those of the jobs that the query selects as they are now.
func (l *listing) add(ids []haulier.ID) error {
	jobs := make([]*haulier.Job, len(ids))
	if _, err := l.s.find(ids, jobs); err != nil {
		return err
	}
	for _, j := range jobs {
		if j != nil && l.selects(j) {
			l.page.Jobs = append(l.page.Jobs, j)
		}
	}
	return nil
}

func (l *listing) selects(j *haulier.Job) bool {
	switch q := l.q; {
	case !q.Session.IsNil():
		return j.Session == q.Session
	case q.State != 0:
		return j.State == q.State && (len(q.Lanes) == 0 || slices.Contains(q.Lanes, j.Lane()))
	default:
		return q.Tenant == "" || j.Tenant == q.Tenant
	}
}
