package storetest

import (
	"testing"
	"time"

	"github.com/haulier/haulier"
)

// durableTest is one sentence about a store that is closed and opened again.
type durableTest struct {
	name string
	run  func(t *testing.T, dir string, open opener)
}

type opener = func(t *testing.T, dir string) haulier.Store

var durableTests = []durableTest{
	{"what was committed and claimed is there when it is opened again", testReopenAll},
	{"what was acknowledged while it closed is there when it is opened again", testReopenUnderLoad},
	{"sessions live on, with leases that run", testReopenSessions},
	{"a new job and a new revision follow the old ones", testReopenGoesOn},
}

// reopen closes the store and opens it again.
func (f *fixture) reopen(t *testing.T, dir string, open opener) {
	f.t.Helper()
	f.must(f.s.Close())
	f.s = open(t, dir)
	t.Cleanup(func() { _ = f.s.Close() })
	if f.s.Opened().ClaimsLost {
		t.Fatalf("after a clean close, it says that claims were lost")
	}
}

func testReopenAll(t *testing.T, dir string, open opener) {
	f := fill(t, open(t, dir))
	one, two := f.session(time.Hour), f.session(time.Hour)
	f.fillStates(one, two)
	full := fullJob(f)
	full.UpdatedAt = f.now
	f.insert(full)
	f.claim(one, take(mail, 0, 3))
	f.must(f.write("k", 0, "a"))
	f.must(f.write("k", 1, ""))
	want := f.snapshot()
	for range 3 {
		f.reopen(t, dir, open)
		if got := f.snapshot(); got != want {
			t.Fatalf("it was\n%s\nand is\n%s", want, got)
		}
		// A job of a session that never was stands in full's status, which Check would take for a fault.
	}
	f.same(f.get(full.ID), &full)
	f.commit(haulier.Batch{Delete: []haulier.JobDelete{{ID: full.ID, Expect: full.Rev}}})
	Check(f.ctx, t, f.s)
}

func testReopenUnderLoad(t *testing.T, dir string, open opener) {
	f := fill(t, open(t, dir))
	session := f.session(time.Hour)
	acknowledged := f.closeUnder(t.Context(), session)
	f.s = open(t, dir)
	t.Cleanup(func() { _ = f.s.Close() })
	for id := range acknowledged {
		if f.get(id) == nil {
			t.Errorf("job %v was acknowledged and is gone", id)
		}
	}
	Check(t.Context(), t, f.s)
}

func testReopenSessions(t *testing.T, dir string, open opener) {
	f := fill(t, open(t, dir))
	long, short, gone := f.session(time.Hour), f.session(50*time.Millisecond), f.session(50*time.Millisecond)
	f.commit(haulier.Batch{Docs: []haulier.DocWrite{{Kind: haulier.DocSession, Key: gone.String(), Expect: 1}}})
	f.insert(f.job(mail))
	f.reopen(t, dir, open)
	got := f.claim(long, take(mail, 0, 1))
	f.same(f.get(got[0].ID), &got[0])
	f.must(f.s.Renew(f.ctx, long, time.Hour))
	f.wants(f.s.Renew(f.ctx, gone, time.Hour), haulier.ErrLeaseLost)
	f.soon("the short lease is over", func() bool { return f.expired(short) })
	if f.expired(long) || f.expired(gone) {
		t.Fatalf("expired are %v, want the short one alone", f.due(10).Sessions)
	}
}

func testReopenGoesOn(t *testing.T, dir string, open opener) {
	f := fill(t, open(t, dir))
	session := f.session(time.Hour)
	a, b := f.job(mail), f.job(mail)
	f.insert(a, b)
	a = f.claim(session, take(mail, 0, 1))[0]
	f.must(f.write("k", 0, "x"))
	f.reopen(t, dir, open)
	stale := a
	stale.Rev--
	f.wants(f.s.Commit(f.ctx, &haulier.Batch{Update: []haulier.JobUpdate{update(&stale, blocked)}}), haulier.ErrConflict)
	f.move(&a, ended(haulier.Succeeded, f.at(time.Hour)))
	f.wants(f.write("k", 0, "y"), haulier.ErrConflict)
	f.must(f.write("k", 1, "y"))
	f.insert(f.job(mail))
	f.wantIDs(idsOf(f.claim(session, take(mail, 0, 1))), b)
	Check(f.ctx, t, f.s)
}
