package storetest

import (
	"context"
	"slices"
	"time"

	"github.com/haulier/haulier"
)

// Check looks over a store to which nobody writes at the moment: each job
// stands in exactly one index, all listings are in order, and the kept counts and bands
// are those of the jobs.
func Check(ctx context.Context, t TB, s haulier.Store) {
	t.Helper()
	f := wrap(t, ctx, s)
	all := f.list(haulier.Query{})
	if !slices.IsSortedFunc(all, func(a, b *haulier.Job) int { return compareIDs(b.ID, a.ID) }) {
		t.Errorf("the listing of all jobs is not the newest first")
	}
	seen := map[haulier.ID]*haulier.Job{}
	for _, j := range all {
		if seen[j.ID] != nil {
			t.Errorf("job %v is listed twice", j.ID)
		}
		seen[j.ID] = j
	}
	f.checkJobs(all)
	f.checkStates(seen)
	f.checkSessions(all)
	f.checkCounts(all)
	f.checkBands(all)
	f.checkDue(all)
}

// checkJobs compares the listing with what Jobs returns.
func (f *fixture) checkJobs(all []*haulier.Job) {
	f.t.Helper()
	for part := range slices.Chunk(all, 1000) {
		jobs, err := f.s.Jobs(f.ctx, idsAt(part))
		f.must(err)
		for i, j := range jobs {
			f.same(part[i], j)
		}
	}
}

// checkStates compares the index of each state with the jobs.
func (f *fixture) checkStates(jobs map[haulier.ID]*haulier.Job) {
	f.t.Helper()
	found := map[haulier.ID]haulier.State{}
	for _, s := range haulier.States {
		last := map[haulier.Lane]*haulier.Job{}
		for _, j := range f.list(haulier.Query{State: s}) {
			switch at, ok := found[j.ID]; {
			case ok:
				f.t.Errorf("job %v stands in the index of %v and again in that of %v", j.ID, at, s)
			case jobs[j.ID] == nil:
				f.t.Errorf("the index of %v has job %v, which does not exist", s, j.ID)
			case j.State != s || jobs[j.ID].State != s:
				f.t.Errorf("the index of %v has job %v, which is %v", s, j.ID, jobs[j.ID].State)
			}
			found[j.ID] = s
			group := haulier.Lane{}
			if byLane(s) {
				group = j.Lane()
			}
			if before := last[group]; before != nil && indexOrder(before, j) >= 0 {
				f.t.Errorf("the index of %v is out of order at job %v", s, j.ID)
			}
			last[group] = j
		}
	}
	for id, j := range jobs {
		if _, ok := found[id]; !ok {
			f.t.Errorf("job %v is %v and stands in no index", id, j.State)
		}
	}
}

// checkSessions compares the listing by session with the jobs.
func (f *fixture) checkSessions(all []*haulier.Job) {
	f.t.Helper()
	owned := map[haulier.ID][]haulier.ID{}
	for _, j := range slices.Backward(all) { // so that ids ascend
		switch {
		case j.State.Owned():
			owned[j.Session] = append(owned[j.Session], j.ID)
		case !j.Session.IsNil():
			f.t.Errorf("job %v is %v and has a session", j.ID, j.State)
		}
	}
	for session, want := range owned {
		if got := idsAt(f.list(haulier.Query{Session: session})); !slices.Equal(got, want) {
			f.t.Errorf("session %v has jobs %v\nwant %v", session, got, want)
		}
	}
}

func (f *fixture) checkCounts(all []*haulier.Job) {
	f.t.Helper()
	type key struct {
		lane  haulier.Lane
		state haulier.State
	}
	facts := map[key]int64{}
	for _, j := range all {
		facts[key{j.Lane(), j.State}]++
	}
	for _, c := range f.counts() {
		k := key{c.Lane, c.State}
		if c.N != facts[k] {
			f.t.Errorf("count of %v in %v is %d, there are %d", c.State, c.Lane, c.N, facts[k])
		}
		delete(facts, k)
	}
	for k, n := range facts {
		f.t.Errorf("no count of %v in %v, there are %d", k.state, k.lane, n)
	}
}

func (f *fixture) checkBands(all []*haulier.Job) {
	f.t.Helper()
	facts := map[haulier.Band]haulier.BandHead{}
	for _, j := range all {
		if j.State != haulier.Pending {
			continue
		}
		k := haulier.Band{Lane: j.Lane(), Priority: j.Priority}
		h := facts[k]
		if h.N == 0 || j.Status.RunAt.Before(h.Since) {
			h.Since = j.Status.RunAt
		}
		h.N++
		facts[k] = h
	}
	for _, h := range f.bands() {
		want := facts[h.Band]
		if h.N != want.N {
			f.t.Errorf("band %v priority %d has %d jobs, there are %d", h.Lane, h.Priority, h.N, want.N)
		}
		if h.Since.After(want.Since) {
			f.t.Errorf("band %v priority %d has jobs since %v, the first waits since %v", h.Lane, h.Priority, h.Since, want.Since)
		}
		delete(facts, h.Band)
	}
	for b, h := range facts {
		f.t.Errorf("no band %v priority %d, it has %d jobs", b.Lane, b.Priority, h.N)
	}
}

// checkDue compares timers and purges with the jobs.
func (f *fixture) checkDue(all []*haulier.Job) {
	f.t.Helper()
	before := f.clock()
	due := f.due(len(all) + 1)
	after := f.clock()
	f.checkFallen("timer", due.Timers, all, before, after, func(j *haulier.Job) (time.Time, bool) { return j.Status.RunAt, j.State == haulier.Scheduled })
	f.checkFallen("purge", due.Purge, all, before, after, func(j *haulier.Job) (time.Time, bool) { return j.PurgeAt, j.State.Terminal() })
}

// checkFallen says that got are the jobs whose time has come between before and after, the earliest first.
func (f *fixture) checkFallen(what string, got []haulier.ID, all []*haulier.Job, before, after time.Time, timeOf func(*haulier.Job) (time.Time, bool)) {
	f.t.Helper()
	times := map[haulier.ID]time.Time{}
	for _, j := range all {
		if at, ok := timeOf(j); ok {
			times[j.ID] = at
		}
	}
	var last time.Time
	for _, id := range got {
		at, ok := times[id]
		if !ok || at.After(after) {
			f.t.Errorf("%s of job %v is not due, and was returned", what, id)
		}
		if at.Before(last) {
			f.t.Errorf("%s of job %v comes too late in the list", what, id)
		}
		last = at
		delete(times, id)
	}
	for id, at := range times {
		if at.Before(before) {
			f.t.Errorf("%s of job %v fell due at %v, and was not returned", what, id, at)
		}
	}
}
