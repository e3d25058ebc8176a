package etcd

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/haulier/haulier"
)

// stretch is a part of a listing: the keys with a prefix.
type stretch struct {
	asked  int    // place in the listing
	prefix string // of the keys, behind that of all
	value  string // only entries with this value; "": all
	state  string // only entries whose value begins so
}

// spot is a position in a listing, and the cursor: the stretch, and the key within it behind the stretch's prefix.
type spot struct {
	Asked int    `json:"n,omitempty"`
	Key   string `json:"k"`
}

func (p spot) cursor() (string, error) {
	b, err := json.Marshal(p)
	return base64.RawURLEncoding.EncodeToString(b), err
}

func parseCursor(text string) (p spot, err error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(b, &p) != nil {
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
	var from spot
	if l.q.Cursor != "" {
		var err error
		if from, err = parseCursor(l.q.Cursor); err != nil {
			return err
		}
	}
	if l.q.State == 0 && l.q.Session.IsNil() && l.q.Tenant == "" {
		return l.newest(ctx, from)
	}
	for _, st := range l.stretches() {
		if st.asked < from.Asked {
			continue
		}
		if st.asked > from.Asked {
			from = spot{Asked: st.asked}
		}
		full, err := l.collect(ctx, &st, from)
		if full || err != nil {
			return err
		}
	}
	return nil
}

// stretches are what the query goes through, in its order.
func (l *listing) stretches() []stretch {
	q := l.q
	switch {
	case !q.Session.IsNil():
		return []stretch{{prefix: "owned/" + q.Session.String() + "/"}}
	case q.State == 0:
		return []stretch{{prefix: "tenant/" + escaper.Replace(q.Tenant) + "/"}}
	}
	st := stretch{prefix: "blocked/"}
	byLane := q.State == haulier.Pending || q.State.Terminal()
	switch {
	case q.State == haulier.Pending:
		st.prefix = "ready/"
	case q.State == haulier.Scheduled:
		st.prefix = "timer/"
	case q.State.Owned():
		st.prefix, st.state = "owned/", q.State.String()+" "
	case q.State.Terminal():
		st.prefix = "done/" + q.State.String() + "/"
	}
	if len(q.Lanes) == 0 {
		return []stretch{st}
	}
	var out []stretch
	for i, lane := range q.Lanes {
		if slices.Index(q.Lanes, lane) < i {
			continue
		}
		part := st
		part.asked = i
		if byLane {
			part.prefix += laneText(lane) + "/"
		} else {
			part.value = st.state + laneText(lane)
		}
		out = append(out, part)
	}
	return out
}

// found is an entry of an index.
type found struct {
	key   string // behind the stretch's prefix
	value string
}

// entries reads up to n entries of the stretch behind a key.
func (l *listing) entries(ctx context.Context, prefix, after string, n int) ([]found, error) {
	from := prefix
	if after != "" {
		from += after + "\x00"
	}
	answers, err := l.s.read(ctx, l.s.span(from, following(prefix), n, false))
	if err != nil {
		return nil, err
	}
	out := make([]found, len(answers[0].Kvs))
	for i, kv := range answers[0].Kvs {
		out[i] = found{string(kv.Key[len(l.s.prefix)+len(prefix):]), string(kv.Value)}
	}
	return out, nil
}

// collect adds the jobs of a stretch, from behind the spot on; full: the page ends within it.
func (l *listing) collect(ctx context.Context, st *stretch, at spot) (full bool, err error) {
	for {
		n := l.limit - len(l.page.Jobs)
		if st.value != "" || st.state != "" { // some are passed over, so more are looked at in one go
			n = max(n, 500)
		}
		n = min(n, l.left)
		entries, err := l.entries(ctx, st.prefix, at.Key, n)
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

// inverted says whether the ids of an index are.
func inverted(prefix string) bool {
	return strings.HasPrefix(prefix, "tenant/") || strings.HasPrefix(prefix, "done/")
}

// add looks at entries, and moves at to the last that it looked at.
func (l *listing) add(ctx context.Context, st *stretch, entries []found, at *spot) (full bool, err error) {
	var ids []haulier.ID
	var which []int
	room := l.limit - len(l.page.Jobs)
	for i, e := range entries {
		if st.value != "" && e.value != st.value || !strings.HasPrefix(e.value, st.state) {
			continue
		}
		id, err := lastID(e.key)
		if err != nil {
			return true, corrupt("%s%.80s ends with no id", st.prefix, e.key)
		}
		if inverted(st.prefix) {
			id = invert(id)
		}
		ids, which = append(ids, id), append(which, i)
		if len(ids) == room {
			entries = entries[:i+1]
			break
		}
	}
	records, err := l.s.jobs(ctx, ids)
	if err != nil {
		return true, err
	}
	for i, e := range entries {
		at.Key = e.key
		l.left--
		if len(which) > 0 && which[0] == i {
			if r := records[0]; r != nil && l.selects(r) {
				l.page.Jobs = append(l.page.Jobs, r.job())
			}
			which, records = which[1:], records[1:]
		}
		if len(l.page.Jobs) == l.limit || l.left == 0 {
			l.page.Next, err = at.cursor()
			return true, err
		}
	}
	return false, nil
}

// selects looks whether a job still is what the index said of it.
func (l *listing) selects(r *record) bool {
	switch q := l.q; {
	case !q.Session.IsNil():
		return r.status.State.Owned() && r.status.Session == q.Session
	case q.State != 0:
		return r.status.State == q.State
	}
	return true
}

// newest lists all jobs: those of the tenants merged.
func (l *listing) newest(ctx context.Context, at spot) error {
	if err := l.s.current(ctx); err != nil {
		return err
	}
	n := min(l.limit, l.left)
	var reads []*pb.RangeRequest
	var prefixes []string
	for _, tenant := range l.s.view.tenants() {
		prefix := "tenant/" + escaper.Replace(tenant) + "/"
		from := prefix
		if at.Key != "" {
			from += at.Key + "\x00"
		}
		reads, prefixes = append(reads, l.s.span(from, following(prefix), n, true)), append(prefixes, prefix)
	}
	if len(reads) == 0 {
		return nil
	}
	answers, err := l.s.read(ctx, reads...)
	if err != nil {
		return err
	}
	var entries []found
	more := false
	for i, a := range answers {
		for _, kv := range a.Kvs {
			entries = append(entries, found{key: string(kv.Key[len(l.s.prefix)+len(prefixes[i]):])})
		}
		more = more || a.More
	}
	slices.SortFunc(entries, func(a, b found) int { return cmp.Compare(a.key, b.key) })
	if len(entries) > n {
		entries, more = entries[:n], true
	}
	full, err := l.add(ctx, &stretch{prefix: "tenant/"}, entries, &at)
	if err != nil || full && more {
		return err
	}
	l.page.Next = ""
	if more {
		l.page.Next, err = at.cursor()
	}
	return err
}
