package redis

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/haulier/haulier"
)

// stretch is a part of a listing: an index, or the part of it with a prefix.
type stretch struct {
	place   mark          // where it lies in the listing
	key     string        // of the index
	member  string        // what its members begin with
	timed   bool          // it is ordered by time, then member; otherwise by member alone
	newest  bool          // it is listed downwards
	tenants bool          // it is made of those of all tenants
	only    *haulier.Lane // only jobs of this lane; nil: of all
}

// mark is a position in a listing: the stretch, then the entry within it. It is also the cursor.
type mark struct {
	Asked    int    `json:"n,omitempty"` // place of the lane in Query.Lanes
	Lane     string `json:"l,omitempty"`
	Priority int    `json:"p,omitempty"`
	Time     string `json:"t,omitempty"`
	Member   string `json:"m,omitempty"`
}

// compareStretches orders by the stretch: what comes first in a listing is less.
func compareStretches(a, b mark) int {
	return cmp.Or(cmp.Compare(a.Asked, b.Asked), cmp.Compare(a.Lane, b.Lane), cmp.Compare(b.Priority, a.Priority))
}

func (p mark) cursor() (string, error) {
	b, err := json.Marshal(p)
	return base64.RawURLEncoding.EncodeToString(b), err
}

func parseCursor(text string) (p mark, err error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err == nil && p.Time != "" {
		_, err = parseMicros(p.Time)
	}
	if err != nil {
		return p, fmt.Errorf("%w: %.60q is no cursor; use the one that came with the page before", haulier.ErrInvalid, text)
	}
	return p, nil
}

// List implements haulier.Store.
func (s *Store) List(ctx context.Context, q haulier.Query) (haulier.Page, error) {
	if err := s.enter(); err != nil {
		return haulier.Page{}, err
	}
	defer s.leave()
	l := &listing{s: s, q: &q, limit: min(max(q.Limit, 1), 1000), left: q.Max}
	if l.left <= 0 {
		l.left = 10 * l.limit
	}
	if err := l.fill(ctx); err != nil {
		return haulier.Page{}, fmt.Errorf("list: %w", err)
	}
	return l.page, nil
}

// listing collects a page.
type listing struct {
	s     *Store
	q     *haulier.Query
	limit int // jobs
	left  int // entries that may yet be looked at
	page  haulier.Page
}

func (l *listing) fill(ctx context.Context) error {
	stretches, err := l.stretches(ctx)
	if err != nil {
		return err
	}
	var from *mark
	if l.q.Cursor != "" {
		p, err := parseCursor(l.q.Cursor)
		if err != nil {
			return err
		}
		from = &p
	}
	for i := range stretches {
		st := &stretches[i]
		if from != nil {
			switch c := compareStretches(st.place, *from); {
			case c < 0:
				continue
			case c > 0:
				from = nil // the stretch of the cursor is empty now
			}
		}
		full, err := l.collect(ctx, st, from)
		if full || err != nil {
			return err
		}
		from = nil
	}
	return nil
}

// stretches are what the query goes through, in its order.
func (l *listing) stretches(ctx context.Context) ([]stretch, error) {
	q := l.q
	switch {
	case !q.Session.IsNil():
		return []stretch{{key: "owned", member: q.Session.String() + "/"}}, nil
	case q.State == 0 && q.Tenant == "":
		return []stretch{{key: "jobs", newest: true, tenants: true}}, nil
	case q.State == 0:
		return []stretch{{key: "jobs:" + escaper.Replace(q.Tenant), newest: true}}, nil
	case q.State == haulier.Pending:
		return l.bands(ctx)
	case q.State.Terminal():
		return l.done(ctx)
	}
	st := stretch{key: "owned"}
	switch q.State {
	case haulier.Scheduled:
		st = stretch{key: "scheduled", timed: true}
	case haulier.Blocked:
		st = stretch{key: "blocked"}
	}
	if len(q.Lanes) == 0 {
		return []stretch{st}, nil
	}
	var out []stretch
	for i := range q.Lanes {
		if slices.Index(q.Lanes, q.Lanes[i]) == i {
			st.place.Asked, st.only = i, &q.Lanes[i]
			out = append(out, st)
		}
	}
	return out, nil
}

// asked says where a lane, as text, comes in the listing; false: not at all.
func (l *listing) asked(lane string) (mark, bool) {
	if len(l.q.Lanes) == 0 {
		return mark{Lane: lane}, true
	}
	i := slices.IndexFunc(l.q.Lanes, func(x haulier.Lane) bool { return laneText(x) == lane })
	return mark{Asked: i}, i >= 0
}

// bands are the stretches of pending jobs.
func (l *listing) bands(ctx context.Context) ([]stretch, error) {
	bands, err := l.s.ask(ctx, "SMEMBERS", "bands").AsStrSlice()
	if err != nil {
		return nil, translate(ctx, err)
	}
	var out []stretch
	for _, band := range bands {
		priority, lane, _ := strings.Cut(band, ":")
		place, ok := l.asked(lane)
		if !ok {
			continue
		}
		if place.Priority, err = strconv.Atoi(priority); err != nil {
			return nil, corrupt("%.300q is no band", band)
		}
		out = append(out, stretch{place: place, key: "ready:" + band, timed: true})
	}
	sortStretches(out)
	return out, nil
}

// done are the stretches of jobs that have ended.
func (l *listing) done(ctx context.Context) ([]stretch, error) {
	fields, err := l.s.ask(ctx, "HKEYS", "counts").AsStrSlice()
	if err != nil {
		return nil, translate(ctx, err)
	}
	var out []stretch
	for _, field := range fields {
		state, lane, _ := strings.Cut(field, ":")
		if state != l.q.State.String() {
			continue
		}
		if place, ok := l.asked(lane); ok {
			out = append(out, stretch{place: place, key: "done:" + field, timed: true, newest: true})
		}
	}
	sortStretches(out)
	return out, nil
}

func sortStretches(list []stretch) {
	slices.SortFunc(list, func(a, b stretch) int { return compareStretches(a.place, b.place) })
}

// collect adds the jobs of a stretch, from behind the mark on; full: the page ends within it.
func (l *listing) collect(ctx context.Context, st *stretch, from *mark) (full bool, err error) {
	at := st.place
	if from != nil {
		at = *from
	}
	passes := st.only != nil || st.key == "owned" && l.q.State != 0
	for {
		n := l.limit - len(l.page.Jobs)
		if passes { // some are passed over, so more are looked at in one go
			n = max(n, 100)
		}
		n = min(n, l.left)
		entries, err := l.s.entries(ctx, st, at, n)
		if err != nil {
			return true, err
		}
		if full, err := l.add(ctx, st, entries, &at); full || err != nil {
			return true, err
		}
		if len(entries) < n {
			return false, nil
		}
	}
}

// add looks at entries, and moves at to the last that it looked at.
func (l *listing) add(ctx context.Context, st *stretch, entries []mark, at *mark) (full bool, err error) {
	ids := make([]haulier.ID, len(entries))
	for i, e := range entries {
		text := e.Member[strings.LastIndexByte(e.Member, '/')+1:]
		if ids[i], err = haulier.ParseID(text); err != nil {
			return true, corrupt("%s has %.80q, which is no id", st.key, e.Member)
		}
	}
	jobs, err := l.s.jobs(ctx, ids)
	if err != nil {
		return true, err
	}
	for i, j := range jobs {
		at.Time, at.Member = entries[i].Time, entries[i].Member
		l.left--
		if j != nil && l.selects(st, j) {
			l.page.Jobs = append(l.page.Jobs, j)
		}
		if len(l.page.Jobs) == l.limit || l.left == 0 {
			l.page.Next, err = at.cursor()
			return true, err
		}
	}
	return false, nil
}

// selects looks whether a job still is what the index said of it.
func (l *listing) selects(st *stretch, j *haulier.Job) bool {
	switch q := l.q; {
	case !q.Session.IsNil():
		return j.State.Owned() && j.Session == q.Session
	case q.State != 0:
		return j.State == q.State && (st.only == nil || j.Lane() == *st.only)
	}
	return true
}

// entries reads up to n entries of an index behind the mark.
func (s *Store) entries(ctx context.Context, st *stretch, at mark, n int) ([]mark, error) {
	if st.tenants {
		return s.newest(ctx, at, n)
	}
	if st.timed {
		down := "0"
		if st.newest {
			down = "1"
		}
		items, err := s.read(ctx, pageScript, st.key, at.Time, at.Member, down, strconv.Itoa(n)).AsStrSlice()
		if err != nil {
			return nil, translate(ctx, err)
		}
		out := make([]mark, 0, len(items)/2)
		for i := 0; i+1 < len(items); i += 2 {
			out = append(out, mark{Member: items[i], Time: items[i+1]})
		}
		return out, nil
	}
	low, high := "-", "+"
	if st.member != "" {
		low, high = "["+st.member, "("+following(st.member)
	}
	if at.Member != "" && st.newest {
		high = "(" + at.Member
	} else if at.Member != "" {
		low = "(" + at.Member
	}
	args := []string{low, high, "BYLEX", "LIMIT", "0", strconv.Itoa(n)}
	if st.newest {
		args = []string{high, low, "BYLEX", "REV", "LIMIT", "0", strconv.Itoa(n)}
	}
	members, err := s.ask(ctx, "ZRANGE", st.key, args...).AsStrSlice()
	if err != nil {
		return nil, translate(ctx, err)
	}
	out := make([]mark, len(members))
	for i := range members {
		out[i].Member = members[i]
	}
	return out, nil
}

// newest reads up to n entries of the indexes of all tenants, downwards from the mark.
func (s *Store) newest(ctx context.Context, at mark, n int) ([]mark, error) {
	tenants, err := s.ask(ctx, "SMEMBERS", "tenants").AsStrSlice()
	if err != nil {
		return nil, translate(ctx, err)
	}
	var out []mark
	for part := range slices.Chunk(tenants, pipeline) {
		asked := make([]rueidis.Completed, len(part))
		for i, tenant := range part {
			high := "+"
			if at.Member != "" {
				high = "(" + at.Member
			}
			asked[i] = s.client.B().Zrange().Key(s.prefix+"jobs:"+tenant).Min(high).Max("-").Bylex().Rev().Limit(0, int64(n)).Build()
		}
		for _, res := range s.client.DoMulti(ctx, asked...) {
			members, err := res.AsStrSlice()
			if err != nil {
				return nil, translate(ctx, err)
			}
			for _, m := range members {
				out = append(out, mark{Member: m})
			}
		}
		slices.SortFunc(out, func(a, b mark) int { return strings.Compare(b.Member, a.Member) })
		out = out[:min(n, len(out))]
	}
	return out, nil
}
