package storetest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/haulier/haulier"
)

var watchTests = []test{
	{"a watcher hears of each kind of change before the call returns", testWatchKinds},
	{"a watcher hears nothing of what was refused", testWatchRefused},
	{"each watcher hears of every change until its context ends", testWatchUntil},
	{"what a watcher hears of can be read", testWatchVisible},
	{"a watcher is told of documents when the batch asks for that", testWatchTold},
	{"the changes of a job come in the order of its revisions", testWatchOrder},
}

// heard is what a watcher was told.
type heard struct {
	mu      sync.Mutex
	changes []haulier.JobChange
}

func (h *heard) tell(changes []haulier.JobChange) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes = append(h.changes, changes...)
}

// take returns what was told since it was last called.
func (h *heard) take() []haulier.JobChange {
	h.mu.Lock()
	defer h.mu.Unlock()
	changes := h.changes
	h.changes = nil
	return changes
}

// wantHeard ends the test unless h was told of the changes to jobs from states, in any order.
func (f *fixture) wantHeard(h *heard, before haulier.State, jobs ...haulier.Job) {
	f.t.Helper()
	got := h.take()
	if len(got) != len(jobs) {
		f.t.Fatalf("heard of %d changes, want %d", len(got), len(jobs))
	}
	for i := range jobs {
		k := slices.IndexFunc(got, func(c haulier.JobChange) bool { return c.Spec.ID == jobs[i].ID })
		if k < 0 {
			f.t.Fatalf("heard nothing of job %v", jobs[i].ID)
		}
		if got[k].Before != before {
			f.t.Fatalf("heard that job %v was %v, it was %v", jobs[i].ID, got[k].Before, before)
		}
		f.same(&haulier.Job{Spec: *got[k].Spec, Status: got[k].Status}, &jobs[i])
	}
}

func testWatchKinds(t *testing.T, f *fixture) {
	var h heard
	f.s.Watch(t.Context(), h.tell)
	session := f.session(time.Hour)
	f.wantHeard(&h, 0)
	a, b := f.job(mail), f.job(mail)
	f.insert(a, b)
	f.wantHeard(&h, 0, a, b)
	claimed := f.claim(session, take(mail, 0, 2))
	f.wantHeard(&h, haulier.Pending, claimed...)
	f.move(&claimed[0], ownedBy(haulier.Running, session))
	f.wantHeard(&h, haulier.Claimed, claimed[0])
	f.move(&claimed[0], func(j *haulier.Job) { j.Percent = 30 })
	f.wantHeard(&h, haulier.Running, claimed[0])
	f.move(&claimed[0], ended(haulier.Succeeded, f.at(time.Hour)))
	f.wantHeard(&h, haulier.Running, claimed[0])
	f.commit(haulier.Batch{Delete: []haulier.JobDelete{{ID: a.ID, Expect: claimed[0].Rev}}, Sync: true})
	gone := claimed[0]
	gone.Status = haulier.Status{}
	f.wantHeard(&h, haulier.Succeeded, gone)
}

func testWatchTold(t *testing.T, f *fixture) {
	j := f.job(mail)
	f.insert(j)
	var h heard
	f.s.Watch(t.Context(), h.tell)
	doc := haulier.DocWrite{Kind: "other", Key: "k", Expect: haulier.AnyRev, Value: []byte("x")}
	wants := func(what string, jobs, told int) {
		t.Helper()
		for _, c := range h.take() {
			if c.Spec == nil && c.Before == 0 && c.Status.State == 0 {
				told--
			} else {
				jobs--
			}
		}
		if jobs != 0 || told != 0 {
			t.Errorf("%s: it hears of %d jobs and %d batches too few", what, jobs, told)
		}
	}
	f.commit(haulier.Batch{Docs: []haulier.DocWrite{doc}})
	wants("documents that are not to be told of", 0, 0)
	f.commit(haulier.Batch{Docs: []haulier.DocWrite{doc}, Tell: true})
	wants("documents that are to be told of", 0, 1)
	b := haulier.Batch{Insert: []haulier.Job{f.job(mail)}, Update: []haulier.JobUpdate{update(&j, func(j *haulier.Job) { j.Percent = 3 })}, Tell: true}
	f.commit(b)
	wants("with jobs", 2, 1)
	f.commit(haulier.Batch{Delete: []haulier.JobDelete{{ID: j.ID, Expect: j.Rev}}, Docs: []haulier.DocWrite{doc}, Tell: true, Sync: true})
	wants("with a removal", 1, 1)
	doc.Expect = 77
	f.wants(f.s.Commit(f.ctx, &haulier.Batch{Docs: []haulier.DocWrite{doc}, Tell: true}), haulier.ErrConflict)
	wants("what was refused", 0, 0)
}

func testWatchRefused(t *testing.T, f *fixture) {
	j := f.job(mail)
	f.insert(j)
	var h heard
	f.s.Watch(t.Context(), h.tell)
	u := haulier.JobUpdate{Spec: &j.Spec, Expect: 5, Status: j.Status}
	f.wants(f.s.Commit(f.ctx, &haulier.Batch{Insert: []haulier.Job{f.job(mail)}, Update: []haulier.JobUpdate{u}}), haulier.ErrConflict)
	_, err := f.s.Claim(f.ctx, haulier.NewID(f.now), "worker", []haulier.Take{take(mail, 0, 1)})
	f.wants(err, haulier.ErrLeaseLost)
	f.claim(f.session(time.Hour), take(mail, 7, 1))
	f.wantHeard(&h, 0)
}

func testWatchUntil(t *testing.T, f *fixture) {
	var first, second heard
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.s.Watch(ctx, first.tell)
	a, b, c := f.job(mail), f.job(mail), f.job(mail)
	f.insert(a)
	f.s.Watch(t.Context(), second.tell)
	f.insert(b)
	f.wantHeard(&first, 0, a, b)
	f.wantHeard(&second, 0, b)
	cancel()
	f.insert(c)
	f.wantHeard(&first, 0)
	f.wantHeard(&second, 0, c)
}

// testWatchVisible reads, from beside the watcher and before it returns, what it was told of.
func testWatchVisible(t *testing.T, f *fixture) {
	session := f.session(time.Hour)
	f.insert(f.job(mail), f.job(mail))
	told := make(chan haulier.JobChange, 100)
	f.s.Watch(t.Context(), func(changes []haulier.JobChange) {
		for _, c := range changes {
			told <- c
		}
	})
	var wg sync.WaitGroup
	wg.Go(func() {
		for c := range told {
			jobs, err := f.s.Jobs(t.Context(), []haulier.ID{c.Spec.ID})
			if err != nil || jobs[0] == nil || jobs[0].Rev < c.Status.Rev {
				t.Errorf("heard of revision %d of job %v, which can't be read: %v", c.Status.Rev, c.Spec.ID, err)
			}
		}
	})
	for _, j := range f.claim(session, take(mail, 0, 2)) {
		f.move(&j, func(j *haulier.Job) { j.State = haulier.Running })
		for range 20 {
			f.move(&j, func(j *haulier.Job) { j.Percent++ })
		}
	}
	close(told)
	wg.Wait()
}

func testWatchOrder(t *testing.T, f *fixture) {
	var h heard
	f.s.Watch(t.Context(), h.tell)
	jobs := []haulier.Job{f.job(mail), f.job(mail)}
	f.insert(jobs...)
	const writers, writes = 4, 40
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for done := 0; done < writes; {
				cur, err := f.s.Jobs(t.Context(), idsOf(jobs[done%2:done%2+1]))
				if err != nil {
					t.Errorf("read: %v", err)
					return
				}
				j := *cur[0]
				if f.s.Commit(t.Context(), &haulier.Batch{Update: []haulier.JobUpdate{update(&j, func(*haulier.Job) {})}}) == nil {
					done++
				}
			}
		})
	}
	wg.Wait()
	last := map[haulier.ID]uint64{}
	for _, c := range h.take() {
		if c.Status.Rev != last[c.Spec.ID]+1 {
			t.Fatalf("after revision %d of job %v came %d", last[c.Spec.ID], c.Spec.ID, c.Status.Rev)
		}
		last[c.Spec.ID] = c.Status.Rev
	}
	if n := last[jobs[0].ID] + last[jobs[1].ID]; n != writers*writes+2 {
		t.Fatalf("heard of %d changes, want %d", n, writers*writes+2)
	}
}
