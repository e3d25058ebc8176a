package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/haulier/haulier"
)

var listTests = []test{
	{"all jobs come the newest first", testListAll},
	{"the jobs of a tenant are its own", testListTenant},
	{"the jobs of a session come by id, claimed and running", testListSession},
	{"pending jobs of a lane come by priority, time and id", testListPending},
	{"scheduled jobs come by time and id", testListScheduled},
	{"claimed and running jobs come by session and id", testListOwned},
	{"blocked jobs come by id", testListBlocked},
	{"ended jobs of a lane come the newest first", testListEnded},
	{"lanes come one after the other as asked", testListLanes},
	{"pages of any size make the same listing", testListPages},
	{"a bound on what is looked at shortens pages and loses nothing", testListMax},
	{"a listing goes on where it was though jobs come, move and go", testListMoving},
}

// wantList ends the test unless a query lists the jobs in that order, whatever the page size.
func (f *fixture) wantList(q haulier.Query, jobs ...haulier.Job) {
	f.t.Helper()
	for _, limit := range []int{1000, 1, 2} {
		q.Limit = limit
		f.wantIDs(idsAt(f.list(q)), jobs...)
	}
}

func testListAll(_ *testing.T, f *fixture) {
	f.wantList(haulier.Query{})
	a, b := f.job(mail, ended(haulier.Failed, f.at(time.Hour))), f.job(lane("t", "q", "x"), priority(9))
	c, d := f.job(mail, scheduled(f.at(-time.Hour))), f.job(mail, blocked)
	f.insert(c, a)
	f.insert(d, b)
	f.wantList(haulier.Query{}, d, c, b, a)
	f.same(f.list(haulier.Query{})[3], &a)
}

func testListTenant(_ *testing.T, f *fixture) {
	var jobs []haulier.Job
	for i, tenant := range []string{"a", "ab", "b", "a", "A", "ab", "a"} {
		change := []func(*haulier.Job){blocked, scheduled(f.at(time.Hour)), pendingSince(f.now)}[i%3]
		jobs = append(jobs, f.job(lane(tenant, "q", "x"), change))
	}
	f.insert(jobs...)
	f.wantList(haulier.Query{Tenant: "a"}, jobs[6], jobs[3], jobs[0])
	f.wantList(haulier.Query{Tenant: "ab"}, jobs[5], jobs[1])
	f.wantList(haulier.Query{Tenant: "A"}, jobs[4])
	f.wantList(haulier.Query{Tenant: "c"})
}

func testListSession(_ *testing.T, f *fixture) {
	one, two, none := f.session(time.Hour), f.session(time.Hour), f.session(time.Hour)
	a, b := f.job(mail, ownedBy(haulier.Running, one), priority(-4)), f.job(lane("t", "q", "x"), ownedBy(haulier.Claimed, one), priority(4))
	c, d := f.job(mail, ownedBy(haulier.Claimed, two)), f.job(mail, ownedBy(haulier.Running, one))
	f.insert(d, c, b, a)
	f.wantList(haulier.Query{Session: one}, a, b, d)
	f.wantList(haulier.Query{Session: two}, c)
	f.wantList(haulier.Query{Session: none})
	f.move(&b, ownedBy(haulier.Running, one))
	f.move(&a, ended(haulier.Succeeded, f.at(time.Hour)))
	f.wantList(haulier.Query{Session: one}, b, d)
}

func testListPending(_ *testing.T, f *fixture) {
	in := func(p int, at time.Duration) haulier.Job {
		return f.job(mail, priority(p), pendingSince(f.at(at)))
	}
	low, zero2, zero, high2, high := in(-10, -time.Hour), in(0, time.Second), in(0, 0), in(10, time.Microsecond), in(10, 0)
	zero3 := in(0, time.Second)
	f.insert(low, zero2, zero, high2, high, zero3)
	f.wantList(haulier.Query{State: haulier.Pending, Lanes: []haulier.Lane{mail}}, high, high2, zero, zero2, zero3, low)
	f.wantList(haulier.Query{State: haulier.Pending}, high, high2, zero, zero2, zero3, low)
}

func testListScheduled(_ *testing.T, f *fixture) {
	at := func(l haulier.Lane, d time.Duration) haulier.Job { return f.job(l, scheduled(f.at(d))) }
	other := lane("t", "q", "x")
	a, b, c, d, e := at(mail, time.Hour), at(other, -time.Hour), at(mail, 1000*time.Hour), at(mail, -time.Hour), at(other, time.Hour)
	f.insert(a, b, c, d, e)
	f.wantList(haulier.Query{State: haulier.Scheduled}, b, d, a, e, c)
	f.wantList(haulier.Query{State: haulier.Scheduled, Lanes: []haulier.Lane{mail}}, d, a, c)
}

func testListOwned(_ *testing.T, f *fixture) {
	one, two := f.session(time.Hour), f.session(time.Hour)
	in := func(s haulier.State, session haulier.ID) haulier.Job { return f.job(mail, ownedBy(s, session)) }
	a, b, c, d := in(haulier.Claimed, two), in(haulier.Running, two), in(haulier.Claimed, one), in(haulier.Running, one)
	e, g := in(haulier.Claimed, two), in(haulier.Running, one)
	f.insert(a, b, c, d, e, g)
	f.wantList(haulier.Query{State: haulier.Claimed}, c, a, e)
	f.wantList(haulier.Query{State: haulier.Running}, d, g, b)
	f.wantList(haulier.Query{State: haulier.Running, Lanes: []haulier.Lane{mail}}, d, g, b)
	f.wantList(haulier.Query{State: haulier.Running, Lanes: []haulier.Lane{lane("t", "q", "x")}})
}

func testListBlocked(_ *testing.T, f *fixture) {
	a, b, c := f.job(mail, blocked), f.job(lane("t", "q", "x"), blocked, priority(3)), f.job(mail, blocked, priority(5))
	f.insert(c, b, a)
	f.wantList(haulier.Query{State: haulier.Blocked}, a, b, c)
	f.wantList(haulier.Query{State: haulier.Blocked, Lanes: []haulier.Lane{mail}}, a, c)
}

func testListEnded(_ *testing.T, f *fixture) {
	for _, s := range []haulier.State{haulier.Succeeded, haulier.Failed, haulier.Cancelled, haulier.Collapsed} {
		at := func(d time.Duration) haulier.Job { return f.job(mail, ended(s, f.at(d)), priority(int(d/time.Hour))) }
		a, b, c, d := at(2*time.Hour), at(time.Hour), at(3*time.Hour), at(2*time.Hour)
		f.insert(a, b, c, d)
		f.wantList(haulier.Query{State: s, Lanes: []haulier.Lane{mail}}, c, d, a, b)
		f.wantList(haulier.Query{State: s}, c, d, a, b)
	}
}

func testListLanes(_ *testing.T, f *fixture) {
	lanes := []haulier.Lane{lane("t", "q", "b"), lane("s", "q", "c"), lane("t", "q", "a"), lane("none", "of", "them")}
	changes := map[haulier.State]func(*haulier.Job){
		haulier.Blocked: blocked, haulier.Scheduled: scheduled(f.at(time.Hour)), haulier.Pending: pendingSince(f.now),
		haulier.Running: ownedBy(haulier.Running, f.session(time.Hour)), haulier.Failed: ended(haulier.Failed, f.at(time.Hour)),
	}
	for s, change := range changes {
		var jobs [3][]haulier.Job
		for i := range 9 {
			j := f.job(lanes[i%3], change)
			jobs[i%3] = append(jobs[i%3], j)
			f.insert(j, f.job(mail, change))
		}
		if s.Terminal() {
			for i := range jobs {
				slices.Reverse(jobs[i])
			}
		}
		f.wantList(haulier.Query{State: s, Lanes: lanes}, slices.Concat(jobs[:]...)...)
		f.wantList(haulier.Query{State: s, Lanes: lanes[2:]}, jobs[2]...)
	}
}

func testListPages(_ *testing.T, f *fixture) {
	one, two := f.session(time.Hour), f.session(time.Hour)
	f.fillStates(one, two)
	queries := []haulier.Query{{}, {Tenant: "t"}, {Session: one}, {Session: two}}
	for _, s := range haulier.States {
		queries = append(queries, haulier.Query{State: s}, haulier.Query{State: s, Lanes: []haulier.Lane{lane("t", "q", "x"), mail}})
	}
	for _, q := range queries {
		want := idsAt(f.list(q))
		for _, limit := range []int{1, 2, 3, 7} {
			q.Limit = limit
			if got := idsAt(f.list(q)); !slices.Equal(got, want) {
				f.t.Fatalf("%+v lists %v\nby pages of 1000 %v", q, got, want)
			}
		}
	}
}

// fillStates inserts some jobs of each state in several lanes.
func (f *fixture) fillStates(one, two haulier.ID) {
	f.t.Helper()
	var jobs []haulier.Job
	for i := range 6 {
		for _, l := range []haulier.Lane{mail, lane("t", "q", "x"), lane("t", "p", "x")} {
			at := f.at(time.Duration(i/2) * time.Hour)
			for _, change := range []func(*haulier.Job){
				blocked, scheduled(at), pendingSince(at), ownedBy(haulier.Claimed, one), ownedBy(haulier.Running, two), ownedBy(haulier.Running, one),
				ended(haulier.Succeeded, at), ended(haulier.Failed, at), ended(haulier.Cancelled, at), ended(haulier.Collapsed, at),
			} {
				jobs = append(jobs, f.job(l, change, priority(i%3-1)))
			}
		}
	}
	f.insert(jobs...)
}

func testListMax(_ *testing.T, f *fixture) {
	one, two := f.session(time.Hour), f.session(time.Hour)
	f.fillStates(one, two)
	for _, q := range []haulier.Query{
		{}, {Tenant: "t"}, {Session: one}, {State: haulier.Running}, {State: haulier.Scheduled, Lanes: []haulier.Lane{mail}},
		{State: haulier.Failed, Lanes: []haulier.Lane{mail, lane("t", "p", "x")}}, {State: haulier.Pending},
	} {
		want := idsAt(f.list(q))
		for _, look := range []int{1, 5} {
			q.Limit, q.Max = 3, look
			if got := idsAt(f.list(q)); !slices.Equal(got, want) {
				f.t.Fatalf("%+v lists %v\nwithout the bound %v", q, got, want)
			}
		}
	}
}

func testListMoving(_ *testing.T, f *fixture) {
	session := f.session(time.Hour)
	var jobs []haulier.Job
	for i := range 8 {
		jobs = append(jobs, f.job(mail, pendingSince(f.at(time.Duration(i)*time.Second))))
	}
	f.insert(jobs...)
	q := haulier.Query{State: haulier.Pending, Lanes: []haulier.Lane{mail}, Limit: 4}
	page, err := f.s.List(f.ctx, q)
	f.must(err)
	f.wantIDs(idsAt(page.Jobs), jobs[:4]...)
	// What was seen goes, as does the job at the cursor; what comes sorts before it and after it.
	f.wantIDs(idsOf(f.claim(session, take(mail, 0, 2))), jobs[0], jobs[1])
	f.commit(haulier.Batch{Delete: []haulier.JobDelete{{ID: jobs[3].ID, Expect: 1}, {ID: jobs[5].ID, Expect: 1}}})
	f.insert(f.job(mail, pendingSince(f.at(-time.Hour))))
	last := f.job(mail, pendingSince(f.at(time.Hour)))
	f.insert(last)
	q.Cursor = page.Next
	f.wantIDs(idsAt(f.list(q)), jobs[4], jobs[6], jobs[7], last)
}
