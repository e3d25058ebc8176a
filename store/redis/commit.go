package redis

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/haulier/haulier"
)

// Commit implements haulier.Store.
func (s *Store) Commit(ctx context.Context, b *haulier.Batch) error {
	if err := s.enter(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	defer s.leave()
	if len(b.Insert)+len(b.Update)+len(b.Delete)+len(b.Docs) == 0 {
		return nil
	}
	if err := s.commit(ctx, b); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

func (s *Store) commit(ctx context.Context, b *haulier.Batch) error {
	c := s.feed.begin()
	defer s.feed.end(c)
	args, err := s.arguments(c.tag, b)
	if err != nil {
		return err
	}
	reply, err := s.run(ctx, commitScript, args...).ToArray()
	if err != nil {
		return translate(ctx, err)
	}
	a := answer{items: reply}
	if a.text() == "conflict" {
		return fmt.Errorf("%s %s: %w: it is at revision %s", a.text(), a.text(), haulier.ErrConflict, a.text())
	}
	changes, err := changesOf(b, &a)
	if err != nil {
		return err
	}
	if len(changes) > 0 {
		if err := s.feed.settle(ctx, c, changes); err != nil {
			return err
		}
	}
	if b.Sync && s.disk != nil {
		return s.disk.sync(ctx)
	}
	return nil
}

// arguments are those of the commit's script.
func (s *Store) arguments(tag string, b *haulier.Batch) ([]string, error) {
	const head = 9
	args := make([]string, head, head+16+5*len(b.Insert)+6*len(b.Update)+2*len(b.Delete)+7*len(b.Docs))
	var spots spotNumbers
	for i := range b.Insert {
		spots.add(&b.Insert[i].Spec, &b.Insert[i].Status)
	}
	for i := range b.Update {
		spots.add(b.Update[i].Spec, &b.Update[i].Status)
	}
	args[0], args[1], args[2] = tag, s.floorText(), "0"
	if b.CheckIDs {
		args[2] = "1"
	}
	for i, n := range []int{len(spots.list), len(b.Insert), len(b.Update), len(b.Delete), len(b.Docs)} {
		args[3+i] = strconv.Itoa(n)
	}
	args[8] = "0"
	if b.Tell {
		args[8] = "1"
	}
	for i := range spots.list {
		p := &spots.list[i]
		args = append(args, p.state.String(), strconv.Itoa(p.priority), p.session, laneText(p.lane))
	}
	for i := range b.Insert {
		j := &b.Insert[i]
		args = append(args, j.ID.String(), spots.number(), timeText(&j.Status), specText(&j.Spec, j.Payload), statusText(&j.Spec, &j.Status))
	}
	for i := range b.Update {
		u := &b.Update[i]
		args = append(args, u.Spec.ID.String(), revText(u.Expect), spots.number(), timeText(&u.Status),
			specText(u.Spec, nil), statusText(u.Spec, &u.Status))
	}
	for _, d := range b.Delete {
		args = append(args, d.ID.String(), revText(d.Expect))
	}
	var err error
	for i := range b.Docs {
		if args, err = appendDoc(args, &b.Docs[i]); err != nil {
			return nil, err
		}
	}
	return args, nil
}

// spot is where jobs of a state, priority, owner and lane stand.
type spot struct {
	state    haulier.State
	priority int
	session  string
	lane     haulier.Lane
}

// spotNumbers gives each spot of a batch a number, so that it is sent once.
type spotNumbers struct {
	list    []spot
	numbers map[spot]int
	each    []int // by the order in which they were added
}

// add numbers the spot of a job.
func (n *spotNumbers) add(spec *haulier.Spec, status *haulier.Status) {
	s := spot{state: status.State, priority: spec.Priority, session: sessionText(status), lane: spec.Lane()}
	if last := len(n.each) - 1; last >= 0 && n.list[n.each[last]-1] == s { // most often
		n.each = append(n.each, n.each[last])
		return
	}
	if n.numbers == nil {
		n.numbers = map[spot]int{}
	}
	if n.numbers[s] == 0 {
		n.list = append(n.list, s)
		n.numbers[s] = len(n.list)
	}
	n.each = append(n.each, n.numbers[s])
}

// number is that of each job, one after the other.
func (n *spotNumbers) number() string {
	first := n.each[0]
	n.each = n.each[1:]
	return strconv.Itoa(first)
}

func appendDoc(args []string, w *haulier.DocWrite) ([]string, error) {
	expect, verb, session := revText(w.Expect), "write", ""
	if w.Expect == haulier.AnyRev {
		expect = "any"
	}
	if w.Value == nil {
		verb = "remove"
	}
	if w.Kind == haulier.DocSession {
		id, err := haulier.ParseID(w.Key)
		if err != nil {
			return nil, fmt.Errorf("document %s: %w", w.Kind, err)
		}
		session = id.String()
	}
	return append(args, string(w.Kind), w.Key, expect, verb, rueidis.BinaryString(w.Value), session, microText(w.Lease.Microseconds())), nil
}

func revText(rev uint64) string { return strconv.FormatUint(rev, 10) }

// changesOf are what a batch has changed, given the script's reply behind its first word.
func changesOf(b *haulier.Batch, a *answer) ([]haulier.JobChange, error) {
	changes := make([]haulier.JobChange, 0, len(b.Insert)+len(b.Update)+len(b.Delete))
	for i := range b.Insert {
		spec := b.Insert[i].Spec
		changes = append(changes, haulier.JobChange{Spec: &spec, Status: b.Insert[i].Status})
	}
	for i := range b.Update {
		changes = append(changes, haulier.JobChange{Spec: b.Update[i].Spec, Before: a.state(), Status: b.Update[i].Status})
	}
	for range b.Delete {
		before := a.state()
		spec, err := parseSpec(a.text())
		if err != nil {
			return nil, err
		}
		changes = append(changes, haulier.JobChange{Spec: &spec, Before: before})
	}
	if b.Tell {
		changes = append(changes, haulier.JobChange{})
	}
	return changes, a.bad
}

// Claim implements haulier.Store.
func (s *Store) Claim(ctx context.Context, session haulier.ID, by string, takes []haulier.Take) ([]haulier.Job, error) {
	if err := s.enter(); err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	defer s.leave()
	jobs, err := s.claim(ctx, session, by, takes)
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	return jobs, nil
}

func (s *Store) claim(ctx context.Context, session haulier.ID, by string, takes []haulier.Take) ([]haulier.Job, error) {
	c := s.feed.begin()
	defer s.feed.end(c)
	args := append(make([]string, 0, 4+3*len(takes)), c.tag, s.floorText(), session.String(), workerEscaper.Replace(by))
	for _, t := range takes {
		args = append(args, strconv.Itoa(t.Band.Priority), laneText(t.Band.Lane), strconv.Itoa(max(t.N, 0)))
	}
	reply, err := s.run(ctx, claimScript, args...).ToArray()
	if err != nil {
		return nil, translate(ctx, err)
	}
	a := answer{items: reply}
	if a.text() == "lost" {
		return nil, lost(session)
	}
	s.see(a.micros())
	jobs := make([]haulier.Job, 0, len(a.items)/2)
	changes := make([]haulier.JobChange, 0, len(a.items)/2)
	for a.more() {
		j, err := parseJob(a.text(), a.text())
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, *j)
		changes = append(changes, haulier.JobChange{Spec: &j.Spec, Before: haulier.Pending, Status: j.Status})
	}
	if a.bad != nil || len(jobs) == 0 {
		return nil, a.bad
	}
	return jobs, s.feed.settle(ctx, c, changes)
}

// Renew implements haulier.Store.
func (s *Store) Renew(ctx context.Context, session haulier.ID, ttl time.Duration) error {
	if err := s.enter(); err != nil {
		return fmt.Errorf("renew: %w", err)
	}
	defer s.leave()
	known, err := s.run(ctx, renewScript, s.floorText(), session.String(), microText(ttl.Microseconds())).AsInt64()
	if err != nil {
		return fmt.Errorf("renew: %w", translate(ctx, err))
	}
	if known == 0 {
		return fmt.Errorf("renew: %w", lost(session))
	}
	return nil
}

func lost(session haulier.ID) error {
	return fmt.Errorf("session %v: %w: there is no such session; open a new one", session, haulier.ErrLeaseLost)
}
