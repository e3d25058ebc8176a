package engine_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/blob"
	"github.com/haulier/haulier/store/mem"
)

// mortal is a store whose server dies at a commit: that one is made or not, and nothing after it.
type mortal struct {
	haulier.Store
	mu    sync.Mutex
	lives int  // commits until it dies; negative: for ever
	last  bool // the commit at which it dies is made
	dead  bool
}

func (m *mortal) commit(do func() error) error {
	m.mu.Lock()
	if m.dead {
		m.mu.Unlock()
		return errCut
	}
	m.lives--
	m.dead = m.lives == 0
	dies, last := m.dead, m.last
	m.mu.Unlock()
	if dies && !last {
		return errCut
	}
	if err := do(); err != nil || !dies {
		return err
	}
	return errCut
}

func (m *mortal) Commit(ctx context.Context, b *haulier.Batch) error {
	return m.commit(func() error { return m.Store.Commit(ctx, b) })
}

func (m *mortal) Claim(ctx context.Context, s haulier.ID, by string, takes []haulier.Take) (jobs []haulier.Job, err error) {
	err = m.commit(func() error {
		jobs, err = m.Store.Claim(ctx, s, by, takes)
		return err
	})
	if err != nil {
		return nil, err
	}
	return jobs, nil
}

// doom lets the server die at the n-th commit from now on; negative: not.
func (m *mortal) doom(n int, last bool) (died bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	died = m.dead
	m.lives, m.last, m.dead = n, last, false
	return died
}

// TestFlowAgainstAModel carries out random histories step by step, some of which are cut off by the
// death of the server at any of their commits. When what was begun has been completed after each, all must be as in the model.
func TestFlowAgainstAModel(t *testing.T) {
	if *flowSeed != 0 {
		testSteps(t, *flowSeed)
		return
	}
	for seed := range uint64(*flowSeeds) {
		if testSteps(t, seed+1); t.Failed() {
			return
		}
	}
}

// steps is a history that is compared with the model after each step.
type steps struct {
	tangle
	mortal *mortal
	model  *model
	held   []haulier.Job
}

func testSteps(t *testing.T, seed uint64) {
	synctest.Test(t, func(t *testing.T) {
		blobs, err := blob.Open(t.Context(), "mem://")
		if err != nil {
			t.Fatal(err)
		}
		defer blobs.Close()
		m := &mortal{Store: mem.New(), lives: -1}
		defer m.Store.Close()
		rng := rand.New(rand.NewPCG(seed, 3))
		s := &steps{mortal: m, model: newModel(), tangle: tangle{world: world{t: t, blobs: blobs, rng: rng, store: &unreliable{Store: m, rng: rng, calm: true}}}}
		s.begin()
		defer func() { s.end() }()
		if err := s.engine.SetLimit(t.Context(), "default", "lim", haulier.Limit{Running: 2}); err != nil {
			t.Fatal(err)
		}
		for range 40 + rng.IntN(80) {
			s.step()
			if t.Failed() {
				t.Logf("repeat it with -flow.seed %d:\n%s", seed, strings.Join(s.log, "\n"))
				return
			}
		}
	})
}

// step makes one step, which the server may not survive, and compares.
func (s *steps) step() {
	if s.rng.IntN(3) == 0 {
		s.mortal.doom(1+s.rng.IntN(4), s.rng.IntN(2) == 0)
	}
	var meant func(all map[haulier.ID]*haulier.Job)
	switch n := s.rng.IntN(100); {
	case n < 30:
		meant = s.add()
	case n < 60 || len(s.all) == 0:
		s.claim()
	case n < 85:
		s.finish()
	case n < 91:
		meant = s.cancel(s.any())
	case n < 97:
		meant = s.retry(s.any())
	default:
		d := time.Duration(s.rng.IntN(60)) * time.Second
		s.say("pass %v", d)
		s.pass(d)
	}
	synctest.Wait()
	if s.mortal.doom(-1, false) {
		s.say("the server died")
		s.end()
		s.begin()
		s.sessions = nil // their worker died with it
	}
	s.drain()
	all := s.jobs()
	if meant != nil {
		meant(all)
	}
	s.observe(all) // sessions end later than the step, if they do
	s.compare(all)
}

// drain waits until what was left to do is done.
func (s *steps) drain() {
	synctest.Wait()
	for range 120 {
		if len(s.docs(haulier.DocWork)) == 0 {
			return
		}
		s.pass(time.Second)
		synctest.Wait()
	}
	s.t.Errorf("left to do after two minutes: %v", s.docs(haulier.DocWork))
}

func (s *steps) add() func(map[haulier.ID]*haulier.Job) {
	specs := make([]haulier.Spec, 1+s.rng.IntN(5))
	for i := range specs {
		f := s.flow(i)
		if f.Unique != nil && s.rng.IntN(2) == 0 {
			f.Unique.Scope = haulier.UniquePending
		}
		specs[i] = haulier.Spec{Type: "a", MaxAttempts: 1 + s.rng.IntN(3), Priority: s.rng.IntN(3), Flow: f}
		if s.rng.IntN(6) == 0 && !f.Gated() {
			specs[i].Task.None = &haulier.NoTask{}
		}
	}
	given := make([]haulier.Spec, len(specs))
	for i := range specs {
		given[i] = specs[i]
		f := *specs[i].Flow
		given[i].Flow = &f
	}
	res, err := s.engine.Enqueue(s.t.Context(), []haulier.EnqueueRequest{{Jobs: given, By: "test"}})
	s.say("enqueue %v %+v", err, res)
	return func(all map[haulier.ID]*haulier.Job) { s.added(all, specs, res, err) }
}

// added tells the model of new jobs, if there are any, and compares the answer.
func (s *steps) added(all map[haulier.ID]*haulier.Job, specs []haulier.Spec, res []haulier.EnqueueResult, err error) {
	fresh := map[string]haulier.ID{}
	for id, j := range all {
		if s.model.byID[id] == nil {
			fresh[j.Flow.Ref] = id
		}
	}
	done := err == nil && res[0].Err == nil
	if !done && len(fresh) == 0 {
		return
	}
	jobs := s.model.add(specs)
	if jobs == nil {
		s.t.Errorf("a request that ought to be refused was not: %v", fresh)
		return
	}
	for i, j := range jobs {
		if j.id.IsNil() {
			j.id = fresh[specs[i].Flow.Ref]
			if j.id.IsNil() {
				s.t.Errorf("job %d was not added: %+v", i, specs[i].Flow)
				return
			}
			s.model.byID[j.id] = j
			s.all = append(s.all, j.id)
			delete(fresh, specs[i].Flow.Ref)
			s.say("   %v %+v none %v", j.id, *specs[i].Flow, j.none)
		}
		if done && res[0].IDs[i] != j.id {
			s.t.Errorf("%v answers for job %d, want %v", res[0].IDs[i], i, j.id)
		}
	}
	for ref, id := range fresh {
		s.t.Errorf("job %v, %s, ought not to be there", id, ref)
	}
}

func (s *steps) claim() {
	ctx := s.t.Context()
	if len(s.sessions) == 0 {
		x, err := s.engine.OpenSession(ctx, haulier.Session{
			Worker: "w", Kinds: []haulier.Kind{haulier.KindGo}, Types: []string{"a"}, Concurrency: 50, Lease: haulier.Duration(haulier.MaxLease),
		})
		s.say("session %v %v", x.ID, err)
		if err != nil {
			return
		}
		s.sessions = []haulier.ID{x.ID}
		s.held = nil
	}
	jobs, err := s.engine.Claim(ctx, haulier.ClaimRequest{Session: s.sessions[0], N: 1 + s.rng.IntN(3)})
	s.say("claim %v", err)
	for _, j := range jobs {
		s.say("   %v", j.ID)
	}
	s.held = append(s.held, jobs...)
}

func (s *steps) finish() {
	if len(s.sessions) == 0 || len(s.held) == 0 {
		return
	}
	k := s.rng.IntN(len(s.held))
	j := s.held[k]
	r := haulier.Report{Ref: haulier.Ref{Job: j.ID, Attempt: j.Attempt}, Kind: haulier.ReportFinish}
	r.Outcome = []haulier.Outcome{haulier.OutcomeOK, haulier.OutcomeOK, haulier.OutcomeOK, haulier.OutcomeFailed, haulier.OutcomeError, haulier.OutcomeRetry}[s.rng.IntN(6)]
	if s.rng.IntN(8) == 0 {
		r.Kind = haulier.ReportRelease
	}
	errs, err := s.engine.Report(s.t.Context(), s.sessions[0], []haulier.Report{r})
	s.say("report %v %v %v: %v %v", j.ID, r.Kind, r.Outcome, err, errs)
	s.held = append(s.held[:k], s.held[k+1:]...)
}

func (s *steps) cancel(id haulier.ID) func(map[haulier.ID]*haulier.Job) {
	c, err := s.engine.Cancel(s.t.Context(), haulier.Selection{IDs: []haulier.ID{id}}, "test", "")
	s.say("cancel %v %v %v", id, c, err)
	return func(all map[haulier.ID]*haulier.Job) {
		j := s.model.byID[id]
		done := err == nil && c.Errors[id] == nil || all[id].State == haulier.Cancelled && standing(all[id]).Cause.IsNil()
		if j.phase.waiting() && done {
			s.model.end(j, cancelled)
			s.model.run()
		}
	}
}

func (s *steps) retry(id haulier.ID) func(map[haulier.ID]*haulier.Job) {
	before := s.jobs()[id].Rev
	c, err := s.engine.Retry(s.t.Context(), haulier.Selection{IDs: []haulier.ID{id}}, "test")
	s.say("retry %v %v %v", id, c, err)
	s.retried = true
	return func(all map[haulier.ID]*haulier.Job) {
		j := s.model.byID[id]
		if !j.phase.ended() || j.phase == collapsed {
			return
		}
		done := err == nil && c.Errors[id] == nil
		if err != nil {
			if done = all[id].Rev != before; !done {
				return // the server died too early
			}
		}
		if done != s.model.retry(j) {
			s.t.Errorf("job %v runs again: %v, want the opposite", id, done)
		}
	}
}

// observe tells the model what happened by itself: what was claimed, how attempts ended.
func (s *steps) observe(all map[haulier.ID]*haulier.Job) {
	for _, j := range s.model.jobs {
		is := phaseOf(all[j.id])
		switch {
		case j.phase == ready && is == runs:
			j.phase = runs
		case j.phase.waiting() && is == collapsed: // one of the two was claimed and had to wait at a key, which is when it looks again
			if by := s.model.byID[all[j.id].Survivor]; by.flow.Collapse == j.flow.Collapse && by.age > j.age {
				s.model.replace(j, by)
			}
		case j.phase == runs && (is == succeeded || is == failed || is == cancelled):
			s.model.end(j, is)
		case j.phase == runs && is != runs:
			j.phase = ready
			s.model.outrun(j)
		}
		s.model.run()
	}
}

// compare holds what is stored against the model.
func (s *steps) compare(all map[haulier.ID]*haulier.Job) {
	for _, want := range s.model.jobs {
		got := all[want.id]
		v := standing(got)
		switch is := phaseOf(got); {
		case is != want.phase:
			s.t.Errorf("job %v is %v (%v), want %v; %+v %+v", want.id, is, got.State, want.phase, v, got.History)
		case is == collapsed && s.model.byID[v.Survivor].last() != want.last():
			s.t.Errorf("job %v is replaced by %v, want %v", want.id, v.Survivor, want.survivor.id)
		case is != collapsed && (v.NeedsLeft != len(want.links) || v.Barred != want.barred()):
			s.t.Errorf("job %v, %v, waits for %d and is barred by %d, want %d and %d", want.id, is, v.NeedsLeft, v.Barred, len(want.links), want.barred())
		case is == cancelled && v.Cause.IsNil() == want.byNeed:
			s.t.Errorf("job %v was cancelled for the sake of job %v, want that to be %v", want.id, v.Cause, want.byNeed)
		}
	}
	s.check()
}

func standing(j *haulier.Job) haulier.Standing {
	if j.Standing == nil {
		return haulier.Standing{}
	}
	return *j.Standing
}
