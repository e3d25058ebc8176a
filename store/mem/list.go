package mem

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/haulier/haulier"
)

// spot is where a job stands in a listing. The fields are compared in their order.
type spot struct {
	Asked    int          // index of its lane in Query.Lanes
	Lane     haulier.Lane // where the index of the state begins with it
	Priority int          // the higher first
	Session  haulier.ID
	At       time.Time
	ID       haulier.ID
}

// List implements haulier.Store. It looks at every job of the selector.
func (s *Store) List(_ context.Context, q haulier.Query) (haulier.Page, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.open(); err != nil {
		return haulier.Page{}, err
	}
	var after *spot
	if q.Cursor != "" {
		after = new(spot)
		b, err := base64.RawURLEncoding.DecodeString(q.Cursor)
		if err != nil || json.Unmarshal(b, after) != nil {
			return haulier.Page{}, fmt.Errorf("list: %w: %.60q is no cursor; use the one that came with the page before", haulier.ErrInvalid, q.Cursor)
		}
	}
	spots := s.spots(&q)
	slices.SortFunc(spots, order(&q))
	if after != nil {
		i, found := slices.BinarySearchFunc(spots, *after, order(&q))
		if found {
			i++
		}
		spots = spots[i:]
	}
	limit := q.Limit
	if q.Max > 0 {
		limit = min(limit, q.Max)
	}
	return s.page(spots, limit)
}

func (s *Store) page(spots []spot, limit int) (haulier.Page, error) {
	var page haulier.Page
	for _, at := range spots[:min(limit, len(spots))] {
		page.Jobs = append(page.Jobs, s.jobs[at.ID])
	}
	if limit < len(spots) {
		b, err := json.Marshal(spots[limit-1])
		if err != nil {
			return haulier.Page{}, err
		}
		page.Next = base64.RawURLEncoding.EncodeToString(b)
	}
	return page, nil
}

// spots finds the jobs that the query selects, in no order.
func (s *Store) spots(q *haulier.Query) []spot {
	var spots []spot
	switch {
	case !q.Session.IsNil():
		if l := s.lines[place{state: haulier.Claimed, session: q.Session}]; l != nil {
			for _, e := range l.entries {
				spots = append(spots, spot{ID: e.id})
			}
		}
	case q.State != 0:
		for at, l := range s.lines {
			if at.state != q.State && (at.state != haulier.Claimed || !q.State.Owned()) {
				continue
			}
			for _, e := range l.entries {
				j := s.jobs[e.id]
				asked := max(0, slices.Index(q.Lanes, j.Lane()))
				if j.State == q.State && (len(q.Lanes) == 0 || q.Lanes[asked] == j.Lane()) {
					spots = append(spots, spot{asked, at.lane, at.priority, at.session, e.at, e.id})
				}
			}
		}
	default:
		for _, e := range s.all.entries {
			if q.Tenant == "" || s.jobs[e.id].Tenant == q.Tenant {
				spots = append(spots, spot{ID: e.id})
			}
		}
	}
	return spots
}

// order is the order of a query's listing.
func order(q *haulier.Query) func(a, b spot) int {
	newest := 1
	if q.State.Terminal() || q.State == 0 && q.Session.IsNil() {
		newest = -1
	}
	return func(a, b spot) int {
		return cmp.Or(
			cmp.Compare(a.Asked, b.Asked),
			a.Lane.Compare(b.Lane),
			cmp.Compare(b.Priority, a.Priority),
			bytes.Compare(a.Session[:], b.Session[:]),
			newest*a.At.Compare(b.At),
			newest*bytes.Compare(a.ID[:], b.ID[:]),
		)
	}
}
