package storetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/store/mem"
)

// history does the same to a driver and to the model, and compares what they answer.
type history struct {
	t        *rapid.T
	driver   *fixture
	model    *fixture
	reopen   func() haulier.Store // nil: it can't
	now      time.Time
	ids      []haulier.ID // of all jobs that were ever inserted
	sessions []haulier.ID
}

var (
	historyLanes = []haulier.Lane{
		lane("a", "q", "x"), lane("a", "q", "y"), lane("ab", "q", "x"), {Tenant: "a", Queue: "q", Type: "x", Kind: haulier.KindExec},
		{Tenant: "a", Queue: "q", Type: "x", Kind: haulier.KindGo, RunsOn: "gpu=true"},
	}
	historyKeys = []string{"a", "a/1", "a/2", "b", "a0"}
	historyTime = []time.Duration{
		-3 * time.Hour, -2 * time.Hour, -2*time.Hour + time.Microsecond, -time.Hour, 0, 24 * time.Hour, 48 * time.Hour, 1000 * time.Hour,
	}
)

// maxStores bounds how many stores the search for a short history may spoil.
const maxStores = 10

// testHistories runs random histories over a store that is emptied after each; one that does
// not get empty is left, and the next history has a new one.
func testHistories(t *testing.T, open func(t *testing.T) haulier.Store) {
	var s haulier.Store
	opened := 0
	rapid.Check(t, func(rt *rapid.T) {
		if s == nil {
			if opened++; opened > maxStores {
				rt.Skip("too many stores are spoilt")
			}
			s = open(t)
		}
		defer func() {
			if !empty(t.Context(), s) {
				_ = s.Close()
				s = nil
			}
		}()
		runHistory(t, rt, s, nil)
	})
	if s != nil {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

// empty removes all that is in a store, and says whether it then is empty.
func empty(ctx context.Context, s haulier.Store) bool {
	for range 1000 {
		page, err := s.List(ctx, haulier.Query{Limit: 500})
		if err != nil {
			return false
		}
		var b haulier.Batch
		for _, j := range page.Jobs {
			b.Delete = append(b.Delete, haulier.JobDelete{ID: j.ID, Expect: j.Rev})
		}
		for _, kind := range docKinds {
			docs, err := s.Docs(ctx, kind, "", "", 100)
			if err != nil {
				return false
			}
			for _, d := range docs {
				b.Docs = append(b.Docs, haulier.DocWrite{Kind: kind, Key: d.Key, Expect: haulier.AnyRev})
			}
		}
		if len(b.Delete)+len(b.Docs) == 0 {
			break
		}
		if s.Commit(ctx, &b) != nil {
			return false
		}
	}
	counts, err := s.Counts(ctx)
	bands, err2 := s.Bands(ctx)
	due, err3 := s.Due(ctx, 1)
	for _, c := range counts {
		if c.N != 0 {
			return false
		}
	}
	return err == nil && err2 == nil && err3 == nil && len(bands)+len(due.Timers)+len(due.Purge)+len(due.Sessions) == 0
}

// testReopening runs random histories over stores that are closed and opened on the way.
func testReopening(t *testing.T, open opener) {
	base := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(base, "")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		reopen := func() haulier.Store { return open(t, dir) }
		h := runHistory(t, rt, reopen(), reopen)
		if err := h.driver.s.Close(); err != nil {
			rt.Fatalf("close: %v", err)
		}
	})
}

func runHistory(t *testing.T, rt *rapid.T, s haulier.Store, reopen func() haulier.Store) *history {
	h := &history{t: rt, driver: wrap(rt, t.Context(), s), model: wrap(rt, t.Context(), mem.New()), reopen: reopen}
	h.now = h.model.now
	actions := map[string]func(*rapid.T){
		"":             h.compare,
		"insert":       h.insert,
		"insert again": h.insertAgain,
		"change":       h.change,
		"claim":        h.claim,
		"documents":    h.documents,
		"session":      h.session,
		"list":         h.listings,
		"due":          h.due,
	}
	whole := false
	if reopen != nil {
		defer func() {
			if !whole {
				_ = h.driver.s.Close()
			}
		}()
		actions["reopen"] = h.closeAndOpen
	}
	rt.Repeat(actions)
	for _, f := range []*fixture{h.model, h.driver} {
		Check(f.ctx, rt, f.s)
	}
	if d, m := h.driver.snapshotOf(h.sessions), h.model.snapshotOf(h.sessions); d != m {
		rt.Fatalf("the driver says\n%s\nthe model\n%s", d, m)
	}
	whole = true
	return h
}

// agree compares errors by what callers branch on.
func (h *history) agree(what string, driver, model error) {
	h.t.Helper()
	for _, kind := range []error{haulier.ErrConflict, haulier.ErrLeaseLost, haulier.ErrNotFound, haulier.ErrInvalid, haulier.ErrUnavailable} {
		if errors.Is(driver, kind) != errors.Is(model, kind) {
			h.t.Fatalf("%s: the driver says %v, the model %v", what, driver, model)
		}
	}
	if (driver == nil) != (model == nil) {
		h.t.Fatalf("%s: the driver says %v, the model %v", what, driver, model)
	}
}

func (h *history) commit(what string, b haulier.Batch) bool {
	h.t.Helper()
	err := h.driver.s.Commit(h.driver.ctx, &b)
	h.agree(what, err, h.model.s.Commit(h.model.ctx, &b))
	return err == nil
}

func (h *history) at(t *rapid.T) time.Time {
	return h.now.Add(rapid.SampledFrom(historyTime).Draw(t, "time"))
}

// state draws a state for a job, and puts it there.
func (h *history) state(t *rapid.T, s haulier.Status) haulier.Status {
	to := rapid.SampledFrom(haulier.States).Draw(t, "state")
	session := haulier.NilID
	if to.Owned() {
		if len(h.sessions) == 0 {
			to = haulier.Pending
		} else {
			session = rapid.SampledFrom(h.sessions).Draw(t, "session")
		}
	}
	return stateOf(s, to, h.at(t), session)
}

func (h *history) insert(t *rapid.T) {
	b := haulier.Batch{CheckIDs: rapid.Bool().Draw(t, "check ids")}
	for range rapid.IntRange(1, 4).Draw(t, "jobs") {
		j := h.model.job(rapid.SampledFrom(historyLanes).Draw(t, "lane"), priority(rapid.IntRange(-1, 1).Draw(t, "priority")))
		if rapid.Bool().Draw(t, "not pending") {
			j.Status = h.state(t, j.Status)
		} else {
			j.Status = stateOf(j.Status, haulier.Pending, h.at(t), haulier.NilID)
		}
		b.Insert = append(b.Insert, j)
	}
	h.with(t, &b, nil)
	if h.commit("insert", b) {
		h.ids = append(h.ids, idsOf(b.Insert)...)
	}
}

// insertAgain repeats the id of a job that is there.
func (h *history) insertAgain(t *rapid.T) {
	if len(h.ids) == 0 {
		t.Skip("no jobs")
	}
	j := h.model.job(rapid.SampledFrom(historyLanes).Draw(t, "lane"))
	j.ID = rapid.SampledFrom(h.ids).Draw(t, "id")
	if h.model.get(j.ID) == nil {
		t.Skip("it was removed, and ids of removed jobs do not come back")
	}
	h.commit("insert again", haulier.Batch{Insert: []haulier.Job{h.model.job(historyLanes[0]), j}, CheckIDs: true})
}

// change updates and removes some jobs in one batch, sometimes at a revision that does not hold.
func (h *history) change(t *rapid.T) {
	if len(h.ids) == 0 {
		t.Skip("no jobs")
	}
	var b haulier.Batch
	ids := rapid.SliceOfNDistinct(rapid.SampledFrom(h.ids), 1, 3, rapid.ID).Draw(t, "ids")
	for _, id := range ids {
		j := h.model.get(id)
		if j == nil {
			continue
		}
		rev := j.Rev
		if rapid.IntRange(0, 9).Draw(t, "stale") == 0 {
			rev--
		}
		switch rapid.IntRange(0, 5).Draw(t, "what") {
		case 0:
			b.Delete = append(b.Delete, haulier.JobDelete{ID: id, Expect: rev})
			continue
		case 1: // stays where it is
			next := j.Status
			next.Rev, next.Percent = j.Rev+1, next.Percent+1
			b.Update = append(b.Update, haulier.JobUpdate{Spec: &j.Spec, Expect: rev, Status: next})
		default:
			next := h.state(t, j.Status)
			next.Rev = j.Rev + 1
			b.Update = append(b.Update, haulier.JobUpdate{Spec: &j.Spec, Expect: rev, Status: next})
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "with an insert") == 0 {
		b.Insert = []haulier.Job{h.model.job(rapid.SampledFrom(historyLanes).Draw(t, "lane"))}
	}
	h.with(t, &b, nil)
	if h.commit("change", b) {
		h.ids = append(h.ids, idsOf(b.Insert)...)
	}
}

// with adds, to some batches, writes of documents and a sync.
func (h *history) with(t *rapid.T, b *haulier.Batch, keys []string) {
	if keys == nil && rapid.IntRange(0, 3).Draw(t, "with documents") == 0 {
		keys = rapid.SliceOfNDistinct(rapid.SampledFrom(historyKeys), 1, 2, rapid.ID).Draw(t, "keys")
	}
	for _, key := range keys {
		w := haulier.DocWrite{Kind: rapid.SampledFrom([]haulier.DocKind{"other", haulier.DocLog}).Draw(t, "kind"), Key: key}
		if rapid.IntRange(0, 3).Draw(t, "remove") > 0 {
			w.Value = []byte(rapid.StringN(0, 5, 20).Draw(t, "value"))
		}
		switch d, _ := h.model.s.Doc(h.model.ctx, w.Kind, key); rapid.IntRange(0, 4).Draw(t, "expect") {
		case 0:
			w.Expect = haulier.AnyRev
		case 1:
			w.Expect = d.Rev + 1
		default:
			w.Expect = d.Rev
		}
		if w.Value == nil && w.Expect == 0 {
			w.Expect = haulier.AnyRev // to remove what must not be there is not asked of a store
		}
		b.Docs = append(b.Docs, w)
	}
	b.Sync = rapid.IntRange(0, 7).Draw(t, "sync") == 0
}

func (h *history) documents(t *rapid.T) {
	var b haulier.Batch
	h.with(t, &b, rapid.SliceOfNDistinct(rapid.SampledFrom(historyKeys), 1, 3, rapid.ID).Draw(t, "keys"))
	h.commit("documents", b)
	for _, key := range historyKeys {
		d, derr := h.driver.s.Doc(h.driver.ctx, "other", key)
		m, merr := h.model.s.Doc(h.model.ctx, "other", key)
		h.agree("document "+key, derr, merr)
		if d.Rev != m.Rev || string(d.Value) != string(m.Value) {
			t.Fatalf("document %s: the driver says %+v, the model %+v", key, d, m)
		}
	}
}

// session opens one, writes its document again, ends or renews it.
func (h *history) session(t *rapid.T) {
	if len(h.sessions) == 0 || rapid.IntRange(0, 2).Draw(t, "open") == 0 {
		id := haulier.NewID(h.now)
		h.commit("open a session", haulier.Batch{Docs: []haulier.DocWrite{openSession(id, time.Hour)}})
		h.sessions = append(h.sessions, id)
		return
	}
	id := rapid.SampledFrom(h.sessions).Draw(t, "session")
	w := openSession(id, time.Hour)
	w.Expect = haulier.AnyRev
	switch rapid.IntRange(0, 2).Draw(t, "what") {
	case 0:
		w.Value = nil
		h.commit("end a session", haulier.Batch{Docs: []haulier.DocWrite{w}})
	case 1:
		h.commit("write a session", haulier.Batch{Docs: []haulier.DocWrite{w}})
	}
	h.agree("renew", h.driver.s.Renew(h.driver.ctx, id, time.Hour), h.model.s.Renew(h.model.ctx, id, time.Hour))
}

func (h *history) claim(t *rapid.T) {
	if len(h.sessions) == 0 {
		t.Skip("no sessions")
	}
	session := rapid.SampledFrom(h.sessions).Draw(t, "session")
	var takes []haulier.Take
	for range rapid.IntRange(1, 3).Draw(t, "takes") {
		takes = append(takes, take(rapid.SampledFrom(historyLanes).Draw(t, "lane"), rapid.IntRange(-1, 1).Draw(t, "priority"), rapid.IntRange(0, 4).Draw(t, "n")))
	}
	got, derr := h.driver.s.Claim(h.driver.ctx, session, "worker", takes)
	want, merr := h.model.s.Claim(h.model.ctx, session, "worker", takes)
	h.agree("claim", derr, merr)
	if !slices.Equal(idsOf(got), idsOf(want)) {
		t.Fatalf("the driver gave %v\nthe model %v", idsOf(got), idsOf(want))
	}
	for i := range got {
		if g, w := timeless(&got[i]), timeless(&want[i]); g != w {
			t.Fatalf("the driver gave %s\nthe model %s", g, w)
		}
	}
}

// timeless is a job as text, but for the times that a claim takes from the store's clock.
func timeless(j *haulier.Job) string {
	if j == nil {
		return "none"
	}
	c := *j
	c.UpdatedAt = time.Time{}
	c.History = slices.Clone(c.History)
	for i := range c.History {
		if c.History[i].State == haulier.Claimed {
			c.History[i].At = time.Time{}
		}
	}
	return text(&c)
}

// snapshotOf is all that the store says, but for the order of what it may order as it likes.
func (f *fixture) snapshotOf(sessions []haulier.ID) string {
	f.t.Helper()
	out := ""
	for _, j := range f.list(haulier.Query{}) {
		out += timeless(j) + "\n"
	}
	for _, s := range haulier.States {
		jobs := f.list(haulier.Query{State: s})
		if byLane(s) {
			slices.SortStableFunc(jobs, func(a, b *haulier.Job) int { return compareLanes(a.Lane(), b.Lane()) })
		}
		out += fmt.Sprintln(s, idsAt(jobs))
	}
	for _, id := range sessions {
		out += fmt.Sprintln(id, idsAt(f.list(haulier.Query{Session: id})))
	}
	for _, kind := range docKinds {
		for _, d := range f.docs(kind, "") {
			out += fmt.Sprintf("doc %s %s %d %q\n", d.Kind, d.Key, d.Rev, d.Value)
		}
	}
	return out
}

// compare looks, after each step, at what is cheap to read.
func (h *history) compare(t *rapid.T) {
	if d, m := fmt.Sprint(h.driver.counts()), fmt.Sprint(h.model.counts()); d != m {
		t.Fatalf("counts of the driver are %s\nof the model %s", d, m)
	}
	d, m := h.driver.bands(), h.model.bands()
	if len(d) != len(m) {
		t.Fatalf("bands of the driver are %v\nof the model %v", d, m)
	}
	for i := range d {
		if d[i].Band != m[i].Band || d[i].N != m[i].N || d[i].Since.After(m[i].Since) {
			t.Fatalf("a band of the driver is %v\nof the model %v", d[i], m[i])
		}
	}
}

// listings draws a query and compares its pages joined.
func (h *history) listings(t *rapid.T) {
	q := haulier.Query{Limit: rapid.SampledFrom([]int{1, 2, 5, 1000}).Draw(t, "limit"), Max: rapid.SampledFrom([]int{0, 0, 1, 7}).Draw(t, "max")}
	switch rapid.IntRange(0, 2).Draw(t, "selector") {
	case 0:
		q.Tenant = rapid.SampledFrom([]string{"", "a", "ab", "b"}).Draw(t, "tenant")
	case 1:
		if len(h.sessions) == 0 {
			t.Skip("no sessions")
		}
		q.Session = rapid.SampledFrom(h.sessions).Draw(t, "session")
	default:
		q.State = rapid.SampledFrom(haulier.States).Draw(t, "state")
		q.Lanes = rapid.SliceOfNDistinct(rapid.SampledFrom(historyLanes), 0, 3, rapid.ID).Draw(t, "lanes")
		if len(q.Lanes) == 0 {
			q.Lanes = nil
		}
	}
	got, want := h.driver.list(q), h.model.list(q)
	if q.Lanes == nil && byLane(q.State) {
		for _, jobs := range [][]*haulier.Job{got, want} {
			slices.SortStableFunc(jobs, func(a, b *haulier.Job) int { return compareLanes(a.Lane(), b.Lane()) })
		}
	}
	if !slices.Equal(idsAt(got), idsAt(want)) {
		t.Fatalf("%+v\nthe driver lists %v\nthe model %v", q, idsAt(got), idsAt(want))
	}
	for i := range got {
		if g, w := timeless(got[i]), timeless(want[i]); g != w {
			t.Fatalf("the driver lists %s\nthe model %s", g, w)
		}
	}
}

// due compares what is due; jobs of one instant may come in any order.
func (h *history) due(t *rapid.T) {
	limit := rapid.SampledFrom([]int{1, 3, 100}).Draw(t, "limit")
	d, m := h.driver.due(limit), h.model.due(limit)
	h.sameTimes(t, "timers", d.Timers, m.Timers, func(j *haulier.Job) time.Time { return j.Status.RunAt })
	h.sameTimes(t, "removals", d.Purge, m.Purge, func(j *haulier.Job) time.Time { return j.PurgeAt })
	if len(d.Sessions)+len(m.Sessions) > 0 {
		t.Fatalf("leases of an hour are over: %v, %v", d.Sessions, m.Sessions)
	}
	// A driver may still look for what has gone since, but must not miss what is to come, nor look all the time.
	late := !m.Next.IsZero() && (d.Next.IsZero() || d.Next.After(m.Next.Add(time.Minute)))
	if len(d.Timers)+len(d.Purge) == 0 && (late || !d.Next.IsZero() && d.Next.Before(h.now)) {
		t.Fatalf("the driver sees the next at %v, the model at %v", d.Next, m.Next)
	}
}

func (h *history) sameTimes(t *rapid.T, what string, driver, model []haulier.ID, timeOf func(*haulier.Job) time.Time) {
	times := func(ids []haulier.ID) string {
		var out []time.Time
		for _, id := range ids {
			j := h.model.get(id)
			if j == nil {
				t.Fatalf("%s: job %v is due and does not exist", what, id)
			}
			out = append(out, timeOf(j).UTC())
		}
		return fmt.Sprint(out)
	}
	if d, m := times(driver), times(model); d != m {
		t.Fatalf("%s of the driver fell due at %s\nof the model at %s", what, d, m)
	}
	slices.SortFunc(driver, compareIDs)
	if len(slices.Compact(slices.Clone(driver))) != len(driver) {
		t.Fatalf("%s: a job is due twice: %v", what, driver)
	}
}

func (h *history) closeAndOpen(t *rapid.T) {
	if err := h.driver.s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	h.driver.s = h.reopen()
	if h.driver.s.Opened().ClaimsLost {
		t.Fatalf("after a clean close, it says that claims were lost")
	}
	if d, m := h.driver.snapshotOf(h.sessions), h.model.snapshotOf(h.sessions); d != m {
		t.Fatalf("after opening again the driver says\n%s\nthe model\n%s", d, m)
	}
}
