package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/haulier/haulier"
)

// Claim implements haulier.Store. Where etcd takes few comparisons in a transaction, it brings fewer jobs than asked for.
func (s *Store) Claim(ctx context.Context, session haulier.ID, by string, takes []haulier.Take) ([]haulier.Job, error) {
	if err := s.enter(); err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	defer s.leave()
	s.claiming.Lock()
	defer s.claiming.Unlock()
	jobs, err := s.claim(ctx, session, by, takes)
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	return jobs, nil
}

// claimRounds bounds how often a claim begins again when others were faster each time.
const claimRounds = 20

func (s *Store) claim(ctx context.Context, session haulier.ID, by string, takes []haulier.Take) ([]haulier.Job, error) {
	most := int(s.most.Load()) - branch - 1
	for round := range claimRounds {
		found, err := s.candidates(ctx, session, takes, round, most)
		if err != nil || len(found) == 0 {
			return nil, err
		}
		w := &change{s: s}
		w.alive(session)
		now := s.now()
		jobs := make([]haulier.Job, len(found))
		for i, r := range found {
			next, err := r.job().Next(haulier.Event{Kind: haulier.EventClaim, Session: session, By: by}, now)
			if err != nil {
				return nil, err // a pending job always admits a claim
			}
			w.update(r.spec, r, &next)
			jobs[i] = haulier.Job{Spec: *r.spec, Status: next}
		}
		done, err := w.commit(ctx)
		if errors.Is(err, haulier.ErrTooLarge) && len(found) > 1 {
			most = len(found) / 2 // their statuses are long
			continue
		}
		if err != nil {
			return nil, err
		}
		if s.contest(takes, !done); done {
			return jobs, nil
		}
	}
	return nil, nil
}

// A line from which others were faster to claim several times has rivals. Then a claim does not begin with the first, but at random near them,
// so that servers that want the same jobs do not get in each other's way all the time.
const (
	fewRivals  = 2
	mostRivals = 16
)

// contest notes, for lines that were claimed from, whether others were faster.
func (s *Store) contest(takes []haulier.Take, lost bool) {
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	for _, t := range takes {
		switch l := s.view.bands[t.Band]; {
		case l == nil || t.N <= 0:
		case lost:
			l.rivals = min(l.rivals+1, mostRivals)
		default:
			l.rivals = max(l.rivals-1, 0)
		}
	}
}

// candidates are the jobs to take, in order, at most so many.
func (s *Store) candidates(ctx context.Context, session haulier.ID, takes []haulier.Take, round, most int) ([]*record, error) {
	scans := make(map[haulier.Band]*scan, len(takes))
	order := make([]*scan, 0, len(takes))
	s.view.mu.Lock()
	for _, t := range takes {
		c := scans[t.Band]
		if c == nil {
			c = &scan{line: s.view.band(t.Band)}
			scans[t.Band] = c
			order = append(order, c)
		}
		c.want += max(t.N, 0)
	}
	for _, c := range order {
		if c.line.rivals >= fewRivals {
			c.skip = rand.IntN(c.line.rivals*c.want + 1)
			c.want += c.skip
		}
	}
	s.view.mu.Unlock()
	defer func() {
		s.view.mu.Lock()
		defer s.view.mu.Unlock()
		for b := range scans {
			s.view.forget(b)
		}
	}()
	alive := &pb.RangeRequest{Key: []byte(s.prefix + docKey(haulier.DocSession, session.String())), CountOnly: true}
	answers, err := s.scan(ctx, []*pb.RangeRequest{alive}, order...)
	if err != nil {
		return nil, err
	}
	if answers[0].Count == 0 {
		return nil, lost(session)
	}
	for _, c := range order {
		c.keys = c.keys[max(min(c.skip, len(c.keys)-(c.want-c.skip)), 0):] // where there are too few, none are left out
	}
	var ids []haulier.ID
	var keys []string
	for _, t := range takes {
		c := scans[t.Band]
		n := min(max(t.N, 0), len(c.keys))
		for _, key := range c.keys[:n] {
			id, err := lastID(key)
			if err != nil {
				return nil, corrupt("%s%.80s ends with no id", c.line.prefix, key)
			}
			ids, keys = append(ids, id), append(keys, c.line.prefix+key)
		}
		c.keys = c.keys[n:]
	}
	return s.standing(ctx, ids[:min(most, len(ids))], keys, round > 0)
}

// standing finds jobs, and leaves out those that no longer are at their place.
func (s *Store) standing(ctx context.Context, ids []haulier.ID, keys []string, fresh bool) ([]*record, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	find := s.remembered
	if fresh {
		find = s.records
	}
	records, err := find(ctx, ids)
	if err != nil {
		return nil, err
	}
	there := records[:0]
	for i, r := range records {
		if r != nil && placeOf(laneText(r.spec.Lane()), r.spec.Priority, ids[i], &r.status).key == keys[i] {
			there = append(there, r)
		}
	}
	return there, nil
}
