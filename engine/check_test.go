package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/blob"
	"github.com/haulier/haulier/engine"
	"github.com/haulier/haulier/engine/flow"
	"github.com/haulier/haulier/store/mem"
	"github.com/haulier/haulier/store/storetest"
)

// damaged is a store at rest with jobs that run, hold keys and wait, which a test damages.
type damaged struct {
	*mem.Store
	t     *testing.T
	blobs *blob.Store
	jobs  []haulier.ID
}

// inCheck runs a test over a store whose engine was stopped: of five jobs of one key the first runs, two more run freely, one has ended.
func inCheck(t *testing.T, f func(s *damaged)) {
	synctest.Test(t, func(t *testing.T) {
		blobs, err := blob.Open(t.Context(), "mem://")
		if err != nil {
			t.Fatal(err)
		}
		defer blobs.Close()
		s := &damaged{Store: mem.New(), t: t, blobs: blobs}
		s.during(func(ctx context.Context, e *engine.Engine) {
			session, err := e.OpenSession(ctx, haulier.Session{Worker: "w", Kinds: []haulier.Kind{haulier.KindGo}, Types: []string{"a"}, Concurrency: 50})
			s.must(err)
			one := &haulier.Flow{Holds: []string{"k"}, YieldsTo: []haulier.Yield{{Key: "k"}}}
			specs := []haulier.Spec{{Type: "a"}, {Type: "a", Flow: &haulier.Flow{Ref: "p"}}, {Type: "b", Flow: &haulier.Flow{Needs: []haulier.Need{{Ref: "p"}}}}, {Type: "a", Payload: make([]byte, haulier.MaxPayload+1)}}
			for range 5 {
				specs = append(specs, haulier.Spec{Type: "a", Flow: one})
			}
			res, err := e.Enqueue(ctx, []haulier.EnqueueRequest{{Jobs: specs}})
			s.must(err)
			s.must(res[0].Err)
			s.jobs = res[0].IDs
			claimed, err := e.Claim(ctx, haulier.ClaimRequest{Session: session.ID, N: 50})
			s.must(err)
			done := claimed[0]
			_, err = e.Report(ctx, session.ID, []haulier.Report{
				{Ref: haulier.Ref{Job: done.ID, Attempt: done.Attempt}, Kind: haulier.ReportFinish, Outcome: haulier.OutcomeOK},
			})
			s.must(err)
		})
		s.expect(false)
		f(s)
	})
}

func (s *damaged) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// during lets an engine work over the store.
func (s *damaged) during(f func(ctx context.Context, e *engine.Engine)) {
	e, err := engine.New(engine.Config{Store: s, Blobs: s.blobs})
	s.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	f(ctx, e)
	synctest.Wait()
	e.Close()
	cancel()
	s.must(<-done)
}

func (s *damaged) write(w ...haulier.DocWrite) {
	s.t.Helper()
	for i := range w {
		w[i].Expect = haulier.AnyRev
	}
	s.must(s.Commit(s.t.Context(), &haulier.Batch{Docs: w}))
}

// one is the only document of a kind.
func (s *damaged) one(kind haulier.DocKind) haulier.Doc {
	s.t.Helper()
	docs, err := s.Docs(s.t.Context(), kind, "", "", 10)
	s.must(err)
	if len(docs) == 0 {
		s.t.Fatalf("there is no document of kind %s", kind)
	}
	return docs[0]
}

// expect checks a store, and wants each of the texts among the faults, and nothing when there are none.
func (s *damaged) expect(repair bool, texts ...string) engine.Checked {
	s.t.Helper()
	return expectFaults(s.t, s.Store, repair, texts...)
}

func expectFaults(t *testing.T, s haulier.Store, repair bool, texts ...string) engine.Checked {
	t.Helper()
	var found []string
	out, err := engine.Check(t.Context(), s, engine.CheckOptions{Repair: repair, Found: func(f engine.Fault) {
		found = append(found, fmt.Sprintf("%s %s: %s", f.What, f.Of, f.Text))
		if f.Advice == "" && !f.Repaired {
			t.Errorf("what to do is not said of %+v", f)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		if !slices.ContainsFunc(found, func(f string) bool { return strings.Contains(f, text) }) {
			t.Errorf("not found: %s", text)
		}
	}
	if t.Failed() || len(texts) == 0 && len(found) > 0 {
		t.Errorf("found:\n%s", strings.Join(found, "\n"))
	}
	return out
}

// heals wants the faults, repairs them, and wants none afterwards.
func (s *damaged) heals(texts ...string) {
	s.t.Helper()
	s.expect(false, texts...)
	out := s.expect(true, texts...)
	if out.Repaired != out.Faults {
		s.t.Errorf("%d of %d faults were repaired", out.Repaired, out.Faults)
	}
	s.expect(false)
	storetest.Check(s.t.Context(), s.t, s.Store)
}

// completes lets a new worker do all that is left.
func (s *damaged) completes() {
	s.t.Helper()
	s.during(func(ctx context.Context, e *engine.Engine) {
		timer := time.NewTimer(5 * time.Minute)
		<-timer.C
		session, err := e.OpenSession(ctx, haulier.Session{Worker: "w2", Kinds: []haulier.Kind{haulier.KindGo}, Types: []string{"a", "b"}, Concurrency: 50, Lease: haulier.Duration(haulier.MaxLease)})
		s.must(err)
		for range 30 {
			jobs, err := e.Claim(ctx, haulier.ClaimRequest{Session: session.ID, N: 50, Wait: 20 * time.Second})
			s.must(err)
			var reports []haulier.Report
			for _, j := range jobs {
				reports = append(reports, haulier.Report{Ref: haulier.Ref{Job: j.ID, Attempt: j.Attempt}, Kind: haulier.ReportFinish, Outcome: haulier.OutcomeOK})
			}
			_, err = e.Report(ctx, session.ID, reports)
			s.must(err)
		}
	})
	page, err := s.List(s.t.Context(), haulier.Query{Limit: 1000})
	s.must(err)
	for _, j := range page.Jobs {
		if !j.State.Terminal() {
			s.t.Errorf("job %v is %v in the end: %+v", j.ID, j.State, j.Standing)
		}
	}
	s.expect(false)
}

func TestCheckReturnsJobsOfASessionThatIsGone(t *testing.T) {
	inCheck(t, func(s *damaged) {
		s.write(haulier.DocWrite{Kind: haulier.DocSession, Key: s.one(haulier.DocSession).Key})
		s.heals("does not exist, and has job " + s.jobs[1].String())
		s.completes()
	})
}

func TestCheckRemovesASessionThatCannotBeRead(t *testing.T) {
	inCheck(t, func(s *damaged) {
		s.write(haulier.DocWrite{Kind: haulier.DocSession, Key: s.one(haulier.DocSession).Key, Value: []byte("{")})
		s.expect(false, "do not decode to the session")
		s.expect(true, "do not decode to the session", "does not exist, and has job")
		s.expect(false)
		s.completes()
	})
}

func TestCheckMendsLocks(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(l *flow.Lock)
		text   string
	}{
		"a holder too many":     {func(l *flow.Lock) { l.Held = 2 }, "says that 2 jobs hold the key, and 1 do"},
		"a holder too few":      {func(l *flow.Lock) { l.Held, l.Holders = 0, nil }, "says that 0 jobs hold the key, and 1 do"},
		"another holder":        {func(l *flow.Lock) { l.Holders = []haulier.ID{haulier.NewID(time.Now())} }, "names a holder"},
		"waiters too many":      {func(l *flow.Lock) { l.Waiting = 9 }, "says that 9 jobs wait at the key, and 4 do"},
		"nobody seems to wait":  {func(l *flow.Lock) { l.Waiting = 0 }, "says that 0 jobs wait at the key, and 4 do"},
		"a call of nobody":      {func(l *flow.Lock) { l.Called = []flow.Call{{Job: haulier.NewID(time.Now())}} }, "right of way"},
		"bytes that are no one": {nil, "do not decode"},
	} {
		t.Run(name, func(t *testing.T) {
			inCheck(t, func(s *damaged) {
				d := s.one(flow.DocLock)
				value := []byte("?")
				if c.damage != nil {
					var l flow.Lock
					s.must(json.Unmarshal(d.Value, &l))
					c.damage(&l)
					value, _ = json.Marshal(l)
				}
				s.write(haulier.DocWrite{Kind: d.Kind, Key: d.Key, Value: value})
				s.heals(c.text)
				s.completes()
			})
		})
	}
	t.Run("no lock", func(t *testing.T) {
		inCheck(t, func(s *damaged) {
			s.write(haulier.DocWrite{Kind: flow.DocLock, Key: s.one(flow.DocLock).Key})
			s.heals("does not exist, though 1 jobs hold the key and 4 wait there")
			s.completes()
		})
	})
	t.Run("an orphan", func(t *testing.T) {
		inCheck(t, func(s *damaged) {
			s.write(haulier.DocWrite{Kind: flow.DocLock, Key: "default/orphan", Value: []byte(`{"held":1}`)})
			s.heals("lock default/orphan: says that 1 jobs hold the key, and 0 do")
		})
	})
}

func TestCheckMendsLines(t *testing.T) {
	inCheck(t, func(s *damaged) { // a place is missing
		s.write(haulier.DocWrite{Kind: flow.DocWaiter, Key: s.one(flow.DocWaiter).Key})
		s.heals("without a place in the line")
		s.completes()
	})
	inCheck(t, func(s *damaged) { // a place too many
		key := s.one(flow.DocWaiter).Key
		id := haulier.NewID(time.Now())
		s.write(haulier.DocWrite{Kind: flow.DocWaiter, Key: key[:len(key)-36] + id.String(), Value: id[:]})
		s.heals("has a place in a line, and does not exist")
		s.completes()
	})
}

func TestCheckTellsThoseWhoNeedAJobThatIsGone(t *testing.T) {
	inCheck(t, func(s *damaged) {
		gone := haulier.NewID(time.Now())
		s.write(haulier.DocWrite{Kind: flow.DocNeed, Key: gone.String() + "/" + s.jobs[2].String(), Value: []byte("succeeded")})
		s.heals("needs job " + gone.String() + ", which does not exist")
	})
}

func TestCheckRemovesWhatBelongsToNobody(t *testing.T) {
	id := haulier.NewID(time.Now()).String()
	named := []byte(`{"job":"` + id + `"}`)
	for _, w := range []haulier.DocWrite{
		{Kind: haulier.DocLog, Key: id + "/1/0", Value: []byte("x")},
		{Kind: engine.DocChain, Key: id, Value: []byte("{}")},
		{Kind: engine.DocInputs, Key: id, Value: []byte("{}")},
		{Kind: flow.DocUnique, Key: "default/u", Value: named},
		{Kind: flow.DocCollapse, Key: "default/c", Value: named},
		{Kind: flow.DocNewest, Key: "default/w/q/a", Value: named},
		{Kind: flow.DocFrozen, Key: "default/w/" + id, Value: []byte{}},
		{Kind: haulier.DocBlobRef, Key: "default/" + strings.Repeat("a", 64) + "/" + id, Value: []byte{}},
		{Kind: haulier.DocBlobRef, Key: "default/" + strings.Repeat("a", 64) + "/=set@3", Value: []byte{}},
		{Kind: haulier.DocWork, Key: id, Value: []byte("?")},
	} {
		t.Run(string(w.Kind), func(t *testing.T) {
			inCheck(t, func(s *damaged) {
				s.write(w)
				s.heals(string(w.Kind) + " " + w.Key)
			})
		})
	}
}

func TestCheckGivesABlobToTheSweepWhoseHolderIsGone(t *testing.T) {
	inCheck(t, func(s *damaged) {
		d := s.one(haulier.DocBlob)
		s.write(haulier.DocWrite{Kind: haulier.DocBlobRef, Key: d.Key + "/" + haulier.NewID(time.Now()).String(), Value: []byte{}})
		s.heals("is held by a job or fileset that does not exist")
		if !strings.Contains(string(s.one(haulier.DocBlob).Value), "until") {
			t.Error("nobody looks after the blob any more")
		}
	})
}

func TestCheckReportsWhatItCannotRepair(t *testing.T) {
	for name, c := range map[string]struct {
		write haulier.DocWrite
		text  string
	}{
		"bytes":      {haulier.DocWrite{Kind: haulier.DocQueue, Key: "default/q", Value: []byte("{")}, "queue default/q: its bytes do not decode"},
		"newer work": {haulier.DocWrite{Kind: haulier.DocWork, Key: "x", Value: []byte(`{"op":"novel"}`)}, "is of a sort that nobody knows"},
	} {
		t.Run(name, func(t *testing.T) {
			inCheck(t, func(s *damaged) {
				s.write(c.write)
				if out := s.expect(true, c.text); out.Repaired != 0 {
					t.Errorf("%d were repaired", out.Repaired)
				}
				s.expect(false, c.text)
			})
		})
	}
	t.Run("a blob is gone", func(t *testing.T) {
		inCheck(t, func(s *damaged) {
			s.write(haulier.DocWrite{Kind: haulier.DocBlob, Key: s.one(haulier.DocBlob).Key})
			s.expect(true, "holds a blob that does not exist")
		})
	})
	t.Run("jobs that can't be", func(t *testing.T) {
		inCheck(t, func(s *damaged) {
			jobs, err := s.Jobs(t.Context(), s.jobs[2:3])
			s.must(err)
			j := *jobs[0]
			j.Rev++
			j.Standing = &haulier.Standing{Held: []string{"z"}}
			s.must(s.Commit(t.Context(), &haulier.Batch{Update: []haulier.JobUpdate{{Spec: &j.Spec, Expect: j.Rev - 1, Status: j.Status}}}))
			s.expect(false, "is blocked by nothing", "holds the keys [z]")
		})
	})
}

// lying is a store with a damaged driver.
type lying struct {
	haulier.Store
	list   func(haulier.Query, *haulier.Page) error
	counts func([]haulier.Count) []haulier.Count
	bands  func([]haulier.BandHead) []haulier.BandHead
}

func (s *lying) List(ctx context.Context, q haulier.Query) (haulier.Page, error) {
	page, err := s.Store.List(ctx, q)
	if err == nil && s.list != nil {
		err = s.list(q, &page)
	}
	return page, err
}

func (s *lying) Counts(ctx context.Context) ([]haulier.Count, error) {
	counts, err := s.Store.Counts(ctx)
	if err == nil && s.counts != nil {
		counts = s.counts(counts)
	}
	return counts, err
}

func (s *lying) Bands(ctx context.Context) ([]haulier.BandHead, error) {
	bands, err := s.Store.Bands(ctx)
	if err == nil && s.bands != nil {
		bands = s.bands(bands)
	}
	return bands, err
}

func TestCheckFindsWhatADriverKeepsWrong(t *testing.T) {
	inCheck(t, func(s *damaged) {
		plain := s.jobs[0]
		s.during(func(ctx context.Context, e *engine.Engine) {
			_, err := e.Enqueue(ctx, []haulier.EnqueueRequest{{Jobs: []haulier.Spec{{Type: "c"}, {Type: "c"}}}})
			s.must(err)
		})
		pending, err := s.List(t.Context(), haulier.Query{State: haulier.Pending, Limit: 10})
		s.must(err)
		first := pending.Jobs[0]
		foreign := *first
		foreign.ID = haulier.NewID(time.Now())
		at := func(state haulier.State, f func(*haulier.Page)) func(haulier.Query, *haulier.Page) error {
			return func(q haulier.Query, page *haulier.Page) error {
				if q.State == state && q.Session.IsNil() {
					f(page)
				}
				return nil
			}
		}
		for name, c := range map[string]struct {
			store lying
			texts []string
		}{
			"an index lacks a job": {lying{list: at(haulier.Pending, func(p *haulier.Page) { p.Jobs = p.Jobs[1:] })},
				[]string{first.ID.String() + ": is pending, and stands 0 times", "lists 1 jobs, and 2 jobs are pending"}},
			"an index has a job twice":        {lying{list: at(haulier.Pending, func(p *haulier.Page) { p.Jobs = append(p.Jobs, first) })}, []string{"stands 2 times"}},
			"a job stands in a second index":  {lying{list: at(haulier.Blocked, func(p *haulier.Page) { p.Jobs = append(p.Jobs, first) })}, []string{"stands in the index of blocked jobs, and is pending"}},
			"an index has a job that is gone": {lying{list: at(haulier.Pending, func(p *haulier.Page) { p.Jobs = append(p.Jobs, &foreign) })}, []string{"stands in the index of pending jobs, and does not exist"}},
			"the list of all has a job twice": {lying{list: at(0, func(p *haulier.Page) { p.Jobs = append(p.Jobs, p.Jobs[len(p.Jobs)-1]) })}, []string{"is listed twice"}},
			"a listed job is not what it is":  {lying{list: at(0, func(p *haulier.Page) { j := *p.Jobs[0]; j.Step = "x"; p.Jobs[0] = &j })}, []string{"is another job when it is listed"}},
			"a session lacks a job": {lying{list: func(q haulier.Query, p *haulier.Page) error {
				if !q.Session.IsNil() {
					p.Jobs = p.Jobs[1:]
				}
				return nil
			}}, []string{"the session is listed with"}},
			"a count is wrong":                 {lying{counts: func(c []haulier.Count) []haulier.Count { c[0].N += 3; return c }}, []string{"count "}},
			"a count is missing":               {lying{counts: func(c []haulier.Count) []haulier.Count { return nil }}, []string{"is kept as 0"}},
			"a band is wrong":                  {lying{bands: func(b []haulier.BandHead) []haulier.BandHead { b[0].N++; return b }}, []string{"band ", "is kept as 3, and there are 2"}},
			"a band is missing":                {lying{bands: func([]haulier.BandHead) []haulier.BandHead { return nil }}, []string{"is kept as 0, and there are 2"}},
			"a band's first job is overlooked": {lying{bands: func(b []haulier.BandHead) []haulier.BandHead { b[0].Since = b[0].Since.Add(time.Hour); return b }}, []string{"the first waits since"}},
			"jobs that do not decode":          {lying{list: func(haulier.Query, *haulier.Page) error { return fmt.Errorf("job %v: %w", plain, haulier.ErrCorrupt) }}, []string{"corrupt"}},
		} {
			t.Run(name, func(t *testing.T) {
				c.store.Store = s.Store
				expectFaults(t, &c.store, false, c.texts...)
			})
		}
	})
}

func TestCheckRefusesAStoreAtWork(t *testing.T) {
	s := mem.New()
	duty, _ := json.Marshal(map[string]any{"server": "x", "until": time.Now().Add(time.Minute)})
	if err := s.Commit(t.Context(), &haulier.Batch{Docs: []haulier.DocWrite{{Kind: engine.DocDuty, Key: "timers", Value: duty}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Check(t.Context(), s, engine.CheckOptions{}); err == nil || !strings.Contains(err.Error(), "a server works over the store") {
		t.Errorf("checked: %v", err)
	}
}
