package storetest

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/haulier/haulier"
)

var crowdTests = []test{
	{"a crowd of clients leaves a store in order", testCrowd},
}

// crowd is what many clients do to one store, and what they were told.
type crowd struct {
	f        *fixture
	t        *testing.T
	lanes    []haulier.Lane
	mu       sync.Mutex
	inserted map[haulier.ID]bool
	deleted  map[haulier.ID]bool
	attempts map[haulier.ID]map[int]haulier.ID // session by job and attempt
	finished map[haulier.ID]int
}

// testCrowd lets clients insert, claim, finish, cancel and remove at the same
// time. Each finish adds one to a document in the same commit.
func testCrowd(t *testing.T, f *fixture) {
	c := &crowd{
		f: f, t: t, lanes: []haulier.Lane{mail, lane("t", "q", "x"), lane("t", "p", "x")},
		inserted: map[haulier.ID]bool{}, deleted: map[haulier.ID]bool{},
		attempts: map[haulier.ID]map[int]haulier.ID{}, finished: map[haulier.ID]int{},
	}
	var h heard
	f.s.Watch(t.Context(), h.tell)
	const clients = 8
	var wg sync.WaitGroup
	for i := range clients {
		seed := rand.Uint64()
		t.Logf("client %d has seed %d", i, seed)
		session := f.session(time.Hour)
		wg.Go(func() { c.client(rand.New(rand.NewPCG(seed, 0)), session, i) })
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	Check(t.Context(), t, f.s)
	c.settle(&h)
}

// settle compares the store with what the clients were told, and what the watcher heard.
func (c *crowd) settle(h *heard) {
	all := c.f.list(haulier.Query{})
	if want := len(c.inserted) - len(c.deleted); len(all) != want {
		c.t.Errorf("%d jobs are there, want %d inserted less %d removed", len(all), len(c.inserted), len(c.deleted))
	}
	finished := 0
	for id, n := range c.finished {
		if n > 1 {
			c.t.Errorf("job %v finished %d times", id, n)
		}
		finished += n
	}
	var total uint64
	for _, d := range c.f.docs("other", "finished/") {
		total += d.Rev
	}
	if total != uint64(finished) {
		c.t.Errorf("documents tell of %d finishes, acknowledged were %d", total, finished)
	}
	last := map[haulier.ID]haulier.Status{}
	for _, ch := range h.take() {
		if before := last[ch.Spec.ID]; before.State != ch.Before || ch.Status.State != 0 && ch.Status.Rev != before.Rev+1 {
			c.t.Errorf("job %v was heard of as %v at %d, then from %v at %d", ch.Spec.ID, before.State, before.Rev, ch.Before, ch.Status.Rev)
		}
		last[ch.Spec.ID] = ch.Status
	}
	for _, j := range all {
		if heard := last[j.ID]; heard.Rev != j.Rev || heard.State != j.State {
			c.t.Errorf("job %v is %v at %d, last heard of was %v at %d", j.ID, j.State, j.Rev, heard.State, heard.Rev)
		}
	}
}

func (c *crowd) client(r *rand.Rand, session haulier.ID, number int) {
	for range 80 {
		switch p := r.IntN(10); {
		case p < 3:
			c.insert(r)
		case p < 7:
			for _, j := range c.claim(r, session) {
				c.finish(r, j, number)
			}
		case p < 9:
			c.cancel(r)
		default:
			c.remove(r)
		}
	}
}

// told ends the client's step unless err is nil, or a conflict that the step may meet.
func (c *crowd) told(err error, conflict bool) bool {
	if err != nil && !(conflict && errors.Is(err, haulier.ErrConflict)) {
		c.t.Errorf("unexpected error: %v", err)
	}
	return err == nil
}

func (c *crowd) insert(r *rand.Rand) {
	b := haulier.Batch{Sync: r.IntN(4) == 0, CheckIDs: r.IntN(2) == 0}
	for range 1 + r.IntN(5) {
		b.Insert = append(b.Insert, c.f.job(c.lanes[r.IntN(3)], priority(r.IntN(2))))
	}
	if c.told(c.f.s.Commit(c.t.Context(), &b), false) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, j := range b.Insert {
			c.inserted[j.ID] = true
		}
	}
}

func (c *crowd) claim(r *rand.Rand, session haulier.ID) []haulier.Job {
	takes := []haulier.Take{take(c.lanes[r.IntN(3)], 1, 1+r.IntN(3)), take(c.lanes[r.IntN(3)], 0, r.IntN(4))}
	jobs, err := c.f.s.Claim(c.t.Context(), session, "w", takes)
	c.told(err, false)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range jobs {
		if c.attempts[j.ID] == nil {
			c.attempts[j.ID] = map[int]haulier.ID{}
		}
		if other, taken := c.attempts[j.ID][j.Attempt]; taken {
			c.t.Errorf("attempt %d of job %v was given to %v and to %v", j.Attempt, j.ID, other, session)
		}
		c.attempts[j.ID][j.Attempt] = session
	}
	return jobs
}

// finish ends a job, or gives it back; others may have cancelled it meanwhile.
func (c *crowd) finish(r *rand.Rand, j haulier.Job, number int) {
	if r.IntN(3) == 0 {
		b := haulier.Batch{Update: []haulier.JobUpdate{update(&j, pendingSince(c.f.now))}}
		c.told(c.f.s.Commit(c.t.Context(), &b), true)
		return
	}
	b := haulier.Batch{
		Sync:   r.IntN(4) == 0,
		Update: []haulier.JobUpdate{update(&j, ended(haulier.Succeeded, c.f.at(time.Hour)))},
		Docs:   []haulier.DocWrite{{Kind: "other", Key: name("finished/", number%3), Expect: haulier.AnyRev, Value: []byte("x")}},
	}
	if c.told(c.f.s.Commit(c.t.Context(), &b), true) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.finished[j.ID]++
	}
}

func (c *crowd) cancel(r *rand.Rand) {
	for _, j := range c.some(r, haulier.States[2+r.IntN(2)]) { // pending or claimed
		next := *j
		b := haulier.Batch{Update: []haulier.JobUpdate{update(&next, ended(haulier.Cancelled, c.f.at(time.Hour)))}}
		c.told(c.f.s.Commit(c.t.Context(), &b), true)
	}
}

func (c *crowd) remove(r *rand.Rand) {
	for _, j := range c.some(r, haulier.Cancelled) {
		b := haulier.Batch{Delete: []haulier.JobDelete{{ID: j.ID, Expect: j.Rev}}}
		if c.told(c.f.s.Commit(c.t.Context(), &b), true) {
			c.mu.Lock()
			c.deleted[j.ID] = true
			c.mu.Unlock()
		}
	}
}

func (c *crowd) some(r *rand.Rand, s haulier.State) []*haulier.Job {
	page, err := c.f.s.List(c.t.Context(), haulier.Query{State: s, Lanes: c.lanes[r.IntN(3):], Limit: 1 + r.IntN(2)})
	c.told(err, false)
	return page.Jobs
}
