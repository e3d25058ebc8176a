package storetest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/haulier/haulier"
)

// text is a job as comparable text: everything that a store must keep, in UTC.
func text(j *haulier.Job) string {
	if j == nil {
		return "none"
	}
	c := *j
	for _, t := range []*time.Time{&c.CreatedAt, &c.Spec.RunAt, &c.RetryUntil, &c.Status.RunAt, &c.UpdatedAt, &c.StartedAt, &c.FinishedAt, &c.PurgeAt} {
		if *t = t.UTC(); t.IsZero() {
			*t = time.Time{}
		}
	}
	c.History = slices.Clone(c.History)
	for i := range c.History {
		c.History[i].At = c.History[i].At.UTC()
	}
	b, err := json.Marshal(struct {
		Job          haulier.Job
		EarliestRun  time.Time
		RunAt        time.Time
		Payload      []byte
		Result       []byte
		LabelsLength int
	}{c, c.Spec.RunAt, c.Status.RunAt, c.Payload, c.Result, len(c.Labels)})
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func (f *fixture) same(got, want *haulier.Job) {
	f.t.Helper()
	if g, w := text(got), text(want); g != w {
		f.t.Fatalf("job is   %s\nwant it  %s", g, w)
	}
}

// docKinds are the kinds that snapshots look at.
var docKinds = []haulier.DocKind{
	haulier.DocSession, haulier.DocQueue, haulier.DocToken, haulier.DocRequest, haulier.DocWork, haulier.DocLog, haulier.DocBlobRef, "other",
}

// snapshot is all that a store says of itself, as text that can be compared.
func (f *fixture) snapshot() string {
	f.t.Helper()
	var b bytes.Buffer
	for _, j := range f.list(haulier.Query{}) {
		fmt.Fprintln(&b, "job", text(j))
	}
	for _, s := range haulier.States {
		for _, j := range f.list(haulier.Query{State: s}) {
			fmt.Fprintln(&b, s, j.ID)
		}
	}
	for _, c := range f.counts() {
		fmt.Fprintln(&b, "count", c.Lane, c.State, c.N)
	}
	for _, h := range f.bands() {
		fmt.Fprintln(&b, "band", h.Lane, h.Priority, h.N)
	}
	for _, kind := range docKinds {
		for _, d := range f.docs(kind, "") {
			fmt.Fprintf(&b, "doc %s %s %d %q\n", d.Kind, d.Key, d.Rev, d.Value)
		}
	}
	return b.String()
}

// counts are the store's counts other than zero, sorted.
func (f *fixture) counts() []haulier.Count {
	f.t.Helper()
	counts, err := f.s.Counts(f.ctx)
	f.must(err)
	counts = slices.DeleteFunc(counts, func(c haulier.Count) bool { return c.N == 0 })
	slices.SortFunc(counts, func(a, b haulier.Count) int {
		return cmp.Or(compareLanes(a.Lane, b.Lane), cmp.Compare(a.State, b.State))
	})
	return counts
}

// bands are the store's bands, sorted.
func (f *fixture) bands() []haulier.BandHead {
	f.t.Helper()
	heads, err := f.s.Bands(f.ctx)
	f.must(err)
	slices.SortFunc(heads, func(a, b haulier.BandHead) int {
		return cmp.Or(compareLanes(a.Lane, b.Lane), cmp.Compare(a.Priority, b.Priority))
	})
	return heads
}

func (f *fixture) docs(kind haulier.DocKind, prefix string) []haulier.Doc {
	f.t.Helper()
	docs, err := f.s.Docs(f.ctx, kind, prefix, "", 100_000)
	f.must(err)
	return docs
}

func compareLanes(a, b haulier.Lane) int {
	return a.Compare(b)
}

func compareIDs(a, b haulier.ID) int { return bytes.Compare(a[:], b[:]) }

// indexOrder compares jobs of one state as its index orders them within a lane. Terminal
// ones come the newest first.
func indexOrder(a, b *haulier.Job) int {
	switch {
	case a.State == haulier.Pending:
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Status.RunAt.Compare(b.Status.RunAt), compareIDs(a.ID, b.ID))
	case a.State == haulier.Scheduled:
		return cmp.Or(a.Status.RunAt.Compare(b.Status.RunAt), compareIDs(a.ID, b.ID))
	case a.State.Owned():
		return cmp.Or(compareIDs(a.Session, b.Session), compareIDs(a.ID, b.ID))
	case a.State.Terminal():
		return -cmp.Or(a.PurgeAt.Compare(b.PurgeAt), compareIDs(a.ID, b.ID))
	}
	return compareIDs(a.ID, b.ID)
}

// byLane says whether the index of the state begins with the lane, so that the order between lanes is the driver's.
func byLane(s haulier.State) bool { return s == haulier.Pending || s.Terminal() }
