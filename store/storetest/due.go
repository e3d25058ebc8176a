package storetest

import (
	"testing"
	"time"

	"github.com/haulier/haulier"
)

var dueTests = []test{
	{"nothing is due and nothing in sight in an empty store", testDueNothing},
	{"timers that have passed are due, the earliest first", testDueTimers},
	{"ended jobs are due for removal when their time has passed", testDuePurge},
	{"at most as many of each kind are due as asked for", testDueLimit},
	{"next is when the next timer, lease or removal falls due", testDueNext},
	{"what waits becomes due when its time comes", testBecomesDue},
}

func testDueNothing(_ *testing.T, f *fixture) {
	d := f.due(10)
	if len(d.Timers)+len(d.Purge)+len(d.Sessions) > 0 || !d.Next.IsZero() {
		f.t.Fatalf("due is %+v, want nothing", d)
	}
	f.insert(f.job(mail), f.job(mail, blocked))
	if d := f.due(10); len(d.Timers)+len(d.Purge) > 0 || !d.Next.IsZero() {
		f.t.Fatalf("due is %+v, want nothing", d)
	}
}

func testDueTimers(_ *testing.T, f *fixture) {
	at := func(d time.Duration) haulier.Job { return f.job(mail, scheduled(f.at(d))) }
	b, a, later, c, first := at(-time.Minute), at(-time.Hour), at(time.Hour), at(-time.Microsecond), at(-1e6*time.Hour)
	f.insert(b, a, later, c, first)
	f.wantIDs(f.due(10).Timers, first, a, b, c)
	f.move(&a, pendingSince(f.now))
	f.move(&b, scheduled(f.at(time.Hour)))
	f.wantIDs(f.due(10).Timers, first, c)
}

func testDuePurge(_ *testing.T, f *fixture) {
	at := func(l haulier.Lane, s haulier.State, d time.Duration) haulier.Job { return f.job(l, ended(s, f.at(d))) }
	other := lane("t", "q", "x")
	c, a := at(mail, haulier.Succeeded, -time.Minute), at(other, haulier.Failed, -time.Hour)
	d, b := at(mail, haulier.Collapsed, -time.Second), at(other, haulier.Cancelled, -30*time.Minute)
	f.insert(c, a, at(mail, haulier.Succeeded, time.Hour), d, b, at(other, haulier.Failed, 1000*time.Hour))
	f.wantIDs(f.due(10).Purge, a, b, c, d)
	f.commit(haulier.Batch{Delete: []haulier.JobDelete{{ID: a.ID, Expect: a.Rev}}})
	f.move(&c, pendingSince(f.now))
	f.wantIDs(f.due(10).Purge, b, d)
}

func testDueLimit(_ *testing.T, f *fixture) {
	var timers, ends []haulier.Job
	for i := range 9 {
		at := f.at(time.Duration(i-20) * time.Minute)
		timers = append(timers, f.job(lane("t", "q", name("x", i%2)), scheduled(at)))
		ends = append(ends, f.job(lane("t", "q", name("x", i%3)), ended(haulier.States[5+i%4], at)))
	}
	f.insert(timers...)
	f.insert(ends...)
	for _, limit := range []int{1, 4, 9, 100} {
		d := f.due(limit)
		f.wantIDs(d.Timers, timers[:min(limit, 9)]...)
		f.wantIDs(d.Purge, ends[:min(limit, 9)]...)
	}
}

// wantNext ends the test unless nothing is due and the next is in sight: not after at, and not past.
func (f *fixture) wantNext(at time.Time) {
	f.t.Helper()
	d := f.due(10)
	if len(d.Timers)+len(d.Purge)+len(d.Sessions) > 0 {
		f.t.Fatalf("due is %+v, want nothing yet", d)
	}
	if d.Next.IsZero() || d.Next.After(at) || d.Next.Before(f.now) {
		f.t.Fatalf("next is %v, want it by %v and not before %v", d.Next, at, f.now)
	}
}

func testDueNext(_ *testing.T, f *fixture) {
	purge := f.job(mail, ended(haulier.Failed, f.at(72*time.Hour)))
	f.insert(purge, f.job(lane("t", "q", "x"), ended(haulier.Succeeded, f.at(80*time.Hour))))
	f.wantNext(f.at(72 * time.Hour))
	session := f.session(48 * time.Hour)
	f.wantNext(f.clock().Add(48 * time.Hour))
	timer := f.job(mail, scheduled(f.at(24*time.Hour)))
	f.insert(timer, f.job(mail, scheduled(f.at(25*time.Hour))))
	f.wantNext(f.at(24 * time.Hour))
	f.must(f.s.Renew(f.ctx, session, 12*time.Hour))
	f.wantNext(f.clock().Add(12 * time.Hour))
	f.insert(f.job(mail, ended(haulier.Cancelled, f.at(6*time.Hour))))
	f.wantNext(f.at(6 * time.Hour))
}

func testBecomesDue(_ *testing.T, f *fixture) {
	at := f.at(50 * time.Millisecond)
	timer, purge := f.job(mail, scheduled(at)), f.job(mail, ended(haulier.Succeeded, at))
	f.insert(timer, purge)
	session := f.session(50 * time.Millisecond)
	f.soon("timer, removal and lease are due", func() bool {
		before := f.clock()
		d := f.due(10)
		if n := len(d.Timers) + len(d.Purge); n > 0 && f.clock().Before(at) {
			f.t.Fatalf("due before its time: %+v", d)
		}
		if n := len(d.Timers) + len(d.Purge); n < 2 && !before.Before(at) {
			f.t.Fatalf("at %v what falls due at %v is not: %+v", before, at, d)
		}
		return len(d.Timers) == 1 && len(d.Purge) == 1 && len(d.Sessions) == 1 && d.Sessions[0] == session
	})
}
