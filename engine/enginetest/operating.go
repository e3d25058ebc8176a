package enginetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/haulier/haulier"
)

func one(id haulier.ID) haulier.Selection { return haulier.Selection{IDs: []haulier.ID{id}} }

var operating = []behaviour{
	{"a waiting job is cancelled at once", func(t *testing.T, h *Harness) {
		id := h.add(nil)
		c, err := h.Cancel(t.Context(), one(id), "me", "not needed")
		if err != nil || c.N != 1 {
			t.Fatalf("%+v, %v", c, err)
		}
		if j := h.want(id, haulier.Cancelled); j.Reason != "not needed" {
			t.Errorf("reason %q", j.Reason)
		}
	}},
	{"a running job is cancelled through its worker, which is told at once", func(t *testing.T, h *Harness) {
		id := h.add(nil)
		s := h.open(nil)
		j := h.claimOne(s)
		h.report(s, haulier.Report{Ref: ref(j), Kind: haulier.ReportStart})
		reply := h.renewing(t.Context(), s, 10*time.Second)
		begin := time.Now()
		if c, err := h.Cancel(t.Context(), one(id), "me", ""); err != nil || c.N != 1 {
			t.Fatalf("%+v, %v", c, err)
		}
		r := <-reply
		if r.err != nil || len(r.Cancel) != 1 || r.Cancel[0] != ref(j) || time.Since(begin) > time.Millisecond {
			t.Fatalf("told %+v after %v", r, time.Since(begin))
		}
		if j := h.want(id, haulier.Running); !j.Cancelling {
			t.Error("not marked as cancelling")
		}
		h.finish(s, j, haulier.OutcomeError)
		h.want(id, haulier.Cancelled)
		if r, err := h.Renew(t.Context(), haulier.RenewRequest{Session: s}); err != nil || len(r.Cancel) != 0 {
			t.Errorf("still told after the acknowledgement: %+v, %v", r, err)
		}
	}},
	{"a cancellation outlives a restart of the server and the loss of the worker", func(t *testing.T, h *Harness) {
		a, b := h.add(nil), h.add(nil)
		s := h.open(nil)
		jobs := h.claim(s, 2)
		for _, id := range []haulier.ID{a, b} {
			if _, err := h.Cancel(t.Context(), one(id), "me", "stop"); err != nil {
				t.Fatal(err)
			}
		}
		h.restart()
		r, err := h.Renew(t.Context(), haulier.RenewRequest{Session: s, Held: []haulier.Ref{ref(jobs[0]), ref(jobs[1])}})
		if err != nil || len(r.Cancel) != 2 {
			t.Fatalf("told %+v, %v", r, err)
		}
		h.finish(s, jobs[0], haulier.OutcomeError)
		h.want(jobs[0].ID, haulier.Cancelled)
		h.pass(time.Minute)
		h.want(jobs[1].ID, haulier.Cancelled)
	}},
	{"a job that ends ok before it sees its cancellation has succeeded", func(t *testing.T, h *Harness) {
		id := h.add(nil)
		s := h.open(nil)
		j := h.claimOne(s)
		if _, err := h.Cancel(t.Context(), one(id), "me", ""); err != nil {
			t.Fatal(err)
		}
		h.finish(s, j, haulier.OutcomeOK)
		h.want(id, haulier.Succeeded)
	}},
	{"a failed job runs again by hand with all its attempts", func(t *testing.T, h *Harness) {
		id := h.add(func(s *haulier.Spec) { s.MaxAttempts = 1 })
		s := h.open(nil)
		h.finish(s, h.claimOne(s), haulier.OutcomeError)
		h.want(id, haulier.Failed)
		if c, err := h.Retry(t.Context(), one(id), "me"); err != nil || c.N != 1 {
			t.Fatalf("%+v, %v", c, err)
		}
		j := h.claimOne(s)
		if j.Tries() != 1 || j.Attempt != 2 {
			t.Errorf("tries %d, attempt %d", j.Tries(), j.Attempt)
		}
		h.finish(s, j, haulier.OutcomeOK)
		h.want(id, haulier.Succeeded)
	}},
	{"only jobs that have ended can be deleted", func(t *testing.T, h *Harness) {
		id := h.add(nil)
		c, err := h.Delete(t.Context(), one(id), "me")
		if err != nil || c.N != 0 || !errors.Is(c.Errors[id], haulier.ErrConflict) {
			t.Fatalf("%+v, %v", c, err)
		}
		if _, err := h.Cancel(t.Context(), one(id), "me", ""); err != nil {
			t.Fatal(err)
		}
		if c, err := h.Delete(t.Context(), one(id), "me"); err != nil || c.N != 1 {
			t.Fatalf("%+v, %v", c, err)
		}
		if h.get(id) != nil {
			t.Error("it is still there")
		}
	}},
	{"changes by filter reach every job that it selects and no other", func(t *testing.T, h *Harness) {
		const n = 1234
		specs := make([]haulier.Spec, n)
		for i := range specs {
			specs[i] = haulier.Spec{Type: "work", Group: "g", Labels: map[string]string{"k": fmt.Sprint(i % 2)}}
		}
		h.enqueue(specs...)
		other := h.add(nil)
		f := &haulier.Filter{Group: "g", Labels: map[string]string{"k": "1"}}
		if c, err := h.Cancel(t.Context(), haulier.Selection{Filter: f}, "me", ""); err != nil || c.N != n/2 {
			t.Fatalf("cancelled %d, %v; want %d", c.N, err, n/2)
		}
		h.want(other, haulier.Pending)
		if c, err := h.Retry(t.Context(), haulier.Selection{Filter: f}, "me"); err != nil || c.N != n/2 {
			t.Fatalf("retried %d, %v; want %d", c.N, err, n/2)
		}
		if c, err := h.Cancel(t.Context(), haulier.Selection{Filter: &haulier.Filter{Group: "g"}}, "me", ""); err != nil || c.N != n {
			t.Fatalf("cancelled %d, %v; want %d", c.N, err, n)
		}
		if c, err := h.Delete(t.Context(), haulier.Selection{Filter: &haulier.Filter{Group: "g"}}, "me"); err != nil || c.N != n {
			t.Fatalf("deleted %d, %v; want %d", c.N, err, n)
		}
		h.want(other, haulier.Pending)
		if docs, err := h.Store.Docs(t.Context(), haulier.DocWork, "", "", 10); err != nil || len(docs) != 0 {
			t.Errorf("work left over: %d, %v", len(docs), err)
		}
	}},
	{"a change by filter that a dead server began is completed by the next", func(t *testing.T, h *Harness) {
		h.enqueue(make500()...)
		h.end()
		err := h.Store.Commit(t.Context(), &haulier.Batch{Docs: []haulier.DocWrite{{
			Kind: haulier.DocWork, Key: haulier.NewID(time.Now()).String(),
			Value: []byte(`{"op":"cancel","filter":{"states":["pending"]},"by":"me","n":0}`),
		}}})
		if err != nil {
			t.Fatal(err)
		}
		h.begin()
		counts, err := h.Counts(t.Context(), "")
		if err != nil || len(counts) != 1 || counts[0].State != haulier.Cancelled || counts[0].N != 500 {
			t.Fatalf("counts %+v, %v", counts, err)
		}
	}},
	{"ended jobs are purged when their retention is over, failed ones later", func(t *testing.T, h *Harness) {
		s := h.open(nil)
		ok, bad := h.add(nil), h.add(nil)
		short := h.add(func(s *haulier.Spec) { s.Retention = haulier.Duration(time.Minute) })
		for _, j := range h.claim(s, 3) {
			o := haulier.OutcomeOK
			if j.ID == bad {
				o = haulier.OutcomeFailed
			}
			h.report(s, haulier.Report{Ref: ref(j), Kind: haulier.ReportFinish, Outcome: o, Log: frames("hello\n")})
		}
		h.pass(2 * time.Minute)
		if h.get(short) != nil || h.get(ok) == nil {
			t.Fatal("the short one must be gone, the others not")
		}
		h.pass(7 * 24 * time.Hour)
		if h.get(ok) != nil || h.get(bad) == nil {
			t.Fatal("after a week the good one must be gone, the failed one not")
		}
		h.pass(24 * 24 * time.Hour)
		if h.get(bad) != nil {
			t.Fatal("after a month the failed one must be gone")
		}
		if docs, err := h.Store.Docs(t.Context(), haulier.DocLog, "", "", 10); err != nil || len(docs) != 0 {
			t.Errorf("output left over: %d, %v", len(docs), err)
		}
	}},
	{"tokens let in who holds the secret, until they expire or are revoked", func(t *testing.T, h *Harness) {
		tok, secret, err := h.CreateToken(t.Context(), haulier.Token{Name: "ci", Role: haulier.RoleProducer, Tenant: "acme", ExpiresAt: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		got, err := h.Authenticate(t.Context(), secret)
		if err != nil || got.ID != tok.ID || got.Role != haulier.RoleProducer || got.Tenant != "acme" {
			t.Fatalf("authenticated %+v, %v", got, err)
		}
		for _, bad := range []string{"", "x", secret[:len(secret)-1], secret + "x", "hlr_" + secret} {
			if _, err := h.Authenticate(t.Context(), bad); !errors.Is(err, haulier.ErrUnauthenticated) {
				t.Errorf("secret %q: %v, want ErrUnauthenticated", bad, err)
			}
		}
		h.pass(2 * time.Hour)
		if _, err := h.Authenticate(t.Context(), secret); !errors.Is(err, haulier.ErrUnauthenticated) {
			t.Errorf("expired: %v", err)
		}
		tok, secret, err = h.CreateToken(t.Context(), haulier.Token{Name: "ops", Role: haulier.RoleAdmin, Tenant: "*"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Authenticate(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		if err := h.RevokeToken(t.Context(), "acme", tok.ID); !errors.Is(err, haulier.ErrNotFound) {
			t.Errorf("revoked by another tenant: %v", err)
		}
		if err := h.RevokeToken(t.Context(), "", tok.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Authenticate(t.Context(), secret); !errors.Is(err, haulier.ErrUnauthenticated) {
			t.Errorf("revoked: %v", err)
		}
	}},
}

func make500() []haulier.Spec {
	specs := make([]haulier.Spec, 500)
	for i := range specs {
		specs[i].Type = "work"
	}
	return specs
}
