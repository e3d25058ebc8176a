package enginetest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/haulier/haulier"
)

var attempts = []behaviour{
	{"a job goes from pending to succeeded and its history says so", func(t *testing.T, h *Harness) {
		id := h.add(nil)
		s := h.open(nil)
		j := h.claimOne(s)
		errs := h.report(s,
			haulier.Report{Ref: ref(j), Kind: haulier.ReportStart},
			haulier.Report{Ref: ref(j), Kind: haulier.ReportProgress, Percent: 40, Step: "half way"})
		if errs[0] != nil || errs[1] != nil {
			t.Fatal(errs)
		}
		if r := h.want(id, haulier.Running); r.Percent != 40 || r.Step != "half way" {
			t.Fatalf("progress %v %q", r.Percent, r.Step)
		}
		h.report(s, haulier.Report{Ref: ref(j), Kind: haulier.ReportFinish, Outcome: haulier.OutcomeOK, Result: []byte(`{"n":1}`)})
		d := h.want(id, haulier.Succeeded)
		var path []string
		for _, c := range d.History {
			path = append(path, c.State.String())
		}
		if got := strings.Join(path, " "); got != "pending claimed running running succeeded" {
			t.Errorf("history %q", got)
		}
		if string(d.Status.Result) != `{"n":1}` || d.Worker != "w1" || !d.Session.IsNil() {
			t.Errorf("done: %+v", d.Status)
		}
	}},
	{"an error runs again after the back-off until the attempts are used up", func(t *testing.T, h *Harness) {
		id := h.add(func(s *haulier.Spec) {
			s.MaxAttempts = 3
			s.Backoff = &haulier.Backoff{List: []haulier.Duration{haulier.Duration(time.Minute), haulier.Duration(time.Hour)}}
		})
		s := h.open(nil)
		for _, wait := range []time.Duration{time.Minute, time.Hour} {
			h.finish(s, h.claimOne(s), haulier.OutcomeError)
			h.want(id, haulier.Scheduled)
			h.keep(s, wait-time.Second)
			h.want(id, haulier.Scheduled)
			h.keep(s, 2*time.Second)
			h.want(id, haulier.Pending)
		}
		h.finish(s, h.claimOne(s), haulier.OutcomeError)
		if j := h.want(id, haulier.Failed); !strings.Contains(j.Reason, "attempt 3 of 3") {
			t.Errorf("reason %q", j.Reason)
		}
	}},
	{"a failed outcome ends the job at once", func(t *testing.T, h *Harness) {
		id := h.add(nil)
		s := h.open(nil)
		h.finish(s, h.claimOne(s), haulier.OutcomeFailed)
		h.want(id, haulier.Failed)
	}},
	{"a worker may choose the delay of a retry", func(t *testing.T, h *Harness) {
		id := h.add(nil)
		s := h.open(nil)
		j := h.claimOne(s)
		h.report(s, haulier.Report{Ref: ref(j), Kind: haulier.ReportFinish, Outcome: haulier.OutcomeRetry, Delay: 10 * time.Second})
		h.keep(s, 9*time.Second)
		h.want(id, haulier.Scheduled)
		h.keep(s, 2*time.Second)
		h.want(id, haulier.Pending)
	}},
	{"no attempt starts after the retry deadline", func(t *testing.T, h *Harness) {
		id := h.add(func(s *haulier.Spec) {
			s.RetryUntil = time.Now().Add(time.Minute)
			s.Backoff = &haulier.Backoff{Constant: haulier.Duration(2 * time.Minute)}
		})
		s := h.open(nil)
		h.finish(s, h.claimOne(s), haulier.OutcomeError)
		if j := h.want(id, haulier.Failed); !strings.Contains(j.Reason, "deadline") {
			t.Errorf("reason %q", j.Reason)
		}
	}},
	{"a released attempt does not count as a try", func(t *testing.T, h *Harness) {
		id := h.add(func(s *haulier.Spec) { s.MaxAttempts = 1 })
		s := h.open(nil)
		for range 5 {
			j := h.claimOne(s)
			h.report(s, haulier.Report{Ref: ref(j), Kind: haulier.ReportRelease, Error: "drained"})
			h.want(id, haulier.Pending)
		}
		j := h.claimOne(s)
		if j.Attempt != 6 {
			t.Errorf("attempt %d, want 6: attempts fence and never repeat", j.Attempt)
		}
		h.finish(s, j, haulier.OutcomeOK)
		h.want(id, haulier.Succeeded)
	}},
	{"follow-on jobs come with the finish, in the job's tenant, or not at all", func(t *testing.T, h *Harness) {
		h.add(func(s *haulier.Spec) { s.Tenant = "acme" })
		s := h.open(func(s *haulier.Session) { s.Tenants = []string{"acme"} })
		j := h.claimOne(s)
		errs := h.report(s, haulier.Report{Ref: ref(j), Kind: haulier.ReportFinish, Outcome: haulier.OutcomeOK,
			Then: []haulier.Spec{{Type: "work", Tenant: "other"}}})
		if !errors.Is(errs[0], haulier.ErrForbidden) {
			t.Fatalf("another tenant's job: %v, want ErrForbidden", errs[0])
		}
		h.want(j.ID, haulier.Claimed)
		errs = h.report(s, haulier.Report{Ref: ref(j), Kind: haulier.ReportFinish, Outcome: haulier.OutcomeOK,
			Then: []haulier.Spec{{Type: "other"}, {Type: "other"}}})
		if errs[0] != nil {
			t.Fatal(errs[0])
		}
		next := h.claim(s, 10)
		if len(next) != 2 || next[0].Tenant != "acme" || next[0].Parent != j.ID {
			t.Fatalf("follow-on jobs: %+v", next)
		}
	}},
	{"nothing that an old attempt sends changes the job", func(t *testing.T, h *Harness) {
		id := h.add(nil)
		s := h.open(nil)
		old := h.claimOne(s)
		h.report(s, haulier.Report{Ref: ref(old), Kind: haulier.ReportRelease})
		now := h.claimOne(s)
		before := h.get(id).Rev
		for _, k := range []haulier.ReportKind{haulier.ReportStart, haulier.ReportProgress, haulier.ReportFinish, haulier.ReportRelease, haulier.ReportLog} {
			errs := h.report(s, haulier.Report{Ref: ref(old), Kind: k, Outcome: haulier.OutcomeOK, Log: frames("stale")})
			if !errors.Is(errs[0], haulier.ErrLeaseLost) {
				t.Errorf("report %d of attempt 1: %v, want ErrLeaseLost", k, errs[0])
			}
		}
		if j := h.get(id); j.Rev != before || j.Attempt != now.Attempt {
			t.Errorf("the job changed: rev %d to %d", before, j.Rev)
		}
	}},
	{"reports about many jobs are carried out each for itself", func(t *testing.T, h *Harness) {
		a, b := h.add(nil), h.add(nil)
		s := h.open(nil)
		jobs := h.claim(s, 2)
		errs := h.report(s,
			haulier.Report{Ref: ref(jobs[0]), Kind: haulier.ReportStart},
			haulier.Report{Ref: haulier.Ref{Job: b, Attempt: 9}, Kind: haulier.ReportFinish, Outcome: haulier.OutcomeOK},
			haulier.Report{Ref: ref(jobs[0]), Kind: haulier.ReportFinish, Outcome: haulier.OutcomeOK},
			haulier.Report{Ref: haulier.Ref{Job: haulier.NewID(time.Now()), Attempt: 1}, Kind: haulier.ReportStart})
		if errs[0] != nil || errs[2] != nil || !errors.Is(errs[1], haulier.ErrLeaseLost) || !errors.Is(errs[3], haulier.ErrLeaseLost) {
			t.Fatalf("errors %v", errs)
		}
		h.want(a, haulier.Succeeded)
		h.want(b, haulier.Claimed)
	}},
}
