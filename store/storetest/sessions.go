package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/haulier/haulier"
)

var sessionTests = []test{
	{"a lease begins with the session's document", testLeaseBegins},
	{"a renewed lease lasts longer", testLeaseRenewed},
	{"a renewal may shorten the lease", testLeaseShortened},
	{"sessions come in the order in which they expired", testLeaseOrder},
	{"a session that does not exist can't be renewed", testLeaseUnknown},
	{"a session ends with its document", testLeaseEnds},
	{"expiry changes no job", testLeaseLeavesJobs},
}

func (f *fixture) expired(session haulier.ID) bool {
	f.t.Helper()
	return slices.Contains(f.due(100).Sessions, session)
}

func testLeaseBegins(_ *testing.T, f *fixture) {
	const lease = 60 * time.Millisecond
	begun := f.clock()
	session := f.session(lease)
	long := f.session(time.Hour)
	f.soon("the session has expired", func() bool {
		if !f.expired(session) {
			return false
		}
		if ran := f.clock().Sub(begun); ran < lease {
			f.t.Fatalf("a lease of %v was over after %v", lease, ran)
		}
		return true
	})
	if f.expired(long) {
		f.t.Fatalf("a lease of an hour is over")
	}
	doc, err := f.s.Doc(f.ctx, haulier.DocSession, session.String())
	f.must(err)
	if string(doc.Value) != "{}" {
		f.t.Fatalf("the document of the expired session is %q", doc.Value)
	}
}

func testLeaseRenewed(_ *testing.T, f *fixture) {
	session, witness := f.session(300*time.Millisecond), f.session(300*time.Millisecond)
	f.must(f.s.Renew(f.ctx, session, time.Hour))
	f.soon("the witness has expired", func() bool { return f.expired(witness) })
	if f.expired(session) {
		f.t.Fatalf("the renewed session has expired with the other")
	}
	f.wantIDs(idsOf(f.claim(session, take(mail, 0, 1))))
}

func testLeaseShortened(_ *testing.T, f *fixture) {
	session := f.session(time.Hour)
	f.must(f.s.Renew(f.ctx, session, 20*time.Millisecond))
	f.soon("the shortened session has expired", func() bool { return f.expired(session) })
}

func testLeaseOrder(_ *testing.T, f *fixture) {
	var want []haulier.ID
	var b haulier.Batch
	for i := range 4 {
		want = append(want, haulier.NewID(f.now))
		b.Docs = append(b.Docs, openSession(want[i], time.Duration(200-50*i)*time.Millisecond))
	}
	f.commit(b)
	slices.Reverse(want)
	f.soon("all have expired in their order", func() bool {
		got := f.due(100).Sessions
		if !slices.Equal(got, want[:len(got)]) {
			f.t.Fatalf("expired are %v, want them in order of %v", got, want)
		}
		return len(got) == len(want)
	})
	if got := f.due(2).Sessions; !slices.Equal(got, want[:2]) {
		f.t.Fatalf("the first two are %v, want %v", got, want[:2])
	}
}

func testLeaseUnknown(_ *testing.T, f *fixture) {
	f.session(time.Hour)
	f.wants(f.s.Renew(f.ctx, haulier.NewID(f.now), time.Hour), haulier.ErrLeaseLost)
	if d := f.due(10); len(d.Sessions) > 0 {
		f.t.Fatalf("expired sessions are %v, want none", d.Sessions)
	}
}

func testLeaseEnds(_ *testing.T, f *fixture) {
	gone, kept := f.session(10*time.Millisecond), f.session(10*time.Millisecond)
	f.commit(haulier.Batch{Docs: []haulier.DocWrite{{Kind: haulier.DocSession, Key: gone.String(), Expect: haulier.AnyRev}}})
	f.wants(f.s.Renew(f.ctx, gone, time.Hour), haulier.ErrLeaseLost)
	f.soon("the kept session has expired", func() bool {
		if f.expired(gone) {
			f.t.Fatalf("a session without document has expired")
		}
		return f.expired(kept)
	})
	f.commit(haulier.Batch{Docs: []haulier.DocWrite{{Kind: haulier.DocSession, Key: kept.String(), Expect: 1}}})
	if d := f.due(10); len(d.Sessions) > 0 || !d.Next.IsZero() {
		f.t.Fatalf("due is %+v after the last session was removed, want nothing", d)
	}
}

func testLeaseLeavesJobs(_ *testing.T, f *fixture) {
	session := f.session(40 * time.Millisecond)
	f.insert(f.job(mail))
	got := f.claim(session, take(mail, 0, 1))
	f.soon("the session has expired", func() bool { return f.expired(session) })
	f.same(f.get(got[0].ID), &got[0])
	Check(f.ctx, f.t, f.s)
}
