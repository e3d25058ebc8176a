package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/blob"
	"github.com/haulier/haulier/engine"
	"github.com/haulier/haulier/engine/flow"
	"github.com/haulier/haulier/store/mem"
)

var (
	flowSeeds = flag.Int("flow.seeds", 300, "random histories of flow that are lived through")
	flowSeed  = flag.Uint64("flow.seed", 0, "the one history to live through; 0: -flow.seeds of them")
)

// tangle is a random history of jobs that are tied to one another, over an engine that is
// replaced now and then, and a store that fails.
type tangle struct {
	world
	all     []haulier.ID
	retried bool // by hand: then a needed job may be on its way again while those that need it run
	log     []string
}

func TestFlowInRandomHistories(t *testing.T) {
	if *flowSeed != 0 {
		testTangle(t, *flowSeed)
		return
	}
	for seed := range uint64(*flowSeeds) {
		testTangle(t, seed+1)
	}
}

func testTangle(t *testing.T, seed uint64) {
	synctest.Test(t, func(t *testing.T) {
		blobs, err := blob.Open(t.Context(), "mem://")
		if err != nil {
			t.Fatal(err)
		}
		defer blobs.Close()
		w := &tangle{world: world{
			t: t, blobs: blobs, rng: rand.New(rand.NewPCG(seed, 1)), finished: map[haulier.ID]int{}, held: map[haulier.ID][]haulier.Job{},
			store: &unreliable{Store: mem.New(), rng: rand.New(rand.NewPCG(seed, 2)), calm: seed%3 == 0},
		}}
		defer w.store.Store.Close()
		w.begin()
		defer func() { w.end() }()
		for err := haulier.ErrUnavailable; err != nil; {
			if err = w.engine.SetLimit(t.Context(), "default", "lim", haulier.Limit{Running: 2}); err != nil && !errors.Is(err, haulier.ErrUnavailable) {
				t.Fatal(err)
			}
		}
		for range 60 + w.rng.IntN(120) {
			w.act()
			synctest.Wait()
			w.check()
			if w.rng.IntN(10) == 0 {
				w.checkAll()
			}
			if t.Failed() {
				t.Logf("repeat it with -flow.seed %d:\n%s", seed, strings.Join(w.log, "\n"))
				return
			}
		}
		w.settle()
		w.checkAll()
		if t.Failed() {
			t.Logf("repeat it with -flow.seed %d:\n%s", seed, strings.Join(w.log, "\n"))
		}
	})
}

func (w *tangle) say(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func (w *tangle) act() {
	ctx := w.t.Context()
	switch n := w.rng.IntN(100); {
	case n < 30:
		w.add(ctx)
	case n < 36 || len(w.sessions) == 0:
		s, err := w.engine.OpenSession(ctx, haulier.Session{Worker: "w", Kinds: []haulier.Kind{haulier.KindGo}, Types: []string{"a", "b"}, Concurrency: 50})
		if err == nil {
			w.sessions = append(w.sessions, s.ID)
		}
		w.say("session %v %v", s.ID, err)
	case n < 60:
		w.claimSome(ctx)
	case n < 82:
		w.finishSome(ctx)
	case n < 86:
		id := w.any()
		c, err := w.engine.Cancel(ctx, haulier.Selection{IDs: []haulier.ID{id}}, "test", "")
		w.say("cancel %v %v %v", id, c, err)
	case n < 89:
		id := w.any()
		w.retried = true
		c, err := w.engine.Retry(ctx, haulier.Selection{IDs: []haulier.ID{id}}, "test")
		w.say("retry %v %v %v", id, c, err)
	case n < 91:
		s := w.sessions[w.rng.IntN(len(w.sessions))]
		w.say("close %v %v", s, w.engine.CloseSession(ctx, s))
	case n < 94:
		w.say("restart")
		w.end()
		w.begin()
	case n < 96:
		limit := haulier.Limit{Running: 1 + w.rng.IntN(2)}
		w.say("limit %v %v", limit, w.engine.SetLimit(ctx, "default", "lim", limit))
		if err := w.engine.SetLimit(ctx, "default", "lim", haulier.Limit{Running: 2}); err != nil {
			w.say("limit %v", err)
		}
	default:
		d := time.Duration(w.rng.IntN(20)) * time.Second
		w.say("pass %v", d)
		w.pass(d)
	}
}

func (w *tangle) pass(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
}

func (w *tangle) any() haulier.ID {
	if len(w.all) == 0 {
		return haulier.NewID(time.Now())
	}
	return w.all[w.rng.IntN(len(w.all))]
}

// add enqueues a few jobs that are tied to one another and to those that are there.
func (w *tangle) add(ctx context.Context) {
	specs := make([]haulier.Spec, 1+w.rng.IntN(5))
	for i := range specs {
		specs[i] = haulier.Spec{Type: string("ab"[w.rng.IntN(2)]), MaxAttempts: 1 + w.rng.IntN(3), Priority: w.rng.IntN(3), Flow: w.flow(i)}
		if n := len(w.all) + i; n%3 == 0 {
			specs[i].Notify = []haulier.Notify{{URL: "http://a/", On: []haulier.Condition{"", haulier.OnSucceeded, haulier.OnFailed}[n/3%3]}, {URL: "http://b/"}}
		}
		if w.rng.IntN(8) == 0 && len(specs[i].Holds)+len(specs[i].YieldsTo)+len(specs[i].Limits) == 0 {
			specs[i].Task.None = &haulier.NoTask{}
		}
		if w.rng.IntN(6) == 0 {
			specs[i].RunAt = time.Now().Add(time.Duration(w.rng.IntN(20)) * time.Second)
		}
	}
	res, err := w.engine.Enqueue(ctx, []haulier.EnqueueRequest{{Jobs: specs, By: "test"}})
	if err != nil || res[0].Err != nil {
		w.say("enqueue: %v %v", err, res)
		return
	}
	b, _ := json.Marshal(specs)
	w.say("enqueue %v %s", res[0].IDs, b)
	w.all = append(w.all, res[0].IDs...)
}

func (w *tangle) flow(i int) *haulier.Flow {
	f := &haulier.Flow{Ref: fmt.Sprint(i)}
	conditions := []haulier.Condition{"", haulier.OnSucceeded, haulier.OnSucceeded, haulier.OnFailed, haulier.OnFinished}
	named := map[string]bool{}
	for range w.rng.IntN(3) {
		n := haulier.Need{On: conditions[w.rng.IntN(len(conditions))]}
		if i > 0 && w.rng.IntN(2) == 0 {
			n.Ref = fmt.Sprint(w.rng.IntN(i))
		} else if len(w.all) > 0 {
			n.Job = w.any()
		} else {
			continue
		}
		if key := n.Ref + n.Job.String(); !named[key] {
			named[key] = true
			f.Needs = append(f.Needs, n)
		}
	}
	switch w.rng.IntN(9) {
	case 0, 1:
		key := []string{"m1", "m2"}[w.rng.IntN(2)]
		f.Holds, f.YieldsTo = []string{key}, []haulier.Yield{{Key: key}}
	case 2:
		f.Holds, f.YieldsTo = []string{"s"}, []haulier.Yield{{Key: "s", Below: 3}}
	case 3:
		f.Holds, f.YieldsTo = []string{"r"}, []haulier.Yield{{Key: "w"}}
	case 4:
		f.Holds, f.YieldsTo = []string{"w"}, []haulier.Yield{{Key: "w"}, {Key: "r"}}
	case 5:
		f.Limits = []string{"lim"}
	case 6:
		f.Unique = &haulier.Unique{Key: "u" + fmt.Sprint(w.rng.IntN(2)), Scope: haulier.UniqueActive,
			Duplicate: []haulier.Duplicate{"", haulier.DuplicateReplace, haulier.DuplicateReject}[w.rng.IntN(3)]}
	case 7:
		f.Collapse = "c" + fmt.Sprint(w.rng.IntN(2))
		f.Holds, f.YieldsTo = []string{f.Collapse}, []haulier.Yield{{Key: f.Collapse}}
	}
	return f
}

func (w *tangle) claimSome(ctx context.Context) {
	s := w.sessions[w.rng.IntN(len(w.sessions))]
	jobs, err := w.engine.Claim(ctx, haulier.ClaimRequest{Session: s, N: 1 + w.rng.IntN(10)})
	w.say("claim by %v: %d %v", s, len(jobs), err)
	for _, j := range jobs {
		w.say("   %v held %v", j.ID, j.Standing)
		w.checkNeeds(&j)
	}
	w.held[s] = append(w.held[s], jobs...)
	if err == nil && w.rng.IntN(2) == 0 {
		if _, err := w.engine.Renew(ctx, haulier.RenewRequest{Session: s}); err != nil {
			w.say("renew %v", err)
		}
	}
}

func (w *tangle) finishSome(ctx context.Context) {
	s := w.sessions[w.rng.IntN(len(w.sessions))]
	held := w.held[s]
	if len(held) == 0 {
		return
	}
	k := w.rng.IntN(len(held)) + 1
	var reports []haulier.Report
	for _, j := range held[:k] {
		r := haulier.Report{Ref: haulier.Ref{Job: j.ID, Attempt: j.Attempt}, Kind: haulier.ReportFinish}
		r.Outcome = []haulier.Outcome{haulier.OutcomeOK, haulier.OutcomeOK, haulier.OutcomeOK, haulier.OutcomeFailed, haulier.OutcomeError, haulier.OutcomeRetry}[w.rng.IntN(6)]
		if w.rng.IntN(8) == 0 {
			r.Kind = haulier.ReportRelease
		}
		reports = append(reports, r)
	}
	errs, err := w.engine.Report(ctx, s, reports)
	for i := range reports {
		w.say("report %v %v %v", reports[i].Job, reports[i].Outcome, err)
		if err == nil && errs[i] != nil {
			w.say("   refused: %v", errs[i])
		}
	}
	if err == nil {
		w.held[s] = held[k:]
	}
}

// jobs reads all that are there.
func (w *tangle) jobs() map[haulier.ID]*haulier.Job {
	out := map[haulier.ID]*haulier.Job{}
	for cursor := ""; ; {
		page, err := w.store.Store.List(w.t.Context(), haulier.Query{Limit: 1000, Cursor: cursor})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, j := range page.Jobs {
			out[j.ID] = j
		}
		if cursor = page.Next; cursor == "" {
			return out
		}
	}
}

func (w *tangle) docs(kind haulier.DocKind) []haulier.Doc {
	docs, err := w.store.Store.Docs(w.t.Context(), kind, "", "", 100_000)
	if err != nil {
		w.t.Fatal(err)
	}
	return docs
}

// checkNeeds looks at a job that may start: what it needs must have ended as it should.
func (w *tangle) checkNeeds(j *haulier.Job) {
	if w.retried {
		return
	}
	all := w.jobs()
	for p, on := range w.parents(all, j) {
		if !on.Met(p.State) {
			w.t.Errorf("job %v starts though %v, which it needs %s, is %v", j.ID, p.ID, on, p.State)
		}
	}
}

// check holds what is stored against what must be true at any time.
func (w *tangle) check() {
	held, active, waits := map[string]int{}, map[string]int{}, map[string]int{}
	all := w.jobs()
	for _, j := range all {
		if j.Standing != nil {
			for _, k := range j.Held {
				held[k]++
			}
			if len(j.Held) > 0 && !j.State.Owned() {
				w.t.Errorf("job %v is %v and holds %v", j.ID, j.State, j.Held)
			}
			if j.State == haulier.Blocked && j.Gate == "" && j.NeedsLeft == 0 {
				w.t.Errorf("job %v is blocked by nothing", j.ID)
			}
		}
		if j.Flow != nil && j.Unique != nil && j.Unique.Scope == haulier.UniqueActive && !j.State.Terminal() {
			active[j.Unique.Key]++
		}
		if j.Flow != nil && j.Collapse != "" && j.State.Waits() && len(j.Needs) == 0 { // with needs it may have to come after an older one
			waits[j.Collapse]++
		}
	}
	for k, most := range map[string]int{"m1": 1, "m2": 1, "s": 3, "w": 1, "lim": 2, "c0": 1, "c1": 1} {
		if held[k] > most {
			w.t.Errorf("%d hold %s", held[k], k)
		}
	}
	if held["w"] > 0 && held["r"] > 0 {
		w.t.Errorf("%d write while %d read", held["w"], held["r"])
	}
	for k, n := range active {
		if n > 1 {
			w.t.Errorf("%d active jobs have the unique key %s", n, k)
		}
	}
	for k, n := range waits {
		if n > 1 && !w.retried {
			w.t.Errorf("%d jobs of collapse key %s wait", n, k)
		}
	}
	w.checkLocks(all, held)
	w.checkNotified(all)
}

// checkAll has the store looked through as an operator would.
func (w *tangle) checkAll() {
	_, err := engine.Check(w.t.Context(), w.store.Store, engine.CheckOptions{Found: func(f engine.Fault) { w.t.Errorf("check finds %+v", f) }})
	if err != nil {
		w.t.Error(err)
	}
}

// checkNotified counts the ends of jobs that are to be told of, and the deliveries: neither is there without the other.
func (w *tangle) checkNotified(all map[haulier.ID]*haulier.Job) {
	told := map[string]int{}
	for _, j := range all {
		if j.Task.HTTP != nil {
			told[j.Parent.String()+j.Task.HTTP.URL]++
		}
	}
	for _, j := range all {
		if j.Flow == nil || j.HistoryCut > 0 {
			continue
		}
		for _, n := range j.Notify {
			ends := 0
			for _, c := range j.History {
				if c.State.Terminal() && (n.On == "" || n.On.Met(c.State)) {
					ends++
				}
			}
			if got := told[j.ID.String()+n.URL]; got != ends {
				w.t.Errorf("job %v ended %d times for %q, and %d deliveries were made: %+v", j.ID, ends, n.On, got, j.History)
			}
		}
	}
}

func (w *tangle) checkLocks(all map[haulier.ID]*haulier.Job, held map[string]int) {
	waiting, inLine := map[string]int{}, map[haulier.ID]bool{}
	for _, d := range w.docs(flow.DocWaiter) {
		var id haulier.ID
		copy(id[:], d.Value)
		inLine[id] = true
		key := strings.Split(d.Key, "/")[1]
		waiting[key]++
		if j := all[id]; j == nil || j.Standing == nil || j.Gate != key || j.State.Terminal() {
			w.t.Errorf("a waiter at %s is %v", key, j)
		}
	}
	seen := map[string]bool{}
	for _, d := range w.docs(flow.DocLock) {
		var l flow.Lock
		if err := json.Unmarshal(d.Value, &l); err != nil {
			w.t.Fatal(err)
		}
		key := strings.TrimPrefix(d.Key, "default/")
		seen[key] = true
		if l.Held != held[key] || l.Waiting != waiting[key] {
			w.t.Errorf("key %s: %d held, %d waiting, its document says %+v", key, held[key], waiting[key], l)
		}
		for _, c := range l.Called {
			if j := all[c.Job]; j == nil || j.Standing == nil || j.Gate != key || j.State.Terminal() {
				w.t.Errorf("called from %s is %v", key, c.Job)
			}
		}
	}
	for k, n := range held {
		if n > 0 && !seen[k] {
			w.t.Errorf("key %s is held by %d without a document", k, n)
		}
	}
	for _, j := range all {
		if j.Standing != nil && j.Gate != "" && (j.State == haulier.Blocked || j.State == haulier.Scheduled) && !inLine[j.ID] {
			w.t.Errorf("job %v is %v at %s, but not in the line there", j.ID, j.State, j.Gate)
		}
	}
}

// settle lets all that is left run, without faults, and looks whether something is stuck.
func (w *tangle) settle() {
	ctx := w.t.Context()
	w.store.mu.Lock()
	w.store.calm = true
	w.store.mu.Unlock()
	w.say("calm")
	w.pass(2 * time.Minute) // sessions end, work that was left is found
	synctest.Wait()
	s, err := w.engine.OpenSession(ctx, haulier.Session{
		Worker: "last", Kinds: []haulier.Kind{haulier.KindGo}, Types: []string{"a", "b"}, Concurrency: 50, Lease: haulier.Duration(haulier.MaxLease),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	for quiet := 0; quiet < 3; {
		jobs, err := w.engine.Claim(ctx, haulier.ClaimRequest{Session: s.ID, N: 10})
		if err != nil {
			w.t.Fatal(err)
		}
		w.say("last claim: %d", len(jobs))
		if len(jobs) == 0 {
			quiet++
			w.pass(time.Minute)
			synctest.Wait()
			w.check()
			continue
		}
		quiet = 0
		var reports []haulier.Report
		for _, j := range jobs {
			w.checkNeeds(&j)
			reports = append(reports, haulier.Report{Ref: haulier.Ref{Job: j.ID, Attempt: j.Attempt}, Kind: haulier.ReportFinish, Outcome: haulier.OutcomeOK})
		}
		w.check()
		if _, err := w.engine.Report(ctx, s.ID, reports); err != nil {
			w.t.Fatal(err)
		}
		synctest.Wait()
		w.check()
	}
	all := w.jobs()
	for _, j := range all {
		if j.State.Terminal() || j.Task.HTTP != nil { // nobody here delivers
			continue
		}
		w.t.Errorf("job %v is %v at the end: %s; %+v %+v", j.ID, j.State, j.Reason, j.Flow, j.Standing)
		for p := range w.parents(all, j) {
			w.t.Logf("it needs job %v, which is %v: %+v", p.ID, p.State, p.History)
		}
	}
	for _, kind := range []haulier.DocKind{flow.DocLock, flow.DocWaiter, haulier.DocWork} {
		for _, d := range w.docs(kind) {
			w.t.Errorf("left at the end: %s %s %s", kind, d.Key, d.Value)
		}
	}
}

// parents are the jobs that j needs, or those that replaced them.
func (w *tangle) parents(all map[haulier.ID]*haulier.Job, j *haulier.Job) iter.Seq2[*haulier.Job, haulier.Condition] {
	return func(yield func(*haulier.Job, haulier.Condition) bool) {
		if j.Flow == nil {
			return
		}
		for _, n := range j.Needs {
			p := all[n.Job]
			for p != nil && p.State == haulier.Collapsed {
				p = all[p.Survivor]
			}
			if p != nil && !yield(p, n.On) {
				return
			}
		}
	}
}
