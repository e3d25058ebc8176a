package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/haulier/haulier"
)

// commitRequest is a batch on its way, encoded by its caller.
type commitRequest struct {
	inserts  statusRows
	insertID []haulier.ID
	lanes    []int32
	ranks    []int16
	created  []pgtype.Timestamptz
	specs    [][]byte

	updates statusRows
	changes []change // of the updates, then of the removals
	removed []haulier.ID

	docs     []docWrite
	checkIDs bool
	sync     bool
	tell     bool
	told     []haulier.JobChange // what watchers are told of inserts and updates; what was before is filled in
	watched  bool
	weight   int // rough bytes
	size     int // rows
	err      error
	done     chan struct{}
}

// change is what is expected of a job.
type change struct {
	id     haulier.ID
	expect uint64
	after  haulier.State
	rev    uint64
	at     time.Time
}

type docWrite struct {
	docKey
	expect uint64
	value  []byte // nil: it is removed
	remove bool
	lease  time.Duration
	id     haulier.ID // of a session's
}

type docKey struct{ kind, key string }

// Commit implements haulier.Store.
func (s *Store) Commit(ctx context.Context, b *haulier.Batch) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := s.commit(ctx, b); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

func (s *Store) commit(ctx context.Context, b *haulier.Batch) error {
	r, err := s.newCommit(ctx, b)
	if err != nil || r.size == 0 {
		return err
	}
	select {
	case s.commits <- r:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// newCommit encodes a batch, of which nothing is kept but what watchers are told.
func (s *Store) newCommit(ctx context.Context, b *haulier.Batch) (*commitRequest, error) {
	r := &commitRequest{checkIDs: b.CheckIDs, sync: b.Sync && s.sync, tell: b.Tell, done: make(chan struct{})}
	r.watched = s.watchers.some.Load()
	for i := range b.Insert {
		j := &b.Insert[i]
		lane, err := s.lanes.number(ctx, j.Lane())
		if err != nil {
			return nil, err
		}
		r.insert(j, lane)
		if r.watched {
			spec := j.Spec
			r.told = append(r.told, haulier.JobChange{Spec: &spec, Status: j.Status})
		}
	}
	for i := range b.Update {
		u := &b.Update[i]
		r.updates.add(u.Spec.ID, &u.Status)
		at, _ := timeOf(&u.Status)
		r.changes = append(r.changes, change{id: u.Spec.ID, expect: u.Expect, after: u.Status.State, rev: u.Status.Rev, at: at})
		if r.watched {
			spec := *u.Spec
			r.told = append(r.told, haulier.JobChange{Spec: &spec, Status: u.Status})
		}
	}
	for _, d := range b.Delete {
		r.changes = append(r.changes, change{id: d.ID, expect: d.Expect, rev: d.Expect})
		r.removed = append(r.removed, d.ID)
	}
	for i := range b.Docs {
		if err := r.addDoc(&b.Docs[i]); err != nil {
			return nil, err
		}
	}
	for _, records := range [][][]byte{r.inserts.records, r.updates.records} {
		for _, b := range records {
			r.weight += len(b)
		}
	}
	r.size = len(b.Insert) + len(b.Update) + len(b.Delete) + len(b.Docs)
	return r, nil
}

func (r *commitRequest) addDoc(w *haulier.DocWrite) error {
	d := docWrite{docKey: docKey{string(w.Kind), w.Key}, expect: w.Expect, value: bytes.Clone(w.Value), remove: w.Value == nil, lease: w.Lease}
	if w.Kind == haulier.DocSession {
		var err error
		if d.id, err = haulier.ParseID(w.Key); err != nil {
			return fmt.Errorf("document %s: %w", w.Kind, err)
		}
	}
	r.docs = append(r.docs, d)
	r.weight += len(w.Value)
	return nil
}

// Bounds of a group.
const (
	groupRows  = 5000
	groupBytes = 16 << 20
)

// runCommits carries out what is asked, what has come meanwhile together, until the store closes.
func (s *Store) runCommits(slot int16) {
	var next *commitRequest
	for {
		g := group{s: s, slot: slot, named: map[any]bool{}}
		if next == nil {
			var ok bool
			if next, ok = <-s.commits; !ok {
				return
			}
		}
		g.add(next)
		next = s.gather(&g)
		s.carryOut(&g)
	}
}

// gather adds what waits, and returns a request that has come and does not fit in.
func (s *Store) gather(g *group) *commitRequest {
	for g.rows < groupRows && g.weight < groupBytes {
		select {
		case r, ok := <-s.commits:
			if !ok {
				return nil
			}
			if !g.add(r) {
				return r
			}
		default:
			return nil
		}
	}
	return nil
}

// group is requests that become one transaction. They have no job and no document in common.
type group struct {
	s      *Store
	slot   int16
	reqs   []*commitRequest
	named  map[any]bool
	rows   int
	weight int
}

// add takes in a request; false: it names what another does.
func (g *group) add(r *commitRequest) bool {
	if len(g.reqs) > 0 && (slices.ContainsFunc(r.changes, func(c change) bool { return g.named[c.id] }) ||
		slices.ContainsFunc(r.insertID, func(id haulier.ID) bool { return g.named[id] }) ||
		slices.ContainsFunc(r.docs, func(d docWrite) bool { return g.named[d.docKey] })) {
		return false
	}
	for i := range r.changes {
		g.named[r.changes[i].id] = true
	}
	for i := range r.docs {
		g.named[r.docs[i].docKey] = true
	}
	if r.checkIDs {
		for _, id := range r.insertID {
			g.named[id] = true
		}
	}
	g.reqs = append(g.reqs, r)
	g.rows += r.size
	g.weight += r.weight
	return true
}

// maxTries is how often a transaction is tried that the database undoes for the sake of others.
const maxTries = 10

// commitTimeout bounds a transaction, so that one whose server has gone without a word ends.
const commitTimeout = 2 * time.Minute

// carryOut carries out a group and answers its requests.
func (s *Store) carryOut(g *group) {
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	err := s.try(ctx, g, false)
	if passing(err) && len(g.reqs) > 1 {
		// One of them is to blame; each goes alone.
		for _, r := range g.reqs {
			if r.err == nil {
				s.carryOut(&group{s: s, slot: g.slot, reqs: []*commitRequest{r}})
			} else {
				close(r.done)
			}
		}
		return
	}
	for tries := 1; passing(err) && tries < maxTries; tries++ {
		err = s.try(ctx, g, true)
	}
	for _, r := range g.reqs {
		if r.err == nil && err != nil {
			r.err = translateRead(err)
		}
		close(r.done)
	}
}

// try makes one transaction of the group, again when a connection turns out to be dead before anything was written.
func (s *Store) try(ctx context.Context, g *group, checkAll bool) error {
	t := &commitTx{g: g, s: s, checkAll: checkAll}
	err := t.run(ctx)
	if err != nil && !t.sent && codeOf(err) == "" && ctx.Err() == nil && !unreached(err) {
		s.pool.Reset()
		t = &commitTx{g: g, s: s, checkAll: checkAll}
		err = t.run(ctx)
	}
	return err
}

// unreached says that not even a connection was to be had.
func unreached(err error) bool {
	var e *pgconn.ConnectError
	return errors.As(err, &e)
}
