package storetest

import (
	"testing"
	"time"

	"github.com/haulier/haulier"
)

var indexTests = []test{
	{"a job stands in the index of its state alone, through every move", testEveryMove},
	{"a change within a state keeps the job's place, or moves it by its time", testWithinState},
	{"counts follow the commits and claims", testCounts},
}

// testEveryMove moves a job from each state to each, and looks each time.
func testEveryMove(_ *testing.T, f *fixture) {
	one, two := f.session(time.Hour), f.session(time.Hour)
	states := []func(*haulier.Job){
		blocked, scheduled(f.at(-time.Hour)), scheduled(f.at(time.Hour)), pendingSince(f.now), pendingSince(f.at(-time.Hour)),
		ownedBy(haulier.Claimed, one), ownedBy(haulier.Running, one), ownedBy(haulier.Running, two),
		ended(haulier.Succeeded, f.at(-time.Hour)), ended(haulier.Failed, f.at(time.Hour)), ended(haulier.Cancelled, f.at(time.Hour)), ended(haulier.Collapsed, f.now),
	}
	// Others stand still beside it, so that a wrong neighbour moved is seen.
	f.fillStates(one, two)
	j := f.job(mail)
	f.insert(j)
	for _, from := range states {
		for _, to := range states {
			f.move(&j, from)
			f.move(&j, to)
			f.same(f.get(j.ID), &j)
			f.checkCounts(f.list(haulier.Query{}))
		}
		Check(f.ctx, f.t, f.s)
	}
}

func testWithinState(_ *testing.T, f *fixture) {
	session := f.session(time.Hour)
	a, b := f.job(mail, scheduled(f.at(time.Hour))), f.job(mail, scheduled(f.at(2*time.Hour)))
	f.insert(a, b)
	f.move(&a, scheduled(f.at(3*time.Hour)))
	f.wantIDs(idsAt(f.list(haulier.Query{State: haulier.Scheduled})), b, a)
	f.move(&a, pendingSince(f.at(time.Second)))
	f.move(&b, pendingSince(f.now))
	f.wantIDs(idsAt(f.list(haulier.Query{State: haulier.Pending})), b, a)
	f.move(&b, pendingSince(f.at(time.Minute)))
	f.wantIDs(idsAt(f.list(haulier.Query{State: haulier.Pending})), a, b)
	Check(f.ctx, f.t, f.s)
	got := f.claim(session, take(mail, 0, 2))
	f.wantIDs(idsOf(got), a, b)
	for i := range got {
		f.move(&got[i], func(j *haulier.Job) { j.State = haulier.Running })
		f.move(&got[i], func(j *haulier.Job) { j.Percent = 50 })
	}
	f.wantIDs(idsAt(f.list(haulier.Query{Session: session})), a, b)
	f.move(&got[1], ended(haulier.Failed, f.at(time.Hour)))
	f.move(&got[0], ended(haulier.Failed, f.at(2*time.Hour)))
	f.move(&got[1], ended(haulier.Failed, f.at(3*time.Hour)))
	f.wantIDs(idsAt(f.list(haulier.Query{State: haulier.Failed})), b, a)
	Check(f.ctx, f.t, f.s)
}

func testCounts(_ *testing.T, f *fixture) {
	session := f.session(time.Hour)
	if counts := f.counts(); len(counts) > 0 {
		f.t.Fatalf("an empty store counts %v", counts)
	}
	other := lane("t", "q", "x")
	f.insert(f.job(mail), f.job(mail, priority(3)), f.job(other), f.job(other, blocked))
	want := func(counts ...haulier.Count) {
		f.t.Helper()
		got := f.counts()
		if len(got) != len(counts) {
			f.t.Fatalf("counts are %v, want %v", got, counts)
		}
		for i := range got {
			if got[i] != counts[i] {
				f.t.Fatalf("counts are %v, want %v", got, counts)
			}
		}
	}
	count := func(l haulier.Lane, s haulier.State, n int64) haulier.Count {
		return haulier.Count{Lane: l, State: s, N: n}
	}
	want(count(mail, haulier.Pending, 2), count(other, haulier.Blocked, 1), count(other, haulier.Pending, 1))
	got := f.claim(session, take(mail, 3, 1), take(other, 0, 1))
	want(count(mail, haulier.Pending, 1), count(mail, haulier.Claimed, 1), count(other, haulier.Blocked, 1), count(other, haulier.Claimed, 1))
	f.move(&got[0], ended(haulier.Succeeded, f.at(time.Hour)))
	f.commit(haulier.Batch{Delete: []haulier.JobDelete{{ID: got[1].ID, Expect: got[1].Rev}}})
	want(count(mail, haulier.Pending, 1), count(mail, haulier.Succeeded, 1), count(other, haulier.Blocked, 1))
}
