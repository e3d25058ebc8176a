package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/blob"
	"github.com/haulier/haulier/engine"
	"github.com/haulier/haulier/store/mem"
)

// forgetful is a store that has been through a power cut: the claims are gone.
func forgetful(t *testing.T) (*engine.Engine, *blob.Store, haulier.ID, []haulier.ID) {
	t.Helper()
	s := mem.Open(mem.Options{ClaimsLost: true})
	blobs, err := blob.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	before, err := engine.New(engine.Config{Store: s, Blobs: blobs})
	if err != nil {
		t.Fatal(err)
	}
	session, err := before.OpenSession(t.Context(), haulier.Session{Worker: "w", Kinds: []haulier.Kind{haulier.KindGo}, Types: []string{"t"}})
	if err != nil {
		t.Fatal(err)
	}
	res, err := before.Enqueue(t.Context(), []haulier.EnqueueRequest{{Jobs: []haulier.Spec{{Type: "t"}, {Type: "t"}, {Type: "t"}}}})
	if err != nil || res[0].Err != nil {
		t.Fatal(err, res)
	}
	before.Close()
	e, err := engine.New(engine.Config{Store: s, Blobs: blobs})
	if err != nil {
		t.Fatal(err)
	}
	return e, blobs, session.ID, res[0].IDs
}

func claimAll(t *testing.T, e *engine.Engine) int {
	t.Helper()
	other, err := e.OpenSession(t.Context(), haulier.Session{Worker: "other", Kinds: []haulier.Kind{haulier.KindGo}, Types: []string{"t"}})
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := e.Claim(t.Context(), haulier.ClaimRequest{Session: other.ID, N: 10})
	if err != nil {
		t.Fatal(err)
	}
	return len(jobs)
}

func TestAfterAPowerCut(t *testing.T) {
	t.Run("workers say again what they run before jobs are handed out", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e, blobs, session, ids := forgetful(t)
			defer blobs.Close()
			defer e.Close()
			if n := claimAll(t, e); n != 0 {
				t.Fatalf("%d jobs handed out at once", n)
			}
			first, err := e.Renew(t.Context(), haulier.RenewRequest{Session: session, Epoch: "before"})
			if err != nil || !first.Resend {
				t.Fatalf("the worker is not asked: %+v, %v", first, err)
			}
			errs, err := e.Report(t.Context(), session, []haulier.Report{{Ref: haulier.Ref{Job: ids[0], Attempt: 1}, Kind: haulier.ReportFinish, Outcome: haulier.OutcomeOK}})
			if err != nil || errs[0] != nil {
				t.Fatalf("a finish whose claim was forgotten: %v, %v", errs, err)
			}
			reply, err := e.Renew(t.Context(), haulier.RenewRequest{Session: session, Epoch: first.Epoch, Held: []haulier.Ref{{Job: ids[1], Attempt: 1}, {Job: ids[2], Attempt: 7}}})
			if err != nil || len(reply.Lost) != 1 || reply.Lost[0].Job != ids[2] {
				t.Fatalf("renew with what is held: %+v, %v", reply, err)
			}
			jobs, err := e.Get(t.Context(), "", ids)
			if err != nil || jobs[0].State != haulier.Succeeded || jobs[1].State != haulier.Claimed || jobs[1].Session != session {
				t.Fatalf("states %v %v, %v", jobs[0].State, jobs[1].State, err)
			}
			if n := claimAll(t, e); n != 1 {
				t.Fatalf("%d jobs handed out afterwards, want the one that nobody runs", n)
			}
		})
	})
	t.Run("an idle worker that answers with nothing holds nobody up", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e, blobs, session, ids := forgetful(t)
			defer blobs.Close()
			defer e.Close()
			first, err := e.Renew(t.Context(), haulier.RenewRequest{Session: session})
			if err != nil || !first.Resend {
				t.Fatalf("the worker is not asked: %+v, %v", first, err)
			}
			if _, err := e.Renew(t.Context(), haulier.RenewRequest{Session: session, Epoch: first.Epoch}); err != nil {
				t.Fatal(err)
			}
			if n := claimAll(t, e); n != len(ids) {
				t.Fatalf("%d jobs handed out, want %d", n, len(ids))
			}
		})
	})
	t.Run("a worker that stays silent holds the others up for one lease at most", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e, blobs, _, ids := forgetful(t)
			defer blobs.Close()
			defer e.Close()
			<-time.After(haulier.DefaultLease + time.Second)
			synctest.Wait()
			if n := claimAll(t, e); n != len(ids) {
				t.Fatalf("%d jobs handed out, want %d", n, len(ids))
			}
		})
	})
}
