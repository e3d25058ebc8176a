package storetest

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/haulier/haulier"
)

var claimTests = []test{
	{"the first of a band by time, then id, come first", testClaimOrder},
	{"a band is one priority of one lane", testClaimBand},
	{"jobs come in order of the takes", testClaimTakes},
	{"fewer jobs than asked for is no error", testClaimFewer},
	{"a claim is what the rule book says", testClaimRule},
	{"a claim is visible when it returns", testClaimVisible},
	{"a job that came back is claimed again in its turn", testClaimAgain},
	{"a change decided before the claim conflicts after it", testClaimFences},
	{"a session that does not exist claims nothing", testClaimWithoutSession},
	{"concurrent claims never give a job twice", testClaimOnce},
	{"bands tell how many wait and since when", testBands},
}

func testClaimOrder(_ *testing.T, f *fixture) {
	session := f.session(time.Hour)
	late, early := f.job(mail, pendingSince(f.at(time.Microsecond))), f.job(mail, pendingSince(f.at(-time.Hour)))
	first, second := f.job(mail), f.job(mail)
	longAgo := f.job(mail, pendingSince(time.Date(1999, 1, 2, 3, 4, 5, 0, time.UTC)))
	f.insert(second, late, first)
	f.insert(longAgo, early)
	want := []haulier.Job{longAgo, early, first, second, late}
	for _, j := range want {
		f.wantIDs(idsOf(f.claim(session, take(mail, 0, 1))), j)
	}
}

func testClaimBand(_ *testing.T, f *fixture) {
	session := f.session(time.Hour)
	lanes := []haulier.Lane{
		mail, lane("default", "default", "mai"), lane("default", "default", "mail2"), lane("default", "defaultmai", "l"),
		lane("defaultd", "efault", "mail"), lane("Default", "default", "mail"), lane("default:default", "mail", "x"), lane("default", "default:mail", "x"),
		lane("größe", "default", "mail"), lane("defaul", "default", "mail"),
		{Tenant: "default", Queue: "default", Type: "mail", Kind: haulier.KindExec},
		{Tenant: "default", Queue: "default", Type: "mail", Kind: haulier.KindExec, RunsOn: "gpu=true"},
		{Tenant: "default", Queue: "default", Type: "mail", Kind: haulier.KindExec, RunsOn: "arch=arm64,gpu=true"},
	}
	priorities := []int{-haulier.MaxPriority, -1, 0, 1, haulier.MaxPriority}
	jobs := map[haulier.Band]haulier.Job{}
	for _, l := range lanes {
		for _, p := range priorities {
			jobs[haulier.Band{Lane: l, Priority: p}] = f.job(l, priority(p))
			f.insert(jobs[haulier.Band{Lane: l, Priority: p}])
		}
	}
	Check(f.ctx, f.t, f.s)
	for band, j := range jobs {
		f.wantIDs(idsOf(f.claim(session, haulier.Take{Band: band, N: 100})), j)
	}
	Check(f.ctx, f.t, f.s)
}

func testClaimTakes(_ *testing.T, f *fixture) {
	session := f.session(time.Hour)
	other := lane("t", "q", "x")
	a1, a2, a3 := f.job(mail), f.job(mail), f.job(mail)
	b1, b2 := f.job(other, pendingSince(f.at(-time.Hour))), f.job(other, pendingSince(f.at(-time.Minute)))
	high := f.job(mail, priority(5))
	f.insert(a1, a2, a3, b1, b2, high)
	got := f.claim(session, take(mail, 0, 2), take(other, 0, 10), take(other, 3, 1), take(mail, 5, 1), take(mail, 0, 1))
	f.wantIDs(idsOf(got), a1, a2, b1, b2, high, a3)
}

func testClaimFewer(_ *testing.T, f *fixture) {
	session := f.session(time.Hour)
	j := f.job(mail)
	f.insert(j)
	f.wantIDs(idsOf(f.claim(session)))
	f.wantIDs(idsOf(f.claim(session, take(mail, 0, 0))))
	f.wantIDs(idsOf(f.claim(session, take(lane("no", "such", "lane"), 0, 5))))
	f.wantIDs(idsOf(f.claim(session, take(mail, 1, 5))))
	f.wantIDs(idsOf(f.claim(session, take(mail, 0, 5))), j)
	f.wantIDs(idsOf(f.claim(session, take(mail, 0, 5))))
}

func testClaimRule(_ *testing.T, f *fixture) {
	session := f.session(time.Hour)
	j := fullJob(f)
	j.Status = stateOf(j.Status, haulier.Pending, f.now, haulier.NilID)
	f.insert(j)
	before := f.clock()
	got := f.claim(session, take(j.Lane(), j.Priority, 1))
	after := f.clock()
	f.wantIDs(idsOf(got), j)
	if at := got[0].UpdatedAt; at.Before(before.Truncate(time.Microsecond)) || at.After(after) {
		f.t.Fatalf("the claim is of %v, it was made between %v and %v", at, before, after)
	}
	want := j
	var err error
	want.Status, err = j.Next(haulier.Event{Kind: haulier.EventClaim, Session: session, By: "worker"}, got[0].UpdatedAt)
	f.must(err)
	f.same(&got[0], &want)
	f.same(f.get(j.ID), &want)
}

func testClaimVisible(_ *testing.T, f *fixture) {
	session := f.session(time.Hour)
	a, b := f.job(mail), f.job(mail)
	f.insert(a, b)
	got := f.claim(session, take(mail, 0, 1))
	f.same(f.get(a.ID), &got[0])
	f.wantIDs(idsAt(f.list(haulier.Query{Session: session})), a)
	f.wantIDs(idsAt(f.list(haulier.Query{State: haulier.Claimed})), a)
	f.wantIDs(idsAt(f.list(haulier.Query{State: haulier.Pending})), b)
	Check(f.ctx, f.t, f.s)
}

func testClaimAgain(_ *testing.T, f *fixture) {
	session := f.session(time.Hour)
	a, b := f.job(mail), f.job(mail)
	f.insert(a, b)
	got := f.claim(session, take(mail, 0, 2))
	f.wantIDs(idsOf(got), a, b)
	f.move(&got[0], pendingSince(f.at(time.Second)))
	f.move(&got[1], pendingSince(f.now))
	again := f.claim(session, take(mail, 0, 2))
	f.wantIDs(idsOf(again), b, a)
	if again[0].Attempt != 2 {
		f.t.Fatalf("it is attempt %d, want 2", again[0].Attempt)
	}
	Check(f.ctx, f.t, f.s)
}

func testClaimFences(_ *testing.T, f *fixture) {
	session := f.session(time.Hour)
	j := f.job(mail)
	f.insert(j)
	stale := j
	got := f.claim(session, take(mail, 0, 1))
	b := haulier.Batch{Update: []haulier.JobUpdate{update(&stale, ended(haulier.Cancelled, f.at(time.Hour)))}}
	f.wants(f.s.Commit(f.ctx, &b), haulier.ErrConflict)
	f.same(f.get(j.ID), &got[0])
	f.move(&got[0], ownedBy(haulier.Running, session))
	f.same(f.get(j.ID), &got[0])
}

func testClaimWithoutSession(_ *testing.T, f *fixture) {
	session := f.session(time.Hour)
	f.insert(f.job(mail))
	before := f.snapshot()
	_, err := f.s.Claim(f.ctx, haulier.NewID(f.now), "worker", []haulier.Take{take(mail, 0, 1)})
	f.wants(err, haulier.ErrLeaseLost)
	if after := f.snapshot(); after != before {
		f.t.Fatalf("the refused claim changed the store to\n%s", after)
	}
	f.commit(haulier.Batch{Docs: []haulier.DocWrite{{Kind: haulier.DocSession, Key: session.String(), Expect: 1}}})
	_, err = f.s.Claim(f.ctx, session, "worker", []haulier.Take{take(mail, 0, 1)})
	f.wants(err, haulier.ErrLeaseLost)
	Check(f.ctx, f.t, f.s)
}

func testClaimOnce(t *testing.T, f *fixture) {
	const jobs, claimers = 600, 6
	lanes := []haulier.Lane{mail, lane("t", "q", "x"), lane("t", "q", "y")}
	sessions := make([]haulier.ID, claimers)
	for i := range sessions {
		sessions[i] = f.session(time.Hour)
	}
	got := make([][]haulier.Job, claimers)
	var inserting, claiming sync.WaitGroup
	inserted := make(chan struct{})
	for i := range 3 {
		inserting.Go(func() {
			for range jobs / 3 / 10 {
				var b haulier.Batch
				for range 10 {
					b.Insert = append(b.Insert, f.job(lanes[i]))
				}
				if err := f.s.Commit(t.Context(), &b); err != nil {
					t.Errorf("insert: %v", err)
				}
			}
		})
	}
	for i := range claimers {
		claiming.Go(func() {
			for last := false; ; {
				select {
				case <-inserted:
					last = true
				default:
				}
				more, err := f.s.Claim(t.Context(), sessions[i], "worker", []haulier.Take{take(lanes[i%3], 0, 3), take(lanes[(i+1)%3], 0, 2), take(lanes[(i+2)%3], 0, 2)})
				if err != nil {
					t.Errorf("claim: %v", err)
					return
				}
				got[i] = append(got[i], more...)
				if last && len(more) == 0 {
					return
				}
			}
		})
	}
	inserting.Wait()
	close(inserted)
	claiming.Wait()
	owner := map[haulier.ID]haulier.ID{}
	for i, list := range got {
		for _, j := range list {
			if _, twice := owner[j.ID]; twice || j.Attempt != 1 || j.Session != sessions[i] {
				t.Errorf("job %v was given twice: attempt %d to %v", j.ID, j.Attempt, j.Session)
			}
			owner[j.ID] = sessions[i]
		}
	}
	if len(owner) != jobs {
		t.Errorf("%d of %d jobs were claimed", len(owner), jobs)
	}
	for _, j := range f.list(haulier.Query{State: haulier.Claimed}) {
		if owner[j.ID] != j.Session {
			t.Errorf("job %v belongs to %v, and was given to %v", j.ID, j.Session, owner[j.ID])
		}
	}
	Check(t.Context(), t, f.s)
}

func testBands(_ *testing.T, f *fixture) {
	session := f.session(time.Hour)
	if heads := f.bands(); len(heads) > 0 {
		f.t.Fatalf("an empty store has bands %v", heads)
	}
	other := lane("t", "q", "x")
	f.insert(
		f.job(mail, pendingSince(f.at(-time.Hour))), f.job(mail), f.job(mail, priority(2)), f.job(other),
		f.job(other, scheduled(f.at(time.Hour))), f.job(mail, ended(haulier.Failed, f.at(time.Hour))), f.job(mail, blocked),
	)
	Check(f.ctx, f.t, f.s)
	type band struct {
		haulier.Band
		n int64
	}
	want := []band{{haulier.Band{Lane: mail, Priority: 0}, 2}, {haulier.Band{Lane: mail, Priority: 2}, 1}, {haulier.Band{Lane: other}, 1}}
	var got []band
	for _, h := range f.bands() {
		got = append(got, band{h.Band, h.N})
	}
	if !slices.Equal(got, want) {
		f.t.Fatalf("bands are %v, want %v", got, want)
	}
	f.claim(session, take(mail, 0, 2), take(other, 0, 1))
	if got := f.bands(); len(got) != 1 || got[0].Priority != 2 {
		f.t.Fatalf("bands are %v, want that of priority 2 alone", got)
	}
}
