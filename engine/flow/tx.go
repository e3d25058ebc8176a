// Package flow holds the rules that tie jobs to one another: needs, keys that are
// held and yielded to, limits, uniqueness and collapse.
//
// The rules are written against a Tx, an optimistic transaction over a store. What
// one job's change means for others (the next waiter is called, a child
// is set free or cancelled) goes into the same commit as the change. Where that may be more than
// a commit should hold, the rest is written down as a document in that commit, and is carried out in
// further ones: see Rest.
package flow

import (
	"bytes"
	"context"
	"encoding/json"
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

// room is how many jobs one commit touches besides those it was made for. With
// their documents they fit the transactions of every store.
const room = 30

// Tx is a set of changes in the making, over what the store held when each part was
// first read; a commit of its batch fails with ErrConflict if that has changed. It is for one goroutine.
type Tx struct {
	store haulier.Store
	now   time.Time
	jobs  map[haulier.ID]*entry
	order []haulier.ID // of jobs that are to be written
	docs  map[docName]*doc
	names []docName // of docs, in order of their first change
	rest  []Rest    // effects that are still to come
	left  int       // jobs that may yet be touched
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

// Begin returns an empty transaction at a time of the store's clock.
func Begin(store haulier.Store, now time.Time) *Tx {
	return &Tx{store: store, now: now.UTC().Truncate(time.Microsecond), jobs: map[haulier.ID]*entry{}, docs: map[docName]*doc{}, left: room}
}

// Flush adds the transaction's writes to b, and returns the key of the document that says
// what is left to do, "" when nothing is.
func (t *Tx) Flush(b *haulier.Batch) (work string, err error) {
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
	if len(t.rest) == 0 {
		return "", nil
	}
	w, err := json.Marshal(Work{Op: WorkOp, Rest: t.rest})
	if err != nil {
		return "", err
	}
	work = haulier.NewID(t.now).String()
	b.Docs = append(b.Docs, haulier.DocWrite{Kind: haulier.DocWork, Key: work, Expect: 0, Value: w})
	return work, nil
}

// Job returns a job as the transaction leaves it; nil: there is none. It is not to be changed.
func (t *Tx) Job(ctx context.Context, id haulier.ID) (*haulier.Job, error) {
	if e, ok := t.jobs[id]; ok {
		return &e.job, nil
	}
	jobs, err := t.store.Jobs(ctx, []haulier.ID{id})
	if err != nil || jobs[0] == nil {
		return nil, err
	}
	return t.adopt(jobs[0]), nil
}

// adopt puts a job as it was read into the transaction.
func (t *Tx) adopt(j *haulier.Job) *haulier.Job {
	if e, ok := t.jobs[j.ID]; ok {
		return &e.job
	}
	e := &entry{job: *j, rev: j.Rev}
	t.jobs[j.ID] = e
	return &e.job
}

// Become moves a job on by an event, with all that follows from it.
func (t *Tx) Become(ctx context.Context, j *haulier.Job, ev haulier.Event) error {
	j = t.adopt(j)
	next, err := j.Next(ev, t.now)
	if err != nil {
		return err
	}
	return t.Set(ctx, j, next)
}

// Set gives a job the status that was decided elsewhere, with all that follows from it.
func (t *Tx) Set(ctx context.Context, j *haulier.Job, after haulier.Status) error {
	j = t.adopt(j)
	if err := t.set(ctx, j.ID, after); err != nil {
		return err
	}
	return t.settle(ctx)
}

// change is Become without the effects, for use within one.
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

// settle carries out effects until none is left or the commit is full.
func (t *Tx) settle(ctx context.Context) error {
	for len(t.rest) > 0 && t.left > 0 {
		r := t.rest[0]
		t.rest = t.rest[1:]
		more, err := t.effect(ctx, r)
		if err != nil {
			return err
		}
		if more != nil {
			t.rest = append([]Rest{*more}, t.rest...)
		}
	}
	return nil
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

// put changes a document that get or list has read; nil removes it.
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
	}
	d.value = value
}

// list returns up to limit documents whose key has the prefix and sorts after the given one, as the
// transaction leaves them.
func (t *Tx) list(ctx context.Context, kind haulier.DocKind, prefix, after string, limit int) ([]haulier.Doc, error) {
	var own []haulier.Doc
	gone := 0
	for _, n := range t.names {
		if n.kind != kind || !strings.HasPrefix(n.key, prefix) || n.key <= after {
			continue
		}
		if d := t.docs[n]; d.value != nil && d.rev == 0 {
			own = append(own, haulier.Doc{Kind: kind, Key: n.key, Value: d.value})
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

// merge puts two lists in order of their keys. When more may follow the first, what lies beyond its end is left out.
func merge(a, b []haulier.Doc, open bool) []haulier.Doc {
	end := ""
	if open && len(a) > 0 {
		end = a[len(a)-1].Key
	}
	for _, d := range b {
		if end != "" && d.Key > end {
			continue
		}
		at := len(a)
		for i := range a {
			if a[i].Key > d.Key {
				at = i
				break
			}
		}
		a = append(a, haulier.Doc{})
		copy(a[at+1:], a[at:])
		a[at] = d
	}
	return a
}

// decode reads a document of JSON; none leaves v as it is.
func decode(kind haulier.DocKind, key string, b []byte, v any) error {
	if b == nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%s %s: %w: %w", kind, key, haulier.ErrCorrupt, err)
	}
	return nil
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain structs of strings, numbers and times
	}
	return b
}
