package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/wire"
)

// change is a transaction in the making.
type change struct {
	s        *Store
	compares []*pb.Compare
	ops      []*pb.RequestOp
	entry    entry
	names    []string // of what is changed, so that two changes of the same are not joined
	size     int      // of what is written, in bytes
}

func (w *change) compare(c *pb.Compare)    { w.compares = append(w.compares, c) }
func (w *change) remove(key string)        { w.ops = append(w.ops, deleteOp(w.s.prefix+key)) }
func (w *change) name(name string)         { w.names = append(w.names, name) }
func (w *change) told(c haulier.JobChange) { w.entry.changes = append(w.entry.changes, c) }

func (w *change) put(key string, value []byte) {
	w.ops = append(w.ops, putOp(w.s.prefix+key, value))
	w.size += len(key) + len(value)
}

// commit carries the transaction out; false: a comparison did not hold. It returns after its changes were told.
func (w *change) commit(ctx context.Context) (bool, error) {
	if w.entry.empty() {
		_, done, err := w.s.write(ctx, w.compares, w.ops)
		return done, err
	}
	f := w.s.feed
	c := f.begin(&w.entry)
	defer f.end(c)
	w.put("log", w.entry.append(nil, f.origin, c.number))
	revision, done, err := w.s.write(ctx, w.compares, w.ops)
	if errors.Is(err, haulier.ErrUnavailable) && f.hears(ctx, c) {
		return true, nil // only the answer was lost
	}
	if err != nil || !done {
		return false, err
	}
	return true, f.settle(ctx, c, revision)
}

// Commit implements haulier.Store. A batch that names a job or document twice is ErrInvalid, one that is larger than etcd takes in
// one step ErrTooLarge.
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
	if err := unique(b); err != nil {
		return err
	}
	for again := false; ; again = true {
		w := &change{s: s}
		if err := w.batch(ctx, b, again); err != nil {
			if !again && errors.Is(err, haulier.ErrConflict) {
				continue // maybe another server's change is yet to be heard of
			}
			return err
		}
		if done, err := s.join(ctx, w); done || err != nil {
			return err
		}
		// What was read has changed since, or else what was not read is not as expected.
		if err := s.look(ctx, b); err != nil {
			return err
		}
	}
}

// unique refuses a batch that names something twice, or a session by no id.
func unique(b *haulier.Batch) error {
	type name struct {
		kind haulier.DocKind
		key  string
	}
	jobs := make(map[haulier.ID]struct{}, len(b.Insert)+len(b.Update)+len(b.Delete))
	for i := range b.Insert {
		jobs[b.Insert[i].ID] = struct{}{}
	}
	if len(jobs) < len(b.Insert) {
		return fmt.Errorf("%w: the batch inserts a job twice", haulier.ErrConflict)
	}
	for i := range b.Update {
		jobs[b.Update[i].Spec.ID] = struct{}{}
	}
	for _, d := range b.Delete {
		jobs[d.ID] = struct{}{}
	}
	if len(jobs) < len(b.Insert)+len(b.Update)+len(b.Delete) {
		return fmt.Errorf("%w: the batch names a job twice", haulier.ErrInvalid)
	}
	docs := make(map[name]struct{}, len(b.Docs))
	for i := range b.Docs {
		d := &b.Docs[i]
		docs[name{d.Kind, d.Key}] = struct{}{}
		if len(docs) <= i {
			return fmt.Errorf("document %s %s: %w: the batch names it twice", d.Kind, d.Key, haulier.ErrInvalid)
		}
		if d.Kind == haulier.DocSession {
			if _, err := haulier.ParseID(d.Key); err != nil {
				return fmt.Errorf("document %s: %w", d.Kind, err)
			}
		}
		if len(d.Value) > haulier.MaxDoc {
			return fmt.Errorf("document %s %s: %w: %d bytes, at most %d", d.Kind, d.Key, haulier.ErrTooLarge, len(d.Value), haulier.MaxDoc)
		}
	}
	return nil
}

// batch makes the transaction of a batch. again: what is remembered of jobs was not true, or not all that lies between ids that must be new was.
func (w *change) batch(ctx context.Context, b *haulier.Batch, again bool) error {
	olds, err := w.s.olds(ctx, b, again)
	if err != nil {
		return err
	}
	if b.CheckIDs {
		w.newIDs(b.Insert, again)
	}
	for i := range b.Insert {
		w.insert(&b.Insert[i])
	}
	for i := range b.Update {
		u := &b.Update[i]
		if err := olds[i].expect(u.Spec.ID, u.Expect); err != nil {
			return err
		}
		w.update(u.Spec, olds[i], &u.Status)
	}
	for i, d := range b.Delete {
		old := olds[len(b.Update)+i]
		if err := old.expect(d.ID, d.Expect); err != nil {
			return err
		}
		w.delete(old)
	}
	for i := range b.Docs {
		w.doc(&b.Docs[i])
	}
	w.entry.tell = b.Tell
	return nil
}

// olds finds how the jobs of Update, then those of Delete, are; fresh: as etcd has them.
func (s *Store) olds(ctx context.Context, b *haulier.Batch, fresh bool) ([]*record, error) {
	ids := make([]haulier.ID, 0, len(b.Update)+len(b.Delete))
	for i := range b.Update {
		ids = append(ids, b.Update[i].Spec.ID)
	}
	for _, d := range b.Delete {
		ids = append(ids, d.ID)
	}
	if fresh {
		return s.records(ctx, ids)
	}
	return s.remembered(ctx, ids)
}

// expect is an error unless the job is at a revision.
func (r *record) expect(id haulier.ID, rev uint64) error {
	switch {
	case r == nil:
		return fmt.Errorf("job %v: %w: it does not exist", id, haulier.ErrConflict)
	case r.status.Rev != rev:
		return fmt.Errorf("job %v: %w: it is at revision %d, not %d", id, haulier.ErrConflict, r.status.Rev, rev)
	}
	return nil
}

// fewIDs are compared one by one from the start.
const fewIDs = 16

// newIDs makes the transaction depend on the ids being new. Those that one server made at one time follow each other, so that one comparison
// is enough for all: nothing is between the first and the last.
func (w *change) newIDs(jobs []haulier.Job, apart bool) {
	if apart || len(jobs) <= fewIDs {
		for i := range jobs {
			w.compare(absent(w.s.prefix+"job/"+jobs[i].ID.String(), ""))
		}
		return
	}
	first, last := jobs[0].ID, jobs[0].ID
	for i := range jobs {
		if id := jobs[i].ID; bytes.Compare(id[:], first[:]) < 0 {
			first = id
		} else if bytes.Compare(id[:], last[:]) > 0 {
			last = id
		}
	}
	key := w.s.prefix + "job/"
	w.compare(absent(key+first.String(), key+last.String()+"\x00"))
}

func (w *change) insert(j *haulier.Job) {
	id, spec := j.ID.String(), j.Spec
	w.name(id)
	w.put("job/"+id, wire.AppendSpec(nil, &spec))
	w.put("status/"+id, wire.AppendStatus(nil, &j.Status))
	w.put(tenantKey(j.Tenant, j.ID), nil)
	w.move(place{}, placeOf(laneText(j.Lane()), j.Priority, j.ID, &j.Status))
	w.told(haulier.JobChange{Spec: &spec, Status: j.Status})
}

func (w *change) update(spec *haulier.Spec, old *record, next *haulier.Status) {
	id := spec.ID.String()
	w.name(id)
	w.compare(unchanged(w.s.prefix+"status/"+id, old.revision))
	w.put("status/"+id, wire.AppendStatus(nil, next))
	lane := laneText(spec.Lane())
	w.move(placeOf(lane, spec.Priority, spec.ID, &old.status), placeOf(lane, spec.Priority, spec.ID, next))
	own := *spec
	w.told(haulier.JobChange{Spec: &own, Before: old.status.State, Status: *next})
}

func (w *change) delete(old *record) {
	spec, id := old.spec, old.spec.ID.String()
	w.name(id)
	w.compare(unchanged(w.s.prefix+"status/"+id, old.revision))
	w.remove("job/" + id)
	w.remove("status/" + id)
	w.remove(tenantKey(spec.Tenant, spec.ID))
	w.move(placeOf(laneText(spec.Lane()), spec.Priority, spec.ID, &old.status), place{})
	w.told(haulier.JobChange{Spec: spec, Before: old.status.State})
}

// move takes a job from one place to another. Either may be none.
func (w *change) move(from, to place) {
	if from.key != "" && from.key != to.key {
		w.remove(from.key)
	}
	if to.key != "" && from != to {
		w.put(to.key, []byte(to.value))
	}
	if from.purge != "" && from.purge != to.purge {
		w.remove(from.purge)
	}
	if to.purge != "" && from.purge != to.purge {
		w.put(to.purge, nil)
	}
}

func (w *change) doc(d *haulier.DocWrite) {
	key := docKey(d.Kind, d.Key)
	w.name(key)
	if d.Expect != haulier.AnyRev {
		w.compare(written(w.s.prefix+key, int64(d.Expect)))
	}
	if d.Value == nil {
		w.remove(key)
	} else {
		w.put(key, d.Value)
	}
	if d.Kind != haulier.DocSession {
		return
	}
	l := leaseChange{ttl: d.Lease, gone: d.Value == nil}
	l.session, _ = haulier.ParseID(d.Key) // unique has looked
	w.lease(l)
}

func (w *change) lease(l leaseChange) {
	if l.gone {
		w.remove("lease/" + l.session.String())
	} else {
		w.put("lease/"+l.session.String(), []byte(l.ttl.String()))
	}
	w.entry.leases = append(w.entry.leases, l)
}

// look is ErrConflict when a document, or an id that must be new, is not as the batch expects.
func (s *Store) look(ctx context.Context, b *haulier.Batch) error {
	var keys []string
	if b.CheckIDs {
		for i := range b.Insert {
			keys = append(keys, "job/"+b.Insert[i].ID.String())
		}
	}
	inserts := len(keys)
	for i := range b.Docs {
		keys = append(keys, docKey(b.Docs[i].Kind, b.Docs[i].Key))
	}
	if len(keys) == 0 {
		return nil
	}
	found, err := s.gets(ctx, keys, true)
	if err != nil {
		return err
	}
	for i, kv := range found[:inserts] {
		if kv != nil {
			return fmt.Errorf("job %v: %w: it exists", b.Insert[i].ID, haulier.ErrConflict)
		}
	}
	for i, kv := range found[inserts:] {
		d, rev := &b.Docs[i], uint64(0)
		if kv != nil {
			rev = uint64(kv.Version)
		}
		if d.Expect != haulier.AnyRev && d.Expect != rev {
			return fmt.Errorf("document %s %s: %w: it is at revision %d, not %d", d.Kind, d.Key, haulier.ErrConflict, rev, d.Expect)
		}
	}
	return nil
}

// Renew implements haulier.Store.
func (s *Store) Renew(ctx context.Context, session haulier.ID, ttl time.Duration) error {
	if err := s.enter(); err != nil {
		return fmt.Errorf("renew: %w", err)
	}
	defer s.leave()
	w := &change{s: s}
	w.alive(session)
	w.name(docKey(haulier.DocSession, session.String()))
	w.lease(leaseChange{session: session, ttl: ttl})
	done, err := s.join(ctx, w)
	if err == nil && !done {
		err = lost(session)
	}
	if err != nil {
		return fmt.Errorf("renew: %w", err)
	}
	return nil
}

// alive makes the transaction depend on the session's document.
func (w *change) alive(session haulier.ID) {
	w.compare(present(w.s.prefix + docKey(haulier.DocSession, session.String())))
}

func lost(session haulier.ID) error {
	return fmt.Errorf("session %v: %w: there is no such session; open a new one", session, haulier.ErrLeaseLost)
}
