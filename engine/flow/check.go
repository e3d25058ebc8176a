package flow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/haulier/haulier"
)

// Check holds the documents of flow in a store at rest against its jobs.
//
// It is told of each job by Add, and of each work document by Work, before Run.
type Check struct {
	store haulier.Store
	now   time.Time
	found func(ctx context.Context, f Fault) error

	holders map[string][]haulier.ID // by lock, jobs that hold it
	inLine  int64                   // jobs that wait at a key
	waiting map[string]int          // by lock, documents of those who wait
	placed  int64                   // of these, those that are right
	mended  map[string]bool         // by lock, whether its line was repaired
	gone    map[haulier.ID]bool     // jobs that were removed, of which those that need them are still to be told
}

// NewCheck begins a check. What is found is told to found, which may have it repaired at once.
func NewCheck(store haulier.Store, now time.Time, found func(ctx context.Context, f Fault) error) *Check {
	return &Check{
		store: store, now: now, found: found,
		holders: map[string][]haulier.ID{}, waiting: map[string]int{}, mended: map[string]bool{}, gone: map[haulier.ID]bool{},
	}
}

// Fault is a document that is not as the jobs say, or a job without one.
type Fault struct {
	What, Of, Text string
	Repair         func(ctx context.Context, b *haulier.Batch) error // adds what puts it right to b; nil: nothing can
}

const docsAtOnce = 200

// Add notes a job.
func (c *Check) Add(j *haulier.Job) {
	for _, key := range heldBy(&j.Status) {
		name := lockKey(j.Tenant, key)
		c.holders[name] = append(c.holders[name], j.ID)
	}
	if inLine(j) {
		c.inLine++
	}
}

// Work notes a work document of flow.
func (c *Check) Work(d *haulier.Doc) error {
	var w Work
	if err := json.Unmarshal(d.Value, &w); err != nil {
		return err
	}
	for _, r := range w.Rest {
		if r.Do == doGone {
			c.gone[r.Job] = true
		}
	}
	return nil
}

// inLine reports whether a job waits at a key, where a document must say so.
func inLine(j *haulier.Job) bool {
	return gateOf(&j.Status) != "" && (j.State == haulier.Blocked || j.State == haulier.Scheduled)
}

// Run looks through the documents. Those of locks and lines come in an order in which each repair builds on those before.
func (c *Check) Run(ctx context.Context) error {
	if err := c.each(ctx, DocWaiter, c.waiter); err != nil {
		return err
	}
	if c.placed != c.inLine {
		if err := c.missing(ctx); err != nil {
			return err
		}
	}
	if err := c.each(ctx, DocLock, c.lock); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(c.holders)) {
		if err := c.noLock(ctx, name); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.waiting)) {
		if err := c.noLock(ctx, name); err != nil {
			return err
		}
	}
	for kind, look := range map[haulier.DocKind]func(context.Context, []haulier.Doc) error{
		DocNeed: c.need, DocUnique: c.kept, DocMemo: c.kept, DocNewest: c.kept, DocCollapse: c.collapse, DocFrozen: c.frozen,
	} {
		if err := c.each(ctx, kind, look); err != nil {
			return err
		}
	}
	return nil
}

// each calls look for all documents of a kind, some at a time.
func (c *Check) each(ctx context.Context, kind haulier.DocKind, look func(context.Context, []haulier.Doc) error) error {
	for after := ""; ; {
		docs, err := c.store.Docs(ctx, kind, "", after, docsAtOnce)
		if err != nil || len(docs) == 0 {
			return err
		}
		after = docs[len(docs)-1].Key
		if err := look(ctx, docs); err != nil {
			return err
		}
	}
}

// removing is the repair of a document that nothing needs.
func removing(d haulier.Doc) func(context.Context, *haulier.Batch) error {
	return func(_ context.Context, b *haulier.Batch) error {
		b.Docs = append(b.Docs, haulier.DocWrite{Kind: d.Kind, Key: d.Key, Expect: d.Rev})
		return nil
	}
}

func (c *Check) orphan(ctx context.Context, d haulier.Doc, text string) error {
	return c.found(ctx, Fault{What: string(d.Kind), Of: d.Key, Text: text, Repair: removing(d)})
}

func (c *Check) waiter(ctx context.Context, docs []haulier.Doc) error {
	ids := make([]haulier.ID, len(docs))
	for i := range docs {
		copy(ids[i][:], docs[i].Value)
	}
	jobs, err := c.store.Jobs(ctx, ids)
	if err != nil {
		return err
	}
	for i, d := range docs {
		name := d.Key[:max(strings.LastIndexByte(d.Key, '/'), 0)]
		j := jobs[i]
		if j != nil && inLine(j) && d.Key == lockKey(j.Tenant, j.Gate)+"/"+order(j) {
			c.placed++
			c.waiting[name]++
			continue
		}
		text := fmt.Sprintf("job %v has a place in a line, and does not wait there", ids[i])
		if j == nil {
			text = fmt.Sprintf("job %v has a place in a line, and does not exist", ids[i])
		}
		if err := c.orphan(ctx, d, text); err != nil {
			return err
		}
		if _, err := c.store.Doc(ctx, d.Kind, d.Key); err == nil {
			c.waiting[name]++ // it was not repaired: its lock counts it
		}
	}
	return nil
}

// missing finds the jobs that wait at a key without a place in the line there.
func (c *Check) missing(ctx context.Context) error {
	for _, state := range []haulier.State{haulier.Blocked, haulier.Scheduled} {
		for cursor := ""; ; {
			page, err := c.store.List(ctx, haulier.Query{State: state, Cursor: cursor, Limit: docsAtOnce})
			if err != nil {
				return err
			}
			for _, j := range page.Jobs {
				if err := c.inPlace(ctx, j); err != nil {
					return err
				}
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
	}
	return nil
}

func (c *Check) inPlace(ctx context.Context, j *haulier.Job) error {
	if !inLine(j) {
		return nil
	}
	name := lockKey(j.Tenant, j.Gate)
	_, err := c.store.Doc(ctx, DocWaiter, name+"/"+order(j))
	if !errors.Is(err, haulier.ErrNotFound) {
		return err
	}
	err = c.found(ctx, Fault{What: "waiter", Of: j.ID.String(), Text: fmt.Sprintf("waits at the key %s without a place in the line there", j.Gate),
		Repair: func(_ context.Context, b *haulier.Batch) error {
			b.Docs = append(b.Docs, haulier.DocWrite{Kind: DocWaiter, Key: name + "/" + order(j), Value: j.ID[:]})
			c.mended[name] = true
			return nil
		}})
	if err != nil {
		return err
	}
	if _, err := c.store.Doc(ctx, DocWaiter, name+"/"+order(j)); err == nil {
		c.waiting[name]++
	}
	return nil
}

func (c *Check) lock(ctx context.Context, docs []haulier.Doc) error {
	for _, d := range docs {
		var l Lock
		corrupt := decode(DocLock, d.Key, d.Value, &l)
		held, waiting := c.holders[d.Key], c.waiting[d.Key]
		delete(c.holders, d.Key)
		delete(c.waiting, d.Key)
		called, err := c.called(ctx, d.Key, l.Called)
		if err != nil {
			return err
		}
		text := ""
		switch {
		case corrupt != nil:
			text = "its bytes do not decode"
		case l.Held != len(held):
			text = fmt.Sprintf("says that %d jobs hold the key, and %d do", l.Held, len(held))
		case slices.ContainsFunc(l.Holders, func(id haulier.ID) bool { return !slices.Contains(held, id) }):
			text = "names a holder that does not hold the key"
		case l.Waiting != waiting:
			text = fmt.Sprintf("says that %d jobs wait at the key, and %d do", l.Waiting, waiting)
		case len(called) != len(l.Called):
			text = "gives the right of way to a job that does not wait for the key"
		case c.mended[d.Key]:
			text = "was told nothing of the places in its line that were missing"
		default:
			continue
		}
		l.Called = called
		if err := c.mend(ctx, d, l, held, waiting, text); err != nil {
			return err
		}
	}
	return nil
}

// called are those of the calls at a lock that are of jobs which were called there.
func (c *Check) called(ctx context.Context, name string, calls []Call) ([]Call, error) {
	ids := make([]haulier.ID, len(calls))
	for i := range calls {
		ids[i] = calls[i].Job
	}
	jobs, err := c.store.Jobs(ctx, ids)
	if err != nil {
		return nil, err
	}
	var out []Call
	for i, j := range jobs {
		if j != nil && !j.State.Terminal() && gateOf(&j.Status) != "" && lockKey(j.Tenant, j.Gate) == name {
			out = append(out, calls[i])
		}
	}
	return out, nil
}

// noLock tells of a key that jobs hold, or wait at, without a document.
func (c *Check) noLock(ctx context.Context, name string) error {
	held, waiting := c.holders[name], c.waiting[name]
	delete(c.holders, name)
	delete(c.waiting, name)
	if len(held) == 0 && waiting == 0 {
		return nil
	}
	text := fmt.Sprintf("does not exist, though %d jobs hold the key and %d wait there", len(held), waiting)
	return c.mend(ctx, haulier.Doc{Kind: DocLock, Key: name}, Lock{}, held, waiting, text)
}

// mend tells of a lock, which is to be as the jobs say, and whose line is to move on.
func (c *Check) mend(ctx context.Context, d haulier.Doc, l Lock, held []haulier.ID, waiting int, text string) error {
	return c.found(ctx, Fault{What: "lock", Of: d.Key, Text: text, Repair: func(_ context.Context, b *haulier.Batch) error {
		l.Held, l.Holders, l.Waiting, l.Gone = len(held), held[:min(len(held), shown)], waiting, ""
		tenant, key, _ := strings.Cut(d.Key, "/")
		t := Begin(c.store, c.now)
		t.docs[docName{DocLock, d.Key}] = &doc{value: d.Value, rev: d.Rev}
		t.put(DocLock, d.Key, l.encode(c.now))
		t.noteRest([]Rest{{Do: doPromote, Tenant: tenant, Key: key}})
		t.write(b)
		return nil
	}})
}

// jobsOf reads the jobs that documents name.
func (c *Check) jobsOf(ctx context.Context, docs []haulier.Doc, id func(*haulier.Doc) (haulier.ID, error)) ([]*haulier.Job, error) {
	ids := make([]haulier.ID, len(docs))
	for i := range docs {
		var err error
		if ids[i], err = id(&docs[i]); err != nil {
			if err := c.orphan(ctx, docs[i], "its bytes do not decode"); err != nil {
				return nil, err
			}
		}
	}
	return c.store.Jobs(ctx, ids)
}

// need looks whether the jobs are there that others need. Without them, those would wait for ever.
func (c *Check) need(ctx context.Context, docs []haulier.Doc) error {
	parents, err := c.jobsOf(ctx, docs, func(d *haulier.Doc) (haulier.ID, error) {
		parent, _, _ := strings.Cut(d.Key, "/")
		if _, err := parseEdge(*d); err != nil {
			return haulier.NilID, err
		}
		return haulier.ParseID(parent)
	})
	if err != nil {
		return err
	}
	for i, d := range docs {
		e, err := parseEdge(d)
		parent, bad := haulier.ParseID(d.Key[:max(strings.IndexByte(d.Key, '/'), 0)])
		if err != nil || bad != nil || parents[i] != nil || c.gone[parent] {
			continue
		}
		c.gone[parent] = true // told for all that need it
		err = c.found(ctx, Fault{What: "need", Of: d.Key, Text: fmt.Sprintf("job %v needs job %v, which does not exist; it counts as cancelled now", e.child, parent),
			Repair: func(_ context.Context, b *haulier.Batch) error {
				t := Begin(c.store, c.now)
				t.noteRest([]Rest{{Do: doGone, Job: parent, State: haulier.Cancelled}})
				t.write(b)
				return nil
			}})
		if err != nil {
			return err
		}
	}
	return nil
}

// kept looks whether the jobs are there that have a key.
func (c *Check) kept(ctx context.Context, docs []haulier.Doc) error {
	return c.named(ctx, docs, func(d *haulier.Doc) (haulier.ID, error) {
		var k kept
		return k.Job, decode(d.Kind, d.Key, d.Value, &k)
	}, func(*haulier.Doc, *haulier.Job) bool { return true })
}

func (c *Check) frozen(ctx context.Context, docs []haulier.Doc) error {
	return c.named(ctx, docs, func(d *haulier.Doc) (haulier.ID, error) {
		return haulier.ParseID(d.Key[strings.LastIndexByte(d.Key, '/')+1:])
	}, func(d *haulier.Doc, j *haulier.Job) bool { return frozenKey(j, frozenBy(&j.Status)) == d.Key })
}

// named tells of documents whose job is not there, or is not as it should be.
func (c *Check) named(ctx context.Context, docs []haulier.Doc, id func(*haulier.Doc) (haulier.ID, error), right func(*haulier.Doc, *haulier.Job) bool) error {
	jobs, err := c.jobsOf(ctx, docs, id)
	if err != nil {
		return err
	}
	for i := range docs {
		if _, err := id(&docs[i]); err != nil || jobs[i] != nil && right(&docs[i], jobs[i]) {
			continue
		}
		if err := c.orphan(ctx, docs[i], "names a job that does not exist, or does not belong there"); err != nil {
			return err
		}
	}
	return nil
}

// collapse looks whether the newest job of a key is there. None is named when it was removed, and older ones were left.
func (c *Check) collapse(ctx context.Context, docs []haulier.Doc) error {
	newest := func(d *haulier.Doc) (haulier.ID, error) {
		var l line
		return l.Job, decode(d.Kind, d.Key, d.Value, &l)
	}
	return c.named(ctx, slices.DeleteFunc(slices.Clone(docs), func(d haulier.Doc) bool {
		var l line
		return json.NewDecoder(bytes.NewReader(d.Value)).Decode(&l) == nil && (l.Job.IsNil() || len(l.Older) > 0)
	}), newest, func(*haulier.Doc, *haulier.Job) bool { return true })
}
