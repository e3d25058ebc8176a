package pebble

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/haulier/haulier"
)

// request is a commit or a claim on its way through the committer. Its writes
// are encoded before it gets there.
type request struct {
	ops     ops
	sync    bool
	done    chan error // takes the result; has room for it
	changes []haulier.JobChange
	watched bool // changes are wanted

	batch *haulier.Batch // of a commit
	lanes []*lane        // of Insert, then of Update
	jobs  []*haulier.Job // the jobs as Update leaves them
	olds  []hint         // of Update, then of Delete

	claim *claim // of a claim
	fill  *band  // of a scan for a window
	begun bool   // of that scan
}

// hint is a job as it was found before the committer's turn. It is true as long as no
// change of the generation or a later one was dropped from the cache, which knows those that were not.
type hint struct {
	job        *haulier.Job // nil: not found
	lane       *lane
	generation uint64
}

// Commit implements haulier.Store. A batch that names a job or document twice is ErrInvalid.
func (s *Store) Commit(ctx context.Context, b *haulier.Batch) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	r := s.newRequest()
	r.batch = b
	r.sync = b.Sync
	err := s.prepare(r)
	if err == nil {
		err = s.submit(ctx, r)
	}
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// prepare does what needs no turn: encoding, and reading of what is not in memory.
func (s *Store) prepare(r *request) error {
	b := r.batch
	if err := unique(b); err != nil {
		return err
	}
	s.findLanes(r)
	for i := range b.Insert {
		j := &b.Insert[i]
		r.ops.setJob(j)
		r.place(j, r.lanes[i], false)
	}
	for i := range b.Update {
		u := &b.Update[i]
		j := &haulier.Job{Spec: *u.Spec, Status: u.Status}
		j.Result = bytes.Clone(j.Result)
		r.jobs = append(r.jobs, j)
		if !j.State.Owned() {
			var room [17]byte
			r.ops.setStatus(append(append(room[:0], spaceStatus), j.ID[:]...), &j.Status)
		}
		r.place(j, r.lanes[len(b.Insert)+i], true)
	}
	if err := s.findOlds(r); err != nil {
		return err
	}
	if r.watched {
		r.foretell()
	}
	return nil
}

// place writes the index entry of a job; stored: its status has a record of its own.
func (r *request) place(j *haulier.Job, l *lane, stored bool) {
	var room [64]byte
	key := indexKey(room[:0], l.id, j.Priority, j.ID, &j.Status)
	switch key[0] {
	case spaceOwned:
		r.ops.setOwned(key, l.id, &j.Status)
	case spaceReady:
		r.ops.set(key, readyValue(stored))
	case spaceDone:
		r.ops.set(key, nil)
	default:
		var number [4]byte
		r.ops.set(key, binary.BigEndian.AppendUint32(number[:0], l.id))
	}
}

var storedMark = []byte{1}

func readyValue(stored bool) []byte {
	if stored {
		return storedMark
	}
	return nil
}

// unique refuses a batch that names something twice, or a session by no id.
func unique(b *haulier.Batch) error {
	if n := len(b.Update) + len(b.Delete); n > 1 || n == 1 && len(b.Insert) > 0 {
		named := make(map[haulier.ID]struct{}, n)
		for i := range b.Update {
			named[b.Update[i].Spec.ID] = struct{}{}
		}
		for i := range b.Delete {
			named[b.Delete[i].ID] = struct{}{}
		}
		if len(named) < n {
			return fmt.Errorf("%w: the batch names a job twice", haulier.ErrInvalid)
		}
		for i := range b.Insert {
			if _, twice := named[b.Insert[i].ID]; twice {
				return fmt.Errorf("job %v: %w: the batch inserts what it changes", b.Insert[i].ID, haulier.ErrConflict)
			}
		}
	}
	return uniqueDocs(b.Docs)
}

func uniqueDocs(writes []haulier.DocWrite) error {
	type name struct {
		kind haulier.DocKind
		key  string
	}
	var named map[name]struct{}
	if len(writes) > 1 {
		named = make(map[name]struct{}, len(writes))
	}
	for i := range writes {
		w := &writes[i]
		if named != nil {
			named[name{w.Kind, w.Key}] = struct{}{}
			if len(named) <= i {
				return fmt.Errorf("document %s %s: %w: the batch names it twice", w.Kind, w.Key, haulier.ErrInvalid)
			}
		}
		if w.Kind == haulier.DocSession {
			if _, err := haulier.ParseID(w.Key); err != nil {
				return fmt.Errorf("document %s: %w", w.Kind, err)
			}
		}
		if len(w.Value) > haulier.MaxDoc {
			return fmt.Errorf("document %s %s: %w: %d bytes, at most %d", w.Kind, w.Key, haulier.ErrTooLarge, len(w.Value), haulier.MaxDoc)
		}
	}
	return nil
}

// findLanes finds the numbers of the jobs' lanes.
func (s *Store) findLanes(r *request) {
	b := r.batch
	if len(b.Insert)+len(b.Update) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var name haulier.Lane
	var l *lane
	find := func(spec *haulier.Spec) {
		if n := spec.Lane(); l == nil || n != name {
			name, l = n, s.lanes.of(n)
		}
		r.lanes = append(r.lanes, l)
	}
	for i := range b.Insert {
		find(&b.Insert[i].Spec)
	}
	for i := range b.Update {
		find(b.Update[i].Spec)
	}
}

// findOlds finds the jobs that are to be changed, as they are now.
func (s *Store) findOlds(r *request) error {
	b := r.batch
	if len(b.Update)+len(b.Delete) == 0 {
		return nil
	}
	n := len(b.Update) + len(b.Delete)
	ids := make([]haulier.ID, n)
	for i := range ids {
		ids[i], _ = r.old(i)
	}
	found := make([]*haulier.Job, n)
	generation, err := s.find(ids, found)
	for _, j := range found {
		r.olds = append(r.olds, hint{job: j, generation: generation})
	}
	return err
}

// foretell lists the changes as far as they are known before the turn.
func (r *request) foretell() {
	b := r.batch
	r.changes = make([]haulier.JobChange, 0, len(b.Insert)+len(b.Update)+len(b.Delete))
	for i := range b.Insert {
		r.changes = append(r.changes, haulier.JobChange{Spec: &b.Insert[i].Spec, Status: b.Insert[i].Status})
	}
	for i := range b.Update {
		r.changes = append(r.changes, haulier.JobChange{Spec: b.Update[i].Spec, Status: b.Update[i].Status})
	}
	r.changes = r.changes[:len(b.Insert)+len(b.Update)+len(b.Delete)] // those of Delete follow
	if b.Tell {
		r.changes = append(r.changes, haulier.JobChange{})
	}
}

// commit carries out the request in memory and adds its writes to the group's. The committer calls it.
func (s *Store) commit(r *request, g *group) error {
	b := r.batch
	docs, err := s.checkDocs(b.Docs, g)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range r.olds {
		id, expect := r.old(i)
		h, err := s.current(id, r.olds[i])
		if err != nil {
			return err
		}
		if h.job == nil || h.job.Rev != expect {
			return fmt.Errorf("job %v: %w: it is not at revision %d", id, haulier.ErrConflict, expect)
		}
		r.olds[i] = h
	}
	if err := s.checkInserts(b, g); err != nil {
		return err
	}
	for i := range b.Update {
		s.leaveIndex(r.olds[i], r.jobs[i], g)
	}
	for i := range b.Delete {
		h := r.olds[len(b.Update)+i]
		s.leaveIndex(h, nil, g)
		s.removeJob(h, g)
	}
	g.ops.join(&r.ops)
	for i := range b.Insert {
		s.enterIndex(&b.Insert[i], r.lanes[i], nil, g)
	}
	for i := range b.Update {
		s.enterIndex(r.jobs[i], r.lanes[len(b.Insert)+i], r.olds[i].job, g)
	}
	s.writeDocs(b.Docs, docs, g)
	r.tellBefore()
	return nil
}

// old is the id and expected revision of the i-th job that is to be changed.
func (r *request) old(i int) (haulier.ID, uint64) {
	if n := len(r.batch.Update); i >= n {
		d := &r.batch.Delete[i-n]
		return d.ID, d.Expect
	}
	u := &r.batch.Update[i]
	return u.Spec.ID, u.Expect
}

// tellBefore completes the changes by how the jobs were before.
func (r *request) tellBefore() {
	if !r.watched {
		return
	}
	ups := len(r.batch.Update)
	tail := r.changes[len(r.batch.Insert):]
	for i := range r.olds {
		if i >= ups {
			tail[i].Spec = &r.olds[i].job.Spec
		}
		tail[i].Before = r.olds[i].job.State
	}
}

// current is the job as the committer sees it: from the cache, or the hint when that still holds.
func (s *Store) current(id haulier.ID, h hint) (hint, error) {
	if e := s.cache.byID[id]; e != nil {
		return hint{job: e.job, lane: e.lane}, nil
	}
	if h.job == nil || s.cache.dropped >= h.generation {
		j, _, err := s.readJob(id, s.owned[id])
		if err != nil {
			return hint{}, err
		}
		h.job = j
	}
	if h.job != nil {
		h.lane = s.lanes.of(h.job.Lane())
	}
	return h, nil
}

// checkInserts makes sure that the ids are new.
func (s *Store) checkInserts(b *haulier.Batch, g *group) error {
	if !b.CheckIDs {
		return nil
	}
	for i := range b.Insert {
		id := b.Insert[i].ID
		_, twice := g.inserted[id]
		if !twice {
			var err error
			if twice, err = s.has(idKey(spaceJob, id)); err != nil {
				return err
			}
			if e := s.cache.byID[id]; e != nil {
				twice = e.job != nil
			}
		}
		if twice {
			g.forget(b.Insert[:i])
			return fmt.Errorf("job %v: %w: it exists", id, haulier.ErrConflict)
		}
		g.inserted[id] = struct{}{}
	}
	return nil
}

// leaveIndex takes a job out of the index in which it stands; next is how it goes on, nil when it is removed.
func (s *Store) leaveIndex(h hint, next *haulier.Job, g *group) {
	j := h.job
	s.lanes.count(h.lane, j.State, -1)
	if j.State.Owned() {
		if next != nil && next.Session == j.Session && next.State.Owned() {
			return // the entry is written over
		}
		delete(s.owned, j.ID)
	}
	var room [64]byte
	g.ops.removeIndex(indexKey(room[:0], h.lane.id, j.Priority, j.ID, &j.Status))
	if j.State == haulier.Pending {
		s.leaveBand(h.lane, j)
	}
}

// enterIndex puts a job into the index of its state, but for the entry on disk. before is
// the job as it was, nil when it is new.
func (s *Store) enterIndex(j *haulier.Job, l *lane, before *haulier.Job, g *group) {
	s.lanes.count(l, j.State, 1)
	changed := before != nil
	keep := changed
	switch {
	case j.State == haulier.Pending:
		near := s.enterBand(l, j, changed)
		keep = keep || near
	case j.State == haulier.Scheduled:
		s.lowered(&s.timers, mark{micros(j.Status.RunAt), j.ID}, g)
	case j.State.Owned():
		s.owned[j.ID] = j.Session
		keep = true
	case j.State.Terminal():
		s.lowered(l.shelf(j.State), mark{micros(j.PurgeAt), j.ID}, g)
	}
	if !keep {
		return // a job that waits far behind others costs no memory
	}
	if !changed {
		c := *j
		c.Payload = bytes.Clone(j.Payload)
		j = &c
	}
	s.cache.put(j.ID, j, l, s.generation, before, true)
}

func (s *Store) lowered(w *lowWater, m mark, g *group) {
	if w.fresh == lastMark {
		g.lowered = append(g.lowered, w)
	}
	w.add(m)
}

// removeJob removes the records of a job.
func (s *Store) removeJob(h hint, g *group) {
	id := h.job.ID
	g.ops.remove(idKey(spaceJob, id))
	g.ops.remove(idKey(spaceStatus, id))
	s.cache.put(id, nil, h.lane, s.generation, h.job, true)
}
