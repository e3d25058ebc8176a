package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/haulier/haulier"
)

// Options of what moves a store.
type Options struct {
	// Kinds are those of all documents that there may be; haulier.DocCopy is passed over.
	Kinds []haulier.DocKind
	// Source names where the records come from: an unfinished copy is gone on with when the name is the same. Import needs none.
	Source string
	// Progress is told now and then how far it has come, from one goroutine. Nil: nobody.
	Progress func(Progress)
}

// Progress is how far it has come.
type Progress struct {
	Verifying  bool // all is there, and is read once more
	Jobs, Docs int64
	Of         int64 // jobs; 0: it is not known
}

func (o *Options) tell(p Progress) {
	if o.Progress != nil {
		o.Progress(p)
	}
}

// Result is what was moved.
type Result struct {
	Sum
	Resumed bool `json:"resumed,omitempty"` // it went on with what an earlier one had begun
}

// Copy moves all that is in one store to another, which must be empty or have an unfinished copy from the same source. It may
// be interrupted at any point. ErrConflict: the target has something else in it. ErrCorrupt: what arrived is not what left.
func Copy(ctx context.Context, from, to haulier.Store, o Options) (Result, error) {
	src := &storeSource{store: from, kinds: kindsOf(o.Kinds)}
	if err := src.check(ctx); err != nil {
		return Result{}, err
	}
	of, err := jobsIn(ctx, from)
	if err != nil {
		return Result{}, err
	}
	return move(ctx, src, to, of, o)
}

// kindsOf is the order in which documents are moved: those of a copy under way stay.
func kindsOf(kinds []haulier.DocKind) []haulier.DocKind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k haulier.DocKind) bool { return k == haulier.DocCopy })
}

func jobsIn(ctx context.Context, s haulier.Store) (n int64, err error) {
	counts, err := s.Counts(ctx)
	for _, c := range counts {
		n += c.N
	}
	return n, err
}

// source is where records come from.
type source interface {
	// pages calls f with all records from a place on; next is the place behind the page.
	pages(ctx context.Context, from place, f func(page []record, next place) error) error
	// sum is that of all records.
	sum(ctx context.Context) (Sum, error)
}

// place is a position among the records of a source. The zero place is the first.
type place struct {
	Stage string `json:"stage,omitempty"` // a kind of document, or one of those below
	After []byte `json:"after,omitempty"` // key or cursor behind which it lies
	Skip  int    `json:"skip,omitempty"`  // so many records further on
}

// Stages that are no kinds of document.
const (
	stageJobs = "/jobs"
	stageEnd  = "/end"
)

// The sizes of pages: few enough that the largest records fit into memory.
const (
	docsAPage = 200
	jobsAPage = 500
)

// storeSource reads a store: documents by kind, then jobs, so that a job never comes before its session.
type storeSource struct {
	store haulier.Store
	kinds []haulier.DocKind
}

// check refuses a store that is itself an unfinished copy.
func (s *storeSource) check(ctx context.Context) error {
	_, err := s.store.Doc(ctx, haulier.DocCopy, haulier.CopyKey)
	switch {
	case err == nil:
		return fmt.Errorf("source: %w: it is the target of a copy or import that is not complete", haulier.ErrConflict)
	case errors.Is(err, haulier.ErrNotFound):
		return nil
	}
	return fmt.Errorf("source: %w", err)
}

func (s *storeSource) pages(ctx context.Context, from place, f func([]record, place) error) error {
	if from.Stage == stageEnd {
		return nil
	}
	first := slices.Index(s.kinds, haulier.DocKind(from.Stage))
	if from.Stage == "" {
		first = 0
	}
	if from.Stage == stageJobs {
		first = len(s.kinds)
	}
	if first < 0 {
		return fmt.Errorf("%w: the copy was begun by another version of this program, which knows documents of kind %q: go on with that", haulier.ErrConflict, from.Stage)
	}
	after := string(from.After)
	for _, kind := range s.kinds[first:] {
		if err := s.docs(ctx, kind, after, f); err != nil {
			return fmt.Errorf("documents of kind %s: %w", kind, err)
		}
		after = ""
	}
	return s.jobs(ctx, after, f)
}

func (s *storeSource) docs(ctx context.Context, kind haulier.DocKind, after string, f func([]record, place) error) error {
	for {
		docs, err := s.store.Docs(ctx, kind, "", after, docsAPage)
		if err != nil || len(docs) == 0 {
			return err
		}
		page := make([]record, len(docs))
		for i := range docs {
			page[i].doc = docs[i]
			after = docs[i].Key
		}
		if err := f(page, place{Stage: string(kind), After: []byte(after)}); err != nil {
			return err
		}
	}
}

func (s *storeSource) jobs(ctx context.Context, cursor string, f func([]record, place) error) error {
	for {
		jobs, err := s.store.List(ctx, haulier.Query{Cursor: cursor, Limit: jobsAPage})
		if err != nil {
			return fmt.Errorf("jobs: %w", err)
		}
		page := make([]record, len(jobs.Jobs))
		for i, j := range jobs.Jobs {
			page[i].job = j
		}
		next := place{Stage: stageJobs, After: []byte(jobs.Next)}
		if jobs.Next == "" {
			next = place{Stage: stageEnd}
		}
		if err := f(page, next); err != nil || jobs.Next == "" {
			return err
		}
		cursor = jobs.Next
	}
}

func (s *storeSource) sum(ctx context.Context) (Sum, error) { return s.sumTold(ctx, nil) }

// sumTold is sum, and says how far it has come.
func (s *storeSource) sumTold(ctx context.Context, told func(*tally)) (Sum, error) {
	t := newTally()
	err := s.pages(ctx, place{}, func(page []record, _ place) error {
		for i := range page {
			t.add(&page[i])
		}
		if told != nil {
			told(t)
		}
		return nil
	})
	return t.sum(), err
}

// move writes all records of a source into a store, and compares what is there afterwards with the source.
func move(ctx context.Context, src source, to haulier.Store, of int64, o Options) (Result, error) {
	w, err := newWriter(ctx, to, o)
	if err != nil {
		return Result{}, fmt.Errorf("target: %w", err)
	}
	resumed := w.rev > 0
	err = src.pages(ctx, w.At, func(page []record, next place) error {
		if err := w.page(ctx, page, next); err != nil {
			return fmt.Errorf("target: %w", err)
		}
		o.tell(Progress{Jobs: w.Jobs, Docs: w.Docs, Of: of})
		return nil
	})
	if err != nil {
		return Result{}, err
	}
	sum, err := verify(ctx, src, to, o)
	if err == nil {
		err = w.close(ctx)
	}
	return Result{Sum: sum, Resumed: resumed}, err
}

// verify compares all records of the target, and the counts that it keeps, with those of the source.
func verify(ctx context.Context, src source, to haulier.Store, o Options) (want Sum, err error) {
	var got Sum
	var kept []haulier.Count
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		want, err = src.sum(ctx)
		return err
	})
	g.Go(func() (err error) {
		target := &storeSource{store: to, kinds: kindsOf(o.Kinds)}
		got, err = target.sumTold(ctx, func(t *tally) {
			p := Progress{Verifying: true, Jobs: t.jobs}
			for _, n := range t.docs {
				p.Docs += n
			}
			o.tell(p)
		})
		if err == nil {
			kept, err = to.Counts(ctx)
		}
		return err
	})
	if err := g.Wait(); err != nil {
		return want, fmt.Errorf("verify: %w", err)
	}
	if err = compare(&want, &got); err != nil {
		return want, fmt.Errorf("verify: %w: did somebody write to one of them meanwhile? Empty the target, and begin again", err)
	}
	if err = compareCounts(want.States, kept); err != nil {
		return want, fmt.Errorf("verify: the counts that the target keeps: %w", err)
	}
	return want, nil
}

// underWay is the document of a copy that is not complete. Each commit of the copy writes it; so two copies into one
// store do not mix, and where one ended by force the next goes on.
type underWay struct {
	Source string `json:"source"` // SHA-256 of its name
	At     place  `json:"at"`
	Jobs   int64  `json:"jobs"` // that were written
	Docs   int64  `json:"docs"`
}

// The bounds of a commit. Stores that take less at once say so, and get less from then on.
const (
	mostRecords = 500
	mostBytes   = 1 << 20
)

// writer puts records into a store.
type writer struct {
	underWay
	to   haulier.Store
	rev  uint64 // of the document; 0: there is none yet
	most int    // records of a commit
}

// newWriter begins a copy, or goes on with one of the same source.
func newWriter(ctx context.Context, to haulier.Store, o Options) (*writer, error) {
	name := sha256.Sum256([]byte(o.Source))
	w := &writer{to: to, most: mostRecords, underWay: underWay{Source: hex.EncodeToString(name[:])}}
	d, err := to.Doc(ctx, haulier.DocCopy, haulier.CopyKey)
	if errors.Is(err, haulier.ErrNotFound) {
		return w, empty(ctx, to, o.Kinds)
	}
	if err != nil {
		return nil, err
	}
	var old underWay
	if err := json.Unmarshal(d.Value, &old); err != nil {
		return nil, fmt.Errorf("document of the copy: %w: %w: empty the store, and begin again", haulier.ErrCorrupt, err)
	}
	if old.Source != w.Source {
		return nil, fmt.Errorf("%w: it has an unfinished copy from another source in it: complete that, or empty the store", haulier.ErrConflict)
	}
	w.underWay, w.rev = old, d.Rev
	return w, nil
}

// empty is ErrConflict when there is something in the store.
func empty(ctx context.Context, s haulier.Store, kinds []haulier.DocKind) error {
	for _, kind := range kinds {
		docs, err := s.Docs(ctx, kind, "", "", 1)
		if err != nil {
			return err
		}
		if len(docs) > 0 {
			return fmt.Errorf("%w: it is not empty: it has documents of kind %s, such as %q; choose a new store", haulier.ErrConflict, kind, docs[0].Key)
		}
	}
	for cursor := ""; ; {
		page, err := s.List(ctx, haulier.Query{Cursor: cursor, Limit: 1})
		if err != nil {
			return err
		}
		if len(page.Jobs) > 0 {
			return fmt.Errorf("%w: it is not empty: it has jobs, such as %v; choose a new store", haulier.ErrConflict, page.Jobs[0].ID)
		}
		if cursor = page.Next; cursor == "" {
			return nil
		}
	}
}

// page writes the records of a page that are not there yet, in as many commits as it needs.
func (w *writer) page(ctx context.Context, page []record, next place) error {
	if w.At.Skip > len(page) { // pages were larger when the copy was begun
		skip := w.At.Skip - len(page)
		w.At = next
		w.At.Skip = skip
		return nil
	}
	for page = page[w.At.Skip:]; len(page) > 0; {
		n := w.fitting(page)
		state := w.underWay
		state.At.Skip += n
		if n == len(page) {
			state.At = next
		}
		err := w.commit(ctx, page[:n], state)
		if errors.Is(err, haulier.ErrTooLarge) && n > 1 {
			w.most = n / 2
			continue
		}
		if err != nil {
			return err
		}
		page = page[n:]
	}
	w.At = next
	return nil
}

// fitting is how many of the records go into one commit.
func (w *writer) fitting(page []record) int {
	n, bytes := 0, 0
	for n < min(len(page), w.most) {
		if bytes += page[n].size(); n > 0 && bytes > mostBytes {
			break
		}
		n++
	}
	return n
}

func (w *writer) commit(ctx context.Context, some []record, state underWay) error {
	b := haulier.Batch{CheckIDs: true}
	for i := range some {
		r := &some[i]
		if r.job != nil {
			b.Insert = append(b.Insert, *r.job)
			state.Jobs++
			continue
		}
		state.Docs++
		d := haulier.DocWrite{Kind: r.doc.Kind, Key: r.doc.Key, Value: r.doc.Value}
		if d.Value == nil {
			d.Value = []byte{} // nil would remove it
		}
		if d.Kind == haulier.DocSession {
			d.Lease = leaseOf(d.Value)
		}
		b.Docs = append(b.Docs, d)
	}
	v, err := json.Marshal(state)
	if err != nil {
		return err
	}
	b.Docs = append(b.Docs, haulier.DocWrite{Kind: haulier.DocCopy, Key: haulier.CopyKey, Expect: w.rev, Value: v})
	if err := w.to.Commit(ctx, &b); err != nil {
		if errors.Is(err, haulier.ErrConflict) {
			err = fmt.Errorf("%w: somebody else writes to it", err)
		}
		return err
	}
	w.underWay = state
	w.rev++
	return nil
}

// leaseOf is the lease that a session's document asks for. It begins anew with the copy, as it does when a store is opened again.
func leaseOf(value []byte) time.Duration {
	var s haulier.Session
	if json.Unmarshal(value, &s) != nil || s.Lease <= 0 {
		return haulier.DefaultLease
	}
	return time.Duration(s.Lease)
}

// close says that the copy is complete, durably with all that it wrote.
func (w *writer) close(ctx context.Context) error {
	b := haulier.Batch{Sync: true}
	if w.rev > 0 {
		b.Docs = []haulier.DocWrite{{Kind: haulier.DocCopy, Key: haulier.CopyKey, Expect: w.rev}}
	}
	if err := w.to.Commit(ctx, &b); err != nil {
		return fmt.Errorf("target: %w", err)
	}
	return nil
}
