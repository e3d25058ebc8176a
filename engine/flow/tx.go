// Package flow holds the rules that tie jobs to one another: needs, keys that are
// held and yielded to, limits, uniqueness and collapse.
//
// The rules are written against a Tx, an optimistic transaction over a store. What
// one job's change means for others (the next waiter is called, a child
// is set free or cancelled) goes into the same commit as the change. Where that may be more than
// a commit should hold, the rest is written down as a document in that commit, and is carried out in
// further ones: see Rest.
//
// A commit is checked against others by what it writes, not by what it read. So a rule that depends on a job or document
// which it leaves as it is writes that too, where a change of it meanwhile would do harm.
package flow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/haulier/haulier"
)

// The documents of flow.
const (
	DocLock     haulier.DocKind = "lock"     // key: tenant/key; who holds a key, and who was called
	DocWaiter   haulier.DocKind = "waiter"   // key: tenant/key/order; a job that waits at a key
	DocNeed     haulier.DocKind = "need"     // key: needed job/job; the condition
	DocUnique   haulier.DocKind = "unique"   // key: tenant/key; the job that keeps others out
	DocCollapse haulier.DocKind = "collapse" // key: tenant/key; the newest job
	DocLimit    haulier.DocKind = "limit"    // key: tenant/key; a Limit
)

// room is how many jobs one commit touches besides those it was made for, and as many again as
// those. With their documents they fit the transactions of every store.
var room = 30

// Tx is a set of changes in the making, over what the store held when each part was
// first read; a commit of its batch fails with ErrConflict if what it writes has changed. It is for one goroutine.
type Tx struct {
	store  haulier.Store
	now    time.Time
	jobs   map[haulier.ID]*entry
	order  []haulier.ID // of jobs that are to be written
	docs   map[docName]*doc
	names  []docName            // of docs that are to be written, in order of their first change
	under  map[docName][]string // of names, the keys under each prefix that ends in a slash
	locks  map[string]*held
	lines  []string // of locks that were changed, in order of their first change
	limits map[string]*Limit
	rest   []Rest        // effects that are still to come
	coming map[Rest]bool // of rest
	left   int           // jobs that may yet be touched

	signals []string // keys of the documents of events that were posted
}

// entry is a job as the transaction leaves it.
type entry struct {
	job haulier.Job
	rev uint64 // before the transaction; 0: it is new
	set bool
}

type docName struct {
	kind haulier.DocKind
	key  string
}

type doc struct {
	value []byte // nil: there is none
	rev   uint64
	set   bool
}

// held is a lock as the transaction leaves it.
type held struct {
	Lock
	set bool
}

// Begin returns an empty transaction at a time of the store's clock.
func Begin(store haulier.Store, now time.Time) *Tx {
	return &Tx{
		store: store, now: now.UTC().Truncate(time.Microsecond), left: room,
		jobs: map[haulier.ID]*entry{}, docs: map[docName]*doc{}, under: map[docName][]string{},
		locks: map[string]*held{}, limits: map[string]*Limit{}, coming: map[Rest]bool{},
	}
}

// Flush carries out what follows from the transaction's changes, as far as there is room, and adds all its writes to
// b. It returns the keys of the documents that say what is left to do.
func (t *Tx) Flush(ctx context.Context, b *haulier.Batch) (work []string, err error) {
	if err := t.settle(ctx); err != nil {
		return nil, err
	}
	work = append(t.noteRest(t.rest), t.signals...)
	t.write(b)
	return work, nil
}

// write adds the jobs and documents to b.
func (t *Tx) write(b *haulier.Batch) {
	for _, name := range t.lines {
		t.put(DocLock, name, t.locks[name].encode(t.now))
	}
	for _, id := range t.order {
		e := t.jobs[id]
		if e.rev == 0 {
			e.job.Rev = 1
			b.Insert = append(b.Insert, e.job)
		} else {
			b.Update = append(b.Update, haulier.JobUpdate{Spec: &e.job.Spec, Expect: e.rev, Status: e.job.Status})
		}
	}
	for _, n := range t.names {
		d := t.docs[n]
		if d.value == nil && d.rev == 0 {
			continue // made and removed in the same breath
		}
		b.Docs = append(b.Docs, haulier.DocWrite{Kind: n.kind, Key: n.key, Expect: d.rev, Value: d.value})
	}
}

// Job returns a job as the transaction leaves it; nil: there is none. It is not to be changed.
func (t *Tx) Job(ctx context.Context, id haulier.ID) (*haulier.Job, error) {
	if e, ok := t.jobs[id]; ok {
		return &e.job, nil
	}
	if err := t.fetch(ctx, []haulier.ID{id}); err != nil {
		return nil, err
	}
	if e, ok := t.jobs[id]; ok {
		return &e.job, nil
	}
	return nil, nil
}

// fetch reads those of the jobs that the transaction does not know yet, all at once.
func (t *Tx) fetch(ctx context.Context, ids []haulier.ID) error {
	var missing []haulier.ID
	for _, id := range ids {
		if _, ok := t.jobs[id]; !ok {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	jobs, err := t.store.Jobs(ctx, missing)
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if j != nil {
			t.Adopt(j)
		}
	}
	return nil
}

// Adopt puts a job as it was read into the transaction, and returns it as the transaction leaves it. It is not to be changed.
func (t *Tx) Adopt(j *haulier.Job) *haulier.Job {
	if e, ok := t.jobs[j.ID]; ok {
		return &e.job
	}
	e := &entry{job: *j, rev: j.Rev}
	t.jobs[j.ID] = e
	return &e.job
}

// Set gives a job the status that was decided elsewhere, with all that follows from it.
// ErrConflict: the transaction has changed the job since it was decided, or the job may not run again; then nothing has changed.
func (t *Tx) Set(ctx context.Context, j *haulier.Job, after haulier.Status) error {
	decided := j.Rev
	if j = t.Adopt(j); j.Rev != decided {
		return fmt.Errorf("job %v: %w: what became of others has changed it", j.ID, haulier.ErrConflict)
	}
	again := j.State.Terminal() && !after.State.Terminal()
	if again {
		if err := t.mayRun(ctx, j); err != nil {
			return err
		}
	}
	t.left++
	if err := t.set(ctx, j.ID, after); err != nil || !again || j.Flow == nil {
		return err
	}
	return t.retake(ctx, j)
}

// change moves a job on by an event, with what follows from it.
func (t *Tx) change(ctx context.Context, j *haulier.Job, ev haulier.Event) error {
	next, err := j.Next(ev, t.now)
	if err != nil {
		return err
	}
	return t.set(ctx, j.ID, next)
}

func (t *Tx) set(ctx context.Context, id haulier.ID, after haulier.Status) error {
	e := t.jobs[id]
	before := e.job.Status
	e.job.Status = after
	if !e.set {
		e.set = true
		t.order = append(t.order, id)
	}
	return t.follows(ctx, &e.job, &before)
}

// touch writes a job that others need as it is, so that the commit fails if it has changed meanwhile.
func (t *Tx) touch(ctx context.Context, j *haulier.Job) error {
	if t.jobs[j.ID].set {
		return nil
	}
	return t.change(ctx, j, haulier.Event{Kind: haulier.EventNeeded})
}

// insert adds a new job.
func (t *Tx) insert(j haulier.Job) *haulier.Job {
	e := &entry{job: j, set: true}
	t.jobs[j.ID] = e
	t.order = append(t.order, j.ID)
	return &e.job
}

// get returns a document's value, nil when there is none, and notes its revision.
func (t *Tx) get(ctx context.Context, kind haulier.DocKind, key string) ([]byte, error) {
	n := docName{kind, key}
	if d, ok := t.docs[n]; ok {
		return d.value, nil
	}
	d := &doc{}
	v, err := t.store.Doc(ctx, kind, key)
	switch {
	case err == nil:
		d.value, d.rev = v.Value, v.Rev
	case !errors.Is(err, haulier.ErrNotFound):
		return nil, err
	}
	t.docs[n] = d
	return d.value, nil
}

// put changes a document that get or list has read, or that is new; nil removes it.
func (t *Tx) put(kind haulier.DocKind, key string, value []byte) {
	n := docName{kind, key}
	d := t.docs[n]
	if d == nil {
		d = &doc{}
		t.docs[n] = d
	}
	if !d.set {
		d.set = true
		t.names = append(t.names, n)
		folder := docName{kind, key[:strings.LastIndexByte(key, '/')+1]}
		t.under[folder] = append(t.under[folder], key)
	}
	d.value = value
}

// list returns up to limit documents whose key has the prefix, which ends in the last slash of
// their keys, and sorts after the given one, as the transaction leaves them.
func (t *Tx) list(ctx context.Context, kind haulier.DocKind, prefix, after string, limit int) ([]haulier.Doc, error) {
	var own []haulier.Doc
	gone := 0
	for _, key := range t.under[docName{kind, prefix}] {
		if key <= after {
			continue
		}
		if d := t.docs[docName{kind, key}]; d.value != nil && d.rev == 0 {
			own = append(own, haulier.Doc{Kind: kind, Key: key, Value: d.value})
		} else if d.value == nil {
			gone++
		}
	}
	docs, err := t.store.Docs(ctx, kind, prefix, after, limit+gone)
	if err != nil {
		return nil, err
	}
	var out []haulier.Doc
	for _, d := range docs {
		n := docName{kind, d.Key}
		mine, ok := t.docs[n]
		switch {
		case !ok:
			t.docs[n] = &doc{value: d.Value, rev: d.Rev}
		case mine.value == nil:
			continue
		default:
			d.Value = mine.value
		}
		out = append(out, d)
	}
	if len(own) > 0 {
		out = merge(out, own, len(docs) == limit+gone)
	}
	return out[:min(len(out), limit)], nil
}
