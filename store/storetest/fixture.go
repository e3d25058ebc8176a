package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/haulier/haulier"
)

// fixture is a store under test, with short forms of its calls that end the test when they fail.
type fixture struct {
	t   TB
	ctx context.Context //nolint:containedctx // of the test
	s   haulier.Store
	now time.Time // of the store, when the test began, in microseconds
}

// fill wraps a fresh store.
func fill(t *testing.T, s haulier.Store) *fixture {
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return wrap(t, t.Context(), s)
}

func wrap(t TB, ctx context.Context, s haulier.Store) *fixture { //nolint:revive // the test comes first, as everywhere here
	f := &fixture{t: t, ctx: ctx, s: s}
	f.now = f.clock().Truncate(time.Microsecond)
	return f
}

// at is an instant d after the begin of the test.
func (f *fixture) at(d time.Duration) time.Time { return f.now.Add(d) }

func (f *fixture) clock() time.Time {
	f.t.Helper()
	now, err := f.s.Now(f.ctx)
	f.must(err)
	return now.UTC()
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatalf("unexpected error: %v", err)
	}
}

// wants ends the test unless err wraps the sentinel.
func (f *fixture) wants(err, sentinel error) {
	f.t.Helper()
	if !errors.Is(err, sentinel) {
		f.t.Fatalf("error is %v, want %v", err, sentinel)
	}
}

func lane(tenant, queue, typ string) haulier.Lane {
	return haulier.Lane{Tenant: tenant, Queue: queue, Type: typ, Kind: haulier.KindGo}
}

var mail = lane("default", "default", "mail")

// job is a new pending job, not yet in the store, changed as the test likes.
func (f *fixture) job(l haulier.Lane, change ...func(*haulier.Job)) haulier.Job {
	j := haulier.Job{Spec: haulier.Spec{
		ID: haulier.NewID(f.now), Tenant: l.Tenant, Queue: l.Queue, Type: l.Type, RunsOn: l.ParseRunsOn(),
		Payload: []byte("payload"), CreatedAt: f.now, MaxAttempts: 10,
	}}
	if l.Kind == haulier.KindExec {
		j.Task.Exec = &haulier.ExecTask{Argv: []string{"true"}}
	}
	j.Status = j.First(f.now, "test")
	for _, c := range change {
		c(&j)
	}
	return j
}

func priority(p int) func(*haulier.Job) { return func(j *haulier.Job) { j.Priority = p } }

// pendingSince makes the job pending since an instant.
func pendingSince(at time.Time) func(*haulier.Job) {
	return func(j *haulier.Job) { j.Status = stateOf(j.Status, haulier.Pending, at, haulier.NilID) }
}

// scheduled makes the job wait for an instant.
func scheduled(at time.Time) func(*haulier.Job) {
	return func(j *haulier.Job) { j.Status = stateOf(j.Status, haulier.Scheduled, at, haulier.NilID) }
}

// ended makes the job terminal, to be purged at an instant.
func ended(s haulier.State, purge time.Time) func(*haulier.Job) {
	return func(j *haulier.Job) { j.Status = stateOf(j.Status, s, purge, haulier.NilID) }
}

func ownedBy(s haulier.State, session haulier.ID) func(*haulier.Job) {
	return func(j *haulier.Job) { j.Status = stateOf(j.Status, s, time.Time{}, session) }
}

func blocked(j *haulier.Job) {
	j.Status = stateOf(j.Status, haulier.Blocked, time.Time{}, haulier.NilID)
}

// stateOf puts a status into a state, with only the fields set that the state has.
func stateOf(s haulier.Status, to haulier.State, at time.Time, session haulier.ID) haulier.Status {
	s.State, s.RunAt, s.PurgeAt, s.Session = to, time.Time{}, time.Time{}, haulier.NilID
	switch {
	case to == haulier.Pending || to == haulier.Scheduled:
		s.RunAt = at
	case to.Owned():
		s.Session = session
	case to.Terminal():
		s.PurgeAt = at
	}
	return s
}

func (f *fixture) commit(b haulier.Batch) {
	f.t.Helper()
	f.must(f.s.Commit(f.ctx, &b))
}

func (f *fixture) insert(jobs ...haulier.Job) {
	f.t.Helper()
	f.commit(haulier.Batch{Insert: jobs})
}

// update is the write that changes j's status, which it also changes in place.
func update(j *haulier.Job, change func(*haulier.Job)) haulier.JobUpdate {
	u := haulier.JobUpdate{Spec: &j.Spec, Expect: j.Rev}
	next := haulier.Job{Spec: j.Spec, Status: j.Status}
	change(&next)
	next.Rev = j.Rev + 1
	j.Status = next.Status
	u.Status = next.Status
	return u
}

func (f *fixture) move(j *haulier.Job, change func(*haulier.Job)) {
	f.t.Helper()
	f.commit(haulier.Batch{Update: []haulier.JobUpdate{update(j, change)}})
}

// session opens one with a lease, and returns its id.
func (f *fixture) session(lease time.Duration) haulier.ID {
	f.t.Helper()
	id := haulier.NewID(f.now)
	f.commit(haulier.Batch{Docs: []haulier.DocWrite{openSession(id, lease)}})
	return id
}

func openSession(id haulier.ID, lease time.Duration) haulier.DocWrite {
	return haulier.DocWrite{Kind: haulier.DocSession, Key: id.String(), Value: []byte("{}"), Lease: lease}
}

func (f *fixture) claim(session haulier.ID, takes ...haulier.Take) []haulier.Job {
	f.t.Helper()
	jobs, err := f.s.Claim(f.ctx, session, "worker", takes)
	f.must(err)
	return jobs
}

func take(l haulier.Lane, priority, n int) haulier.Take {
	return haulier.Take{Band: haulier.Band{Lane: l, Priority: priority}, N: n}
}

// get returns a job, nil when there is none.
func (f *fixture) get(id haulier.ID) *haulier.Job {
	f.t.Helper()
	jobs, err := f.s.Jobs(f.ctx, []haulier.ID{id})
	f.must(err)
	if len(jobs) != 1 {
		f.t.Fatalf("Jobs of one id returned %d", len(jobs))
	}
	return jobs[0]
}

// list returns all jobs that a query selects, page by page.
func (f *fixture) list(q haulier.Query) []*haulier.Job {
	f.t.Helper()
	var all []*haulier.Job
	if q.Limit == 0 {
		q.Limit = 1000
	}
	for range 100_000 {
		page, err := f.s.List(f.ctx, q)
		f.must(err)
		if len(page.Jobs) > q.Limit {
			f.t.Fatalf("a page has %d jobs, more than the limit of %d", len(page.Jobs), q.Limit)
		}
		all = append(all, page.Jobs...)
		if page.Next == "" {
			return all
		}
		q.Cursor = page.Next
	}
	f.t.Fatalf("the listing does not end")
	return nil
}

func (f *fixture) due(limit int) haulier.Due {
	f.t.Helper()
	d, err := f.s.Due(f.ctx, limit)
	f.must(err)
	return d
}

// soon asks until ok or ten seconds have passed: for what the clock brings.
func (f *fixture) soon(what string, ok func() bool) {
	f.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); !ok(); <-tick.C {
		if time.Now().After(end) {
			f.t.Fatalf("ten seconds have passed, and not yet: %s", what)
		}
	}
}

func idsOf(jobs []haulier.Job) []haulier.ID {
	ids := make([]haulier.ID, len(jobs))
	for i := range jobs {
		ids[i] = jobs[i].ID
	}
	return ids
}

func idsAt(jobs []*haulier.Job) []haulier.ID {
	ids := make([]haulier.ID, len(jobs))
	for i := range jobs {
		ids[i] = jobs[i].ID
	}
	return ids
}

// wantIDs ends the test unless got are the ids of jobs, in that order.
func (f *fixture) wantIDs(got []haulier.ID, jobs ...haulier.Job) {
	f.t.Helper()
	if want := idsOf(jobs); !slices.Equal(got, want) {
		f.t.Fatalf("ids are %v\nwant    %v", got, want)
	}
}

func name(prefix string, i int) string { return fmt.Sprintf("%s%03d", prefix, i) }
