package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/blob"
	"github.com/haulier/haulier/engine"
	"github.com/haulier/haulier/store/mem"
)

// unreliable fails commits and claims now and then, before or after they were made.
type unreliable struct {
	haulier.Store
	mu    sync.Mutex
	rng   *rand.Rand
	calm  bool
	fails int
}

var errCut = fmt.Errorf("connection cut: %w", haulier.ErrUnavailable)

func (u *unreliable) roll() (before, after bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.calm {
		return false, false
	}
	n := u.rng.IntN(100)
	if n < 6 {
		u.fails++
	}
	return n < 3, n >= 3 && n < 6
}

func (u *unreliable) Commit(ctx context.Context, b *haulier.Batch) error {
	before, after := u.roll()
	if before {
		return errCut
	}
	err := u.Store.Commit(ctx, b)
	if after && err == nil {
		return errCut
	}
	return err
}

func (u *unreliable) Claim(ctx context.Context, s haulier.ID, by string, takes []haulier.Take) ([]haulier.Job, error) {
	before, after := u.roll()
	if before {
		return nil, errCut
	}
	jobs, err := u.Store.Claim(ctx, s, by, takes)
	if after && err == nil {
		return nil, errCut
	}
	return jobs, err
}

// world is a random history: producers, workers and operators over an engine that is replaced now and then.
type world struct {
	t     *testing.T
	store *unreliable
	blobs *blob.Store
	rng   *rand.Rand

	engine *engine.Engine
	cancel context.CancelFunc
	done   chan error

	acked    []haulier.ID       // enqueues that were acknowledged
	finished map[haulier.ID]int // ok finishes that were acknowledged
	sessions []haulier.ID       // of live workers, as they think
	held     map[haulier.ID][]haulier.Job
}

func (w *world) begin() {
	e, err := engine.New(engine.Config{Store: w.store, Blobs: w.blobs})
	for errors.Is(err, haulier.ErrUnavailable) { // a server that can't reach its store is started again
		e, err = engine.New(engine.Config{Store: w.store, Blobs: w.blobs})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.engine, w.cancel, w.done = e, cancel, make(chan error, 1)
	go func() { w.done <- e.Run(ctx) }()
}

func (w *world) end() {
	w.engine.Close()
	w.cancel()
	if err := <-w.done; err != nil && !errors.Is(err, haulier.ErrUnavailable) {
		w.t.Errorf("run: %v", err)
	}
}

func (w *world) step() {
	ctx := context.Background()
	switch n := w.rng.IntN(100); {
	case n < 25:
		w.enqueue(ctx)
	case n < 30 || len(w.sessions) == 0:
		s, err := w.engine.OpenSession(ctx, haulier.Session{
			Worker: "w", Kinds: []haulier.Kind{haulier.KindGo}, Types: []string{"t"}, Lease: haulier.Duration(10 * time.Second)})
		if err == nil {
			w.sessions = append(w.sessions, s.ID)
		}
	case n < 55:
		s := w.sessions[w.rng.IntN(len(w.sessions))]
		jobs, err := w.engine.Claim(ctx, haulier.ClaimRequest{Session: s, N: 1 + w.rng.IntN(4)})
		if w.alive(s, err) {
			w.held[s] = append(w.held[s], jobs...)
		}
	case n < 80:
		w.report(ctx, w.sessions[w.rng.IntN(len(w.sessions))])
	case n < 90:
		s := w.sessions[w.rng.IntN(len(w.sessions))]
		_, err := w.engine.Renew(ctx, haulier.RenewRequest{Session: s})
		w.alive(s, err)
	case n < 93:
		i := w.rng.IntN(len(w.sessions)) // a worker dies
		delete(w.held, w.sessions[i])
		w.sessions = append(w.sessions[:i], w.sessions[i+1:]...)
	case n < 95 && len(w.acked) > 0:
		_, _ = w.engine.Cancel(ctx, haulier.Selection{IDs: []haulier.ID{w.acked[w.rng.IntN(len(w.acked))]}}, "op", "")
	case n < 97:
		w.end()
		w.begin()
	default:
		<-time.After(time.Duration(w.rng.IntN(5000)) * time.Millisecond)
		synctest.Wait()
	}
}

// alive forgets a session that was lost, and reports whether the call went well.
func (w *world) alive(s haulier.ID, err error) bool {
	if !errors.Is(err, haulier.ErrLeaseLost) {
		return err == nil
	}
	delete(w.held, s)
	for i, x := range w.sessions {
		if x == s {
			w.sessions = append(w.sessions[:i], w.sessions[i+1:]...)
			break
		}
	}
	return false
}

func (w *world) enqueue(ctx context.Context) {
	jobs := make([]haulier.Spec, 1+w.rng.IntN(3))
	for i := range jobs {
		jobs[i] = haulier.Spec{Type: "t", Priority: w.rng.IntN(3), MaxAttempts: 3, Queue: fmt.Sprint("q", w.rng.IntN(3)),
			Backoff: &haulier.Backoff{Constant: haulier.Duration(w.rng.IntN(3)) * haulier.Duration(time.Second)}}
		if w.rng.IntN(4) == 0 {
			jobs[i].RunAt = time.Now().Add(time.Duration(w.rng.IntN(10)) * time.Second)
		}
	}
	res, err := w.engine.Enqueue(ctx, []haulier.EnqueueRequest{{Jobs: jobs}})
	if err == nil && res[0].Err == nil {
		w.acked = append(w.acked, res[0].IDs...)
	}
}

func (w *world) report(ctx context.Context, s haulier.ID) {
	held := w.held[s]
	var reports []haulier.Report
	for _, j := range held {
		r := haulier.Report{Ref: haulier.Ref{Job: j.ID, Attempt: j.Attempt}, Kind: haulier.ReportFinish, Outcome: haulier.OutcomeOK}
		switch w.rng.IntN(6) {
		case 0:
			r.Kind = haulier.ReportStart
		case 1:
			r.Kind = haulier.ReportRelease
		case 2:
			r.Outcome = haulier.OutcomeError
		}
		reports = append(reports, r)
	}
	errs, err := w.engine.Report(ctx, s, reports)
	if !w.alive(s, err) {
		return // not acknowledged: sent again, or the lease ends
	}
	w.held[s] = nil
	for i, r := range reports {
		if r.Kind == haulier.ReportStart && errs[i] == nil {
			w.held[s] = append(w.held[s], held[i])
		}
		if r.Kind == haulier.ReportFinish && r.Outcome == haulier.OutcomeOK && errs[i] == nil {
			w.finished[r.Job]++
		}
	}
}

// settle lets the store be well again and a last worker finish everything.
func (w *world) settle() {
	w.store.mu.Lock()
	w.store.calm = true
	w.store.mu.Unlock()
	w.end()
	w.begin()
	ctx := context.Background()
	s, err := w.engine.OpenSession(ctx, haulier.Session{Worker: "last", Kinds: []haulier.Kind{haulier.KindGo}, Types: []string{"t"}})
	if err != nil {
		w.t.Fatal(err)
	}
	for range 200 {
		jobs, err := w.engine.Claim(ctx, haulier.ClaimRequest{Session: s.ID, N: 100, Wait: 5 * time.Second})
		if err != nil {
			w.t.Fatal(err)
		}
		if _, err := w.engine.Renew(ctx, haulier.RenewRequest{Session: s.ID}); err != nil {
			w.t.Fatal(err)
		}
		var reports []haulier.Report
		for _, j := range jobs {
			reports = append(reports, haulier.Report{Ref: haulier.Ref{Job: j.ID, Attempt: j.Attempt}, Kind: haulier.ReportFinish, Outcome: haulier.OutcomeOK})
			w.finished[j.ID]++
		}
		if errs, err := w.engine.Report(ctx, s.ID, reports); err != nil || errors.Join(errs...) != nil {
			w.t.Fatal(err, errs)
		}
	}
}

func (w *world) check() {
	jobs, err := w.engine.Get(context.Background(), "", w.acked)
	if err != nil {
		w.t.Fatal(err)
	}
	for i, j := range jobs {
		if j == nil || !j.State.Terminal() {
			w.t.Errorf("job %v was acknowledged and has not ended: %+v", w.acked[i], j)
		}
	}
	for id, n := range w.finished {
		if n > 1 {
			w.t.Errorf("job %v was acknowledged as finished %d times", id, n)
		}
	}
	counts, err := w.engine.Counts(context.Background(), "")
	if err != nil {
		w.t.Fatal(err)
	}
	facts := map[haulier.State]int64{}
	for cursor := ""; ; {
		p, err := w.engine.List(context.Background(), haulier.Filter{}, cursor, 1000)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, j := range p.Jobs {
			facts[j.State]++
		}
		if cursor = p.Next; cursor == "" {
			break
		}
	}
	for _, c := range counts {
		facts[c.State] -= c.N
	}
	for st, d := range facts {
		if d != 0 {
			w.t.Errorf("counter of %v is off by %d", st, d)
		}
	}
}

// TestNothingIsLostOrStuck runs random histories with a store that fails and a server that restarts.
func TestNothingIsLostOrStuck(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				blobs, err := blob.Open(t.Context(), "mem://")
				if err != nil {
					t.Fatal(err)
				}
				rng := rand.New(rand.NewPCG(seed, 1))
				w := &world{t: t, blobs: blobs, rng: rng, finished: map[haulier.ID]int{}, held: map[haulier.ID][]haulier.Job{},
					store: &unreliable{Store: mem.New(), rng: rand.New(rand.NewPCG(seed, 2))}}
				w.begin()
				for range 400 {
					w.step()
				}
				w.settle()
				w.check()
				w.end()
				if w.store.fails == 0 {
					t.Error("the store never failed: the test shows nothing")
				}
			})
		})
	}
}
