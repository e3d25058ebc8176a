// Package enginetest is the behaviour suite of the engine: what users of the
// queue may rely on, over any store. Time passes as testing/synctest makes it
// pass, so the store under test must take its clock from the time package.
package enginetest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/blob"
	"github.com/haulier/haulier/engine"
)

// Run runs the suite, each behaviour over a store of its own.
func Run(t *testing.T, open func(t *testing.T) haulier.Store) {
	all(t, func(t *testing.T, b behaviour) {
		synctest.Test(t, func(t *testing.T) {
			h := start(t, open(t))
			defer h.stop()
			b.check(t, h)
		})
	})
}

func all(t *testing.T, run func(t *testing.T, b behaviour)) {
	for _, group := range [][]behaviour{enqueueing, attempts, sessions, operating, outputs, queues, looking, flowing, scheduling, ordering, hooking, notifying, windowing, counting, batching, filing, handling, serving} {
		for _, b := range group {
			t.Run(b.name, func(t *testing.T) { run(t, b) })
		}
	}
}

// behaviour is a sentence about the engine and its check.
type behaviour struct {
	name  string
	check func(t *testing.T, h *Harness)
}

// Harness is an engine at work over a store.
type Harness struct {
	t     *testing.T
	Store haulier.Store
	*engine.Engine
	blobs  *blob.Store
	hooks  []haulier.EnqueueHook // of the engine, from its next start on
	cancel context.CancelFunc
	done   chan error
}

func start(t *testing.T, s haulier.Store) *Harness {
	t.Helper()
	blobs, err := blob.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	h := &Harness{t: t, Store: s, blobs: blobs}
	h.begin()
	return h
}

// begin makes an engine over the store, as a server that starts does.
func (h *Harness) begin() {
	h.t.Helper()
	e, err := engine.New(engine.Config{Store: h.Store, Blobs: h.blobs, LogHead: 200 << 10, LogTail: 200 << 10, Hooks: h.hooks})
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.Engine, h.cancel, h.done = e, cancel, make(chan error, 1)
	go func() { h.done <- e.Run(ctx) }()
	synctest.Wait()
}

// end stops the engine; the store stays.
func (h *Harness) end() {
	h.t.Helper()
	h.Engine.Close()
	h.cancel()
	if err := <-h.done; err != nil {
		h.t.Errorf("run: %v", err)
	}
}

func (h *Harness) stop() {
	h.end()
	h.check()
	if err := h.Store.Close(); err != nil {
		h.t.Errorf("close the store: %v", err)
	}
	if err := h.blobs.Close(); err != nil {
		h.t.Errorf("close the blobs: %v", err)
	}
}

// check has the store looked through: whatever a test did by means of the engine, nothing in it may be wrong.
func (h *Harness) check() {
	h.t.Helper()
	_, err := engine.Check(context.WithoutCancel(h.t.Context()), h.Store, engine.CheckOptions{Found: func(f engine.Fault) { h.t.Errorf("check finds %+v", f) }})
	if err != nil {
		h.t.Errorf("check: %v", err)
	}
}

// restart replaces the engine by a new one over the same store, as after a crash of the server.
func (h *Harness) restart() {
	h.t.Helper()
	h.end()
	h.begin()
}

// pass lets time pass, and everything happen that falls due.
func (h *Harness) pass(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

func (h *Harness) enqueue(specs ...haulier.Spec) []haulier.ID {
	h.t.Helper()
	res, err := h.Enqueue(h.t.Context(), []haulier.EnqueueRequest{{Jobs: specs, By: "test"}})
	if err != nil || res[0].Err != nil {
		h.t.Fatalf("enqueue: %v, %v", err, res)
	}
	return res[0].IDs
}

func (h *Harness) add(change func(*haulier.Spec)) haulier.ID {
	h.t.Helper()
	s := haulier.Spec{Type: "work"}
	if change != nil {
		change(&s)
	}
	return h.enqueue(s)[0]
}

func (h *Harness) open(change func(*haulier.Session)) haulier.ID {
	h.t.Helper()
	s := haulier.Session{
		Worker: "w1", Kinds: []haulier.Kind{haulier.KindGo, haulier.KindExec}, Types: []string{"work", "other"}, Concurrency: 100,
	}
	if change != nil {
		change(&s)
	}
	got, err := h.OpenSession(h.t.Context(), s)
	if err != nil {
		h.t.Fatalf("open session: %v", err)
	}
	return got.ID
}

func (h *Harness) claim(session haulier.ID, n int) []haulier.Job {
	h.t.Helper()
	jobs, err := h.Claim(h.t.Context(), haulier.ClaimRequest{Session: session, N: n})
	if err != nil {
		h.t.Fatalf("claim: %v", err)
	}
	return jobs
}

// claimOne claims the one job that there is to claim.
func (h *Harness) claimOne(session haulier.ID) haulier.Job {
	h.t.Helper()
	jobs := h.claim(session, 10)
	if len(jobs) != 1 {
		h.t.Fatalf("claimed %d jobs, want one", len(jobs))
	}
	return jobs[0]
}

func (h *Harness) report(session haulier.ID, reports ...haulier.Report) []error {
	h.t.Helper()
	errs, err := h.Report(h.t.Context(), session, reports)
	if err != nil {
		h.t.Fatalf("report: %v", err)
	}
	return errs
}

func (h *Harness) finish(session haulier.ID, j haulier.Job, o haulier.Outcome) {
	h.t.Helper()
	r := haulier.Report{Ref: ref(j), Kind: haulier.ReportFinish, Outcome: o}
	if o != haulier.OutcomeOK {
		r.Error = "it went wrong"
	}
	if errs := h.report(session, r); errs[0] != nil {
		h.t.Fatalf("finish: %v", errs[0])
	}
}

func (h *Harness) get(id haulier.ID) *haulier.Job {
	h.t.Helper()
	jobs, err := h.Get(h.t.Context(), "", []haulier.ID{id})
	if err != nil {
		h.t.Fatalf("get: %v", err)
	}
	return jobs[0]
}

// want checks the state of a job and returns it.
func (h *Harness) want(id haulier.ID, st haulier.State) *haulier.Job {
	h.t.Helper()
	j := h.get(id)
	if j == nil {
		h.t.Fatalf("job %v is gone, want it %v", id, st)
	}
	if j.State != st {
		h.t.Fatalf("job is %v (%s), want %v", j.State, j.Reason, st)
	}
	return j
}

func ref(j haulier.Job) haulier.Ref { return haulier.Ref{Job: j.ID, Attempt: j.Attempt} }
