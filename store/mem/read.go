package mem

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/haulier/haulier"
)

// Bands implements haulier.Store.
func (s *Store) Bands(context.Context) ([]haulier.BandHead, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.open(); err != nil {
		return nil, err
	}
	var heads []haulier.BandHead
	for at, l := range s.lines {
		if at.state == haulier.Pending {
			band := haulier.Band{Lane: at.lane, Priority: at.priority}
			heads = append(heads, haulier.BandHead{Band: band, N: int64(len(l.entries)), Since: l.entries[0].at})
		}
	}
	return heads, nil
}

// Due implements haulier.Store.
func (s *Store) Due(_ context.Context, limit int) (haulier.Due, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.open(); err != nil {
		return haulier.Due{}, err
	}
	var timers, purge, leases []entry
	for at, l := range s.lines {
		switch {
		case at.state == haulier.Scheduled:
			timers = append(timers, l.entries...)
		case at.state.Terminal():
			purge = append(purge, l.entries...)
		}
	}
	for id, at := range s.leases {
		leases = append(leases, entry{at, id})
	}
	var due haulier.Due
	now := time.Now()
	due.Timers = passed(timers, now, limit, &due.Next)
	due.Purge = passed(purge, now, limit, &due.Next)
	due.Sessions = passed(leases, now, limit, &due.Next)
	return due, nil
}

// passed returns the first entries whose time has come, and lowers next to the time of the one that follows.
func passed(entries []entry, now time.Time, limit int, next *time.Time) []haulier.ID {
	slices.SortFunc(entries, compareEntries)
	var ids []haulier.ID
	for _, e := range entries {
		if len(ids) == limit || e.at.After(now) {
			if next.IsZero() || e.at.Before(*next) {
				*next = e.at.UTC()
			}
			break
		}
		ids = append(ids, e.id)
	}
	return ids
}

// Jobs implements haulier.Store.
func (s *Store) Jobs(_ context.Context, ids []haulier.ID) ([]*haulier.Job, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.open(); err != nil {
		return nil, err
	}
	jobs := make([]*haulier.Job, len(ids))
	for i, id := range ids {
		jobs[i] = s.jobs[id]
	}
	return jobs, nil
}

// Counts implements haulier.Store.
func (s *Store) Counts(context.Context) ([]haulier.Count, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.open(); err != nil {
		return nil, err
	}
	var counts []haulier.Count
	for t, n := range s.counts {
		if n != 0 {
			counts = append(counts, haulier.Count{Lane: t.lane, State: t.state, N: n})
		}
	}
	return counts, nil
}

// Doc implements haulier.Store.
func (s *Store) Doc(_ context.Context, kind haulier.DocKind, key string) (haulier.Doc, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.open(); err != nil {
		return haulier.Doc{}, err
	}
	d, ok := s.docs[docKey{kind, key}]
	if !ok {
		return haulier.Doc{}, fmt.Errorf("document %s %s: %w", kind, key, haulier.ErrNotFound)
	}
	return d, nil
}

// Docs implements haulier.Store.
func (s *Store) Docs(_ context.Context, kind haulier.DocKind, prefix, after string, limit int) ([]haulier.Doc, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.open(); err != nil {
		return nil, err
	}
	var docs []haulier.Doc
	for k, d := range s.docs {
		if k.kind == kind && strings.HasPrefix(k.key, prefix) && k.key > after {
			docs = append(docs, d)
		}
	}
	slices.SortFunc(docs, func(a, b haulier.Doc) int { return cmp.Compare(a.Key, b.Key) })
	return docs[:min(len(docs), limit)], nil
}
