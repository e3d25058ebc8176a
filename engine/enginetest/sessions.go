package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haulier/haulier"
)

// keep lets time pass while the session is renewed, as a live worker does.
func (h *Harness) keep(session haulier.ID, d time.Duration) {
	h.t.Helper()
	for d > 0 {
		step := min(d, 10*time.Second)
		h.pass(step)
		d -= step
		if _, err := h.Renew(h.t.Context(), haulier.RenewRequest{Session: session, Epoch: h.epoch(session)}); err != nil {
			h.t.Fatalf("renew: %v", err)
		}
	}
}

func (h *Harness) epoch(session haulier.ID) string {
	h.t.Helper()
	r, err := h.Renew(h.t.Context(), haulier.RenewRequest{Session: session})
	if err != nil {
		h.t.Fatalf("renew: %v", err)
	}
	return r.Epoch
}

type renewed struct {
	haulier.RenewReply
	err error
}

// renewing renews in the background with a wait.
func (h *Harness) renewing(ctx context.Context, session haulier.ID, wait time.Duration) <-chan renewed {
	epoch := h.epoch(session)
	out := make(chan renewed, 1)
	go func() {
		r, err := h.Renew(ctx, haulier.RenewRequest{Session: session, Wait: wait, Epoch: epoch})
		out <- renewed{r, err}
	}()
	synctest.Wait()
	return out
}

// claiming claims a job in the background, and waits for one for longer than a lease.
func (h *Harness) claiming(session haulier.ID) <-chan []haulier.Job {
	out := make(chan []haulier.Job, 1)
	go func() {
		jobs, err := h.Claim(context.Background(), haulier.ClaimRequest{Session: session, N: 1, Wait: 50 * time.Second, Number: 1})
		if err != nil && !errors.Is(err, haulier.ErrLeaseLost) {
			h.t.Errorf("claim: %v", err)
		}
		out <- jobs
	}()
	synctest.Wait()
	return out
}

// wantClaimed checks that a claim has returned with the job.
func (h *Harness) wantClaimed(got <-chan []haulier.Job, id haulier.ID) {
	h.t.Helper()
	select {
	case jobs := <-got:
		if len(jobs) != 1 || jobs[0].ID != id {
			h.t.Errorf("claimed %v, want %v", ids(jobs), id)
		}
	default:
		h.t.Errorf("the claim still waits; the job is %v", h.get(id).State)
	}
}

var sessions = []behaviour{
	{"a session of all tenants claims the jobs of each", func(t *testing.T, h *Harness) {
		a, b := h.add(nil), h.add(func(s *haulier.Spec) { s.Tenant = "acme" })
		got := h.claim(h.open(func(s *haulier.Session) { s.Tenants = []string{"*"} }), 10)
		if len(got) != 2 || !slices.Contains(ids(got), a) || !slices.Contains(ids(got), b) {
			t.Errorf("claimed %v, want %v and %v", ids(got), a, b)
		}
		if list, err := h.Sessions(t.Context(), "acme"); err != nil || len(list) != 1 {
			t.Errorf("it serves acme: %v, %v", list, err)
		}
	}},
	{"a dead worker's jobs run again within its lease", func(t *testing.T, h *Harness) {
		id := h.add(nil)
		s := h.open(nil)
		j := h.claimOne(s)
		h.report(s, haulier.Report{Ref: ref(j), Kind: haulier.ReportStart})
		h.pass(29 * time.Second)
		h.want(id, haulier.Running)
		h.pass(2 * time.Second)
		r := h.want(id, haulier.Pending)
		if r.Crashes != 1 || r.Tries() != 1 {
			t.Errorf("crashes %d, tries %d: a lost worker counts as an error", r.Crashes, r.Tries())
		}
		if errs, err := h.Report(t.Context(), s, []haulier.Report{{Ref: ref(j), Kind: haulier.ReportFinish, Outcome: haulier.OutcomeOK}}); !errors.Is(err, haulier.ErrLeaseLost) {
			t.Errorf("the dead worker's report: %v, %v; want ErrLeaseLost", errs, err)
		}
		again := h.claimOne(h.open(nil))
		if again.ID != id || again.Attempt != 2 {
			t.Errorf("claimed again: attempt %d", again.Attempt)
		}
	}},
	{"a renewed session keeps its jobs for as long as it likes", func(t *testing.T, h *Harness) {
		id := h.add(nil)
		s := h.open(nil)
		h.claimOne(s)
		h.keep(s, 3*24*time.Hour/100)
		h.want(id, haulier.Claimed)
	}},
	{"a job that takes its workers down again and again ends failed as poison", func(t *testing.T, h *Harness) {
		id := h.add(nil)
		for range haulier.PoisonAfter {
			s := h.open(nil)
			h.report(s, haulier.Report{Ref: ref(h.claimOne(s)), Kind: haulier.ReportStart})
			h.pass(31 * time.Second)
		}
		if j := h.want(id, haulier.Failed); !strings.HasPrefix(j.Reason, "poison") {
			t.Errorf("reason %q", j.Reason)
		}
	}},
	{"a job that its lost workers never started is not blamed for them", func(t *testing.T, h *Harness) {
		id := h.add(nil)
		for range 2 * haulier.PoisonAfter {
			h.claimOne(h.open(nil))
			h.pass(31 * time.Second)
		}
		h.want(id, haulier.Pending)
	}},
	{"a claim waits for work and gets it at once", func(t *testing.T, h *Harness) {
		s := h.open(nil)
		got := make(chan []haulier.Job, 1)
		go func() {
			jobs, err := h.Claim(context.Background(), haulier.ClaimRequest{Session: s, N: 5, Wait: 20 * time.Second})
			if err != nil {
				t.Errorf("claim: %v", err)
			}
			got <- jobs
		}()
		synctest.Wait()
		h.pass(5 * time.Second)
		begin := time.Now()
		id := h.add(nil)
		if jobs := <-got; len(jobs) != 1 || jobs[0].ID != id || time.Since(begin) > time.Millisecond {
			t.Fatalf("claimed %v after %v", ids(jobs), time.Since(begin))
		}
	}},
	{"a claim that arrives after its worker gave it up finds nothing", func(t *testing.T, h *Harness) {
		id := h.add(nil)
		s := h.open(nil)
		if _, err := h.Renew(t.Context(), haulier.RenewRequest{Session: s, Settle: true, Claims: 7}); err != nil {
			t.Fatal(err)
		}
		for number := uint64(6); number <= 8; number++ {
			jobs, err := h.Claim(t.Context(), haulier.ClaimRequest{Session: s, N: 1, Number: number})
			if err != nil || (len(jobs) == 1) != (number == 8) {
				t.Fatalf("claim %d: %v, %v", number, ids(jobs), err)
			}
		}
		h.want(id, haulier.Claimed)
	}},
	{"a claim that finds nothing ends with its wait", func(t *testing.T, h *Harness) {
		s := h.open(nil)
		begin := time.Now()
		jobs, err := h.Claim(t.Context(), haulier.ClaimRequest{Session: s, N: 1, Wait: 7 * time.Second})
		if err != nil || len(jobs) != 0 || time.Since(begin) != 7*time.Second {
			t.Fatalf("%v, %v after %v", jobs, err, time.Since(begin))
		}
	}},
	{"closing a session gives its jobs back, not counted", func(t *testing.T, h *Harness) {
		id := h.add(nil)
		s := h.open(nil)
		h.claimOne(s)
		if err := h.CloseSession(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if j := h.want(id, haulier.Pending); j.Tries() != 0 {
			t.Errorf("tries %d", j.Tries())
		}
		if _, err := h.Claim(t.Context(), haulier.ClaimRequest{Session: s, N: 1}); !errors.Is(err, haulier.ErrLeaseLost) {
			t.Errorf("claim by a closed session: %v", err)
		}
	}},
	{"a broken connection shortens the lease to a third", func(t *testing.T, h *Harness) {
		id := h.add(nil)
		s := h.open(nil)
		h.claimOne(s)
		ctx, cut := context.WithCancel(t.Context())
		reply := h.renewing(ctx, s, 10*time.Second)
		cut()
		<-reply
		synctest.Wait()
		h.pass(9 * time.Second)
		h.want(id, haulier.Claimed)
		h.pass(2 * time.Second)
		h.want(id, haulier.Pending)
	}},
	{"a server that stops does not shorten the lease", func(t *testing.T, h *Harness) {
		id := h.add(nil)
		s := h.open(nil)
		h.claimOne(s)
		ctx, stop := context.WithCancelCause(t.Context())
		reply := h.renewing(ctx, s, 10*time.Second)
		stop(fmt.Errorf("stopping: %w", haulier.ErrUnavailable))
		<-reply
		synctest.Wait()
		h.pass(25 * time.Second)
		h.want(id, haulier.Claimed)
	}},
	{"a worker that connects anew in time has its whole lease again", func(t *testing.T, h *Harness) {
		id := h.add(nil)
		s := h.open(nil)
		h.claimOne(s)
		ctx, cut := context.WithCancel(t.Context())
		reply := h.renewing(ctx, s, 10*time.Second)
		cut()
		<-reply
		synctest.Wait()
		h.pass(5 * time.Second)
		h.epoch(s)
		h.pass(25 * time.Second)
		h.want(id, haulier.Claimed)
	}},
	{"the jobs and sessions outlive a restart of the server", func(t *testing.T, h *Harness) {
		id := h.add(nil)
		s := h.open(nil)
		j := h.claimOne(s)
		h.report(s, haulier.Report{Ref: ref(j), Kind: haulier.ReportStart})
		h.restart()
		h.pass(20 * time.Second)
		h.want(id, haulier.Running)
		if r, err := h.Renew(t.Context(), haulier.RenewRequest{Session: s, Held: []haulier.Ref{ref(j)}}); err != nil || len(r.Lost) != 0 {
			t.Fatalf("renew: %+v, %v", r, err)
		}
		h.finish(s, j, haulier.OutcomeOK)
		h.want(id, haulier.Succeeded)
	}},
	{"a worker that takes over resumes the session with its jobs", func(t *testing.T, h *Harness) {
		h.add(nil)
		s := h.open(nil)
		j := h.claimOne(s)
		h.pass(20 * time.Second)
		if again := h.open(func(x *haulier.Session) { x.ID = s; x.PID = 42 }); again != s {
			t.Fatalf("resumed %v, want %v", again, s)
		}
		h.pass(20 * time.Second)
		h.finish(s, j, haulier.OutcomeOK)
		h.want(j.ID, haulier.Succeeded)
		h.pass(time.Hour)
		if _, err := h.OpenSession(t.Context(), haulier.Session{ID: s, Worker: "w1", Kinds: []haulier.Kind{haulier.KindGo}}); !errors.Is(err, haulier.ErrLeaseLost) {
			t.Fatalf("resume of an expired session: %v, want ErrLeaseLost", err)
		}
	}},
	{"what a former worker took with it runs again, and counts as its loss", func(t *testing.T, h *Harness) {
		kept, gone := h.add(nil), h.add(nil)
		s := h.open(nil)
		jobs := h.claim(s, 2)
		h.report(s, haulier.Report{Ref: ref(jobs[1]), Kind: haulier.ReportStart})
		h.open(func(x *haulier.Session) { x.ID = s })
		if r, err := h.Renew(t.Context(), haulier.RenewRequest{Session: s, Held: []haulier.Ref{ref(jobs[0])}, Settle: true}); err != nil || len(r.Lost) != 0 {
			t.Fatalf("renew: %+v, %v", r, err)
		}
		h.want(kept, haulier.Claimed)
		if j := h.want(gone, haulier.Pending); j.Crashes != 1 || j.Tries() != 1 {
			t.Errorf("%d workers lost and %d tries, want one of each", j.Crashes, j.Tries())
		}
	}},
	{"jobs of a claim whose answer never arrived go back, and nobody is to blame", func(t *testing.T, h *Harness) {
		lost, known := h.add(nil), h.add(nil)
		s := h.open(nil)
		jobs := h.claim(s, 2)
		if _, err := h.Renew(t.Context(), haulier.RenewRequest{Session: s, Held: []haulier.Ref{ref(jobs[1])}, Settle: true}); err != nil {
			t.Fatal(err)
		}
		h.want(known, haulier.Claimed)
		if j := h.want(lost, haulier.Pending); j.Crashes != 0 || j.Tries() != 0 {
			t.Errorf("%d workers lost and %d tries, want none", j.Crashes, j.Tries())
		}
		if again := h.claimOne(s); again.ID != lost || again.Attempt != 2 {
			t.Errorf("claimed %v in attempt %d, want %v in its second", again.ID, again.Attempt, lost)
		}
	}},
	{"what a session holds no more is told as lost", func(t *testing.T, h *Harness) {
		id := h.add(nil)
		s := h.open(nil)
		j := h.claimOne(s)
		h.finish(s, j, haulier.OutcomeOK)
		r, err := h.Renew(t.Context(), haulier.RenewRequest{Session: s, Held: []haulier.Ref{ref(j)}})
		if err != nil || len(r.Lost) != 1 || r.Lost[0].Job != id {
			t.Fatalf("renew: %+v, %v", r, err)
		}
	}},
	{"a session takes only the tenants, queues, kinds and types that it serves", func(t *testing.T, h *Harness) {
		want := h.add(func(s *haulier.Spec) { s.Queue, s.Tenant = "q1", "acme" })
		h.add(func(s *haulier.Spec) { s.Queue, s.Tenant = "q2", "acme" })
		h.add(func(s *haulier.Spec) { s.Queue = "q1" })
		h.add(func(s *haulier.Spec) { s.Queue, s.Tenant, s.Type = "q1", "acme", "unknown" })
		h.add(func(s *haulier.Spec) {
			s.Queue, s.Tenant = "q1", "acme"
			s.Task.Exec = &haulier.ExecTask{Argv: []string{"true"}}
		})
		s := h.open(func(s *haulier.Session) {
			s.Tenants, s.Queues, s.Kinds = []string{"acme"}, map[string]int{"q1": 1}, []haulier.Kind{haulier.KindGo}
		})
		if j := h.claimOne(s); j.ID != want {
			t.Errorf("claimed %v", j.Lane())
		}
	}},
	{"a job that runs on labels goes to a worker that has them all, and is in nobody's way", func(t *testing.T, h *Harness) {
		first := h.add(func(s *haulier.Spec) { s.RunsOn, s.Priority = map[string]string{"gpu": "true", "arch": "arm64"}, 9 })
		plain := h.add(nil)
		without := h.open(func(s *haulier.Session) { s.Labels = map[string]string{"gpu": "true", "arch": "amd64"} })
		if j := h.claimOne(without); j.ID != plain {
			t.Fatalf("claimed %v", j.Lane())
		}
		if why := h.why(first); !strings.Contains(why, "no worker has label arch=arm64") {
			t.Errorf("why: %s", why)
		}
		h.restart()
		with := h.open(func(s *haulier.Session) {
			s.Labels = map[string]string{"gpu": "true", "arch": "arm64", "zone": "a"}
		})
		if j := h.claimOne(with); j.ID != first {
			t.Fatalf("claimed %v", j.Lane())
		}
	}},
	{"a session shows what it holds, and how busy its machine was at the last renewal", func(t *testing.T, h *Harness) {
		id := h.add(nil)
		s := h.open(func(s *haulier.Session) { s.Addresses = []string{"192.0.2.1"} })
		h.claimOne(s)
		if _, err := h.Renew(t.Context(), haulier.RenewRequest{Session: s, Load: &haulier.Load{CPU: 12.5, MemoryUsed: 1, MemoryTotal: 2}}); err != nil {
			t.Fatal(err)
		}
		all, err := h.Sessions(t.Context(), "")
		if err != nil || len(all) != 1 || all[0].Jobs != 1 || !slices.Equal(all[0].Holding, []haulier.ID{id}) || all[0].Load == nil || all[0].Load.CPU != 12.5 {
			t.Fatalf("%+v, %v", all, err)
		}
		if _, err := h.Renew(t.Context(), haulier.RenewRequest{Session: s, Load: &haulier.Load{CPU: 101}}); !errors.Is(err, haulier.ErrInvalid) {
			t.Errorf("a load of more than all: %v", err)
		}
	}},
	{"a claim that waits hears of a job that runs on its labels", func(t *testing.T, h *Harness) {
		waits := h.claiming(h.open(func(s *haulier.Session) { s.Labels = map[string]string{"gpu": "true"} }))
		id := h.add(func(s *haulier.Spec) { s.RunsOn = map[string]string{"gpu": "true"} })
		synctest.Wait()
		h.wantClaimed(waits, id)
	}},
	{"a job of a lost worker goes at once to one that waits, also when the lost one waited longer", func(t *testing.T, h *Harness) {
		id := h.add(nil)
		lost, live := h.open(nil), h.open(func(s *haulier.Session) { s.Lease = haulier.Duration(haulier.MaxLease) })
		h.claimOne(lost)
		h.claiming(lost)
		got := h.claiming(live)
		h.pass(31 * time.Second)
		h.wantClaimed(got, id)
	}},
	{"a job that became free goes to another claim than the one that can't take it", func(t *testing.T, h *Harness) {
		for _, end := range []haulier.RenewRequest{{Drain: true}, {Settle: true, Claims: 1}} {
			s := h.open(nil)
			h.claiming(s)
			end.Session = s
			if _, err := h.Renew(t.Context(), end); err != nil {
				t.Fatal(err)
			}
			got := h.claiming(h.open(nil))
			id := h.add(nil)
			synctest.Wait()
			h.wantClaimed(got, id)
			if err := h.CloseSession(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
	}},
	{"a draining session gets no more jobs", func(t *testing.T, h *Harness) {
		s := h.open(nil)
		if _, err := h.Renew(t.Context(), haulier.RenewRequest{Session: s, Drain: true}); err != nil {
			t.Fatal(err)
		}
		h.add(nil)
		if got := h.claim(s, 1); len(got) != 0 {
			t.Errorf("claimed %v", ids(got))
		}
	}},
}
