package enginetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haulier/haulier"
)

// many enqueues n jobs that differ by the change alone.
func (h *Harness) many(n int, change func(*haulier.Spec)) {
	h.t.Helper()
	specs := make([]haulier.Spec, n)
	for i := range specs {
		specs[i].Type = "work"
		change(&specs[i])
	}
	h.enqueue(specs...)
}

// served claims n jobs one by one and counts them by key.
func (h *Harness) served(session haulier.ID, n int, key func(*haulier.Job) string) map[string]int {
	h.t.Helper()
	out := map[string]int{}
	for range n {
		jobs := h.claim(session, 1)
		if len(jobs) != 1 {
			h.t.Fatalf("claimed %d", len(jobs))
		}
		out[key(&jobs[0])]++
	}
	return out
}

var queues = []behaviour{
	{"a paused queue hands out nothing until it is resumed, also after a restart", func(t *testing.T, h *Harness) {
		id := h.add(nil)
		s := h.open(nil)
		if err := h.PauseQueue(t.Context(), "default", "default", true, "me"); err != nil {
			t.Fatal(err)
		}
		if got := h.claim(s, 1); len(got) != 0 {
			t.Fatal("claimed from a paused queue")
		}
		h.restart()
		got := make(chan []haulier.Job, 1)
		go func() {
			jobs, _ := h.Claim(context.Background(), haulier.ClaimRequest{Session: s, N: 1, Wait: 10 * time.Second})
			got <- jobs
		}()
		synctest.Wait()
		if err := h.PauseQueue(t.Context(), "default", "default", false, "me"); err != nil {
			t.Fatal(err)
		}
		if jobs := <-got; len(jobs) != 1 || jobs[0].ID != id {
			t.Fatalf("claimed %v", jobs)
		}
	}},
	{"tenants share fairly, however many jobs and lanes one of them has", func(t *testing.T, h *Harness) {
		for lane := range 5 {
			h.many(100, func(s *haulier.Spec) { s.Tenant, s.Queue = "big", fmt.Sprint("q", lane) })
		}
		h.many(30, func(s *haulier.Spec) { s.Tenant = "small" })
		s := h.open(func(s *haulier.Session) { s.Tenants = []string{"big", "small"} })
		got := h.served(s, 40, func(j *haulier.Job) string { return j.Tenant })
		if got["small"] != 20 {
			t.Errorf("shares %v, want 20 each", got)
		}
	}},
	{"queues of a tenant share by their weights", func(t *testing.T, h *Harness) {
		h.many(100, func(s *haulier.Spec) { s.Queue = "a" })
		h.many(100, func(s *haulier.Spec) { s.Queue = "b" })
		if err := h.WeighQueue(t.Context(), "default", "a", 3, "me"); err != nil {
			t.Fatal(err)
		}
		got := h.served(h.open(nil), 40, func(j *haulier.Job) string { return j.Queue })
		if got["a"] != 30 {
			t.Errorf("shares %v, want 30 and 10", got)
		}
	}},
	{"a low priority is served at last, though higher ones keep coming", func(t *testing.T, h *Harness) {
		low := h.add(func(s *haulier.Spec) { s.Priority = -5 })
		s := h.open(nil)
		for i := range 20 {
			h.add(nil)
			h.keep(s, time.Minute)
			jobs := h.claim(s, 1)
			if jobs[0].ID == low {
				if i < 3 {
					t.Errorf("served after %d minutes: too early", i)
				}
				return
			}
		}
		t.Error("starved")
	}},
	{"counts by queue and state are those of the jobs", func(t *testing.T, h *Harness) {
		h.many(5, func(s *haulier.Spec) { s.Queue = "a" })
		h.many(2, func(s *haulier.Spec) { s.Queue = "b"; s.RunAt = time.Now().Add(time.Hour) })
		s := h.open(nil)
		jobs := h.claim(s, 3)
		h.finish(s, jobs[0], haulier.OutcomeOK)
		qs, err := h.Queues(t.Context(), "")
		if err != nil || len(qs) != 2 {
			t.Fatalf("%+v, %v", qs, err)
		}
		if got := fmt.Sprint(qs[0].Counts, qs[1].Counts); got != "map[claimed:2 pending:2 succeeded:1] map[scheduled:2]" {
			t.Errorf("counts %s", got)
		}
		if qs[0].Oldest.IsZero() {
			t.Error("no oldest pending job told")
		}
	}},
}

// why joins the reasons that the engine gives.
func (h *Harness) why(id haulier.ID) string {
	h.t.Helper()
	x, err := h.Why(h.t.Context(), "", id)
	if err != nil {
		h.t.Fatalf("why: %v", err)
	}
	return strings.Join(x.Reasons, "; ")
}

var looking = []behaviour{
	{"why says what a job waits for", func(t *testing.T, h *Harness) {
		id := h.add(nil)
		later := h.add(func(s *haulier.Spec) { s.RunAt = time.Now().Add(time.Hour) })
		expect := func(id haulier.ID, words string) {
			t.Helper()
			if got := h.why(id); !strings.Contains(got, words) {
				t.Errorf("why: %q, want %q in it", got, words)
			}
		}
		expect(id, "no worker is connected")
		expect(later, "later: it is to start in 1h")
		s := h.open(func(s *haulier.Session) { s.Queues = map[string]int{"elsewhere": 1} })
		expect(id, "does not listen to queue default")
		if err := h.CloseSession(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		s = h.open(func(s *haulier.Session) { s.Types = []string{"other"} })
		expect(id, "does not know type work")
		if err := h.CloseSession(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		s = h.open(func(s *haulier.Session) { s.Concurrency = 1 })
		expect(id, "it is next in its lane")
		if err := h.PauseQueue(t.Context(), "default", "default", true, "me"); err != nil {
			t.Fatal(err)
		}
		expect(id, "paused")
		if err := h.PauseQueue(t.Context(), "default", "default", false, "me"); err != nil {
			t.Fatal(err)
		}
		behind := h.add(nil)
		expect(behind, "1 jobs of its lane come first")
		h.claim(s, 1)
		expect(behind, "all 1 workers that can run it are busy")
		expect(id, "is being prepared on worker w1")
		h.pass(10 * time.Second)
		expect(id, "not connected")
	}},
	{"listings page through every job that the filter selects, once", func(t *testing.T, h *Harness) {
		h.many(250, func(s *haulier.Spec) { s.Queue = "a" })
		h.many(50, func(s *haulier.Spec) { s.Queue = "b"; s.Tenant = "acme" })
		s := h.open(nil)
		for _, j := range h.claim(s, 60) {
			h.finish(s, j, haulier.OutcomeOK)
		}
		for _, c := range []struct {
			f    haulier.Filter
			want int
		}{
			{haulier.Filter{}, 300},
			{haulier.Filter{Tenant: "acme"}, 50},
			{haulier.Filter{Queue: "a"}, 250},
			{haulier.Filter{States: []haulier.State{haulier.Succeeded}}, 60},
			{haulier.Filter{Queue: "a", States: []haulier.State{haulier.Pending, haulier.Succeeded}}, 250},
			{haulier.Filter{Queue: "none"}, 0},
		} {
			seen := map[haulier.ID]bool{}
			for cursor := ""; ; {
				p, err := h.List(t.Context(), c.f, cursor, 40)
				if err != nil {
					t.Fatal(err)
				}
				for _, j := range p.Jobs {
					if seen[j.ID] {
						t.Fatalf("%+v: job listed twice", c.f)
					}
					seen[j.ID] = true
				}
				if cursor = p.Next; cursor == "" {
					break
				}
			}
			if len(seen) != c.want {
				t.Errorf("%+v: %d jobs, want %d", c.f, len(seen), c.want)
			}
		}
	}},
	{"events tell each change of the selected jobs in order", func(t *testing.T, h *Harness) {
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = h.Events(ctx, haulier.Filter{Queue: "a"}, func(ev haulier.JobEvent) error {
				got = append(got, ev.State.String())
				return nil
			})
		}()
		synctest.Wait()
		h.add(nil)
		h.add(func(s *haulier.Spec) { s.Queue = "a" })
		s := h.open(func(s *haulier.Session) { s.Queues = map[string]int{"a": 1} })
		h.finish(s, h.claimOne(s), haulier.OutcomeOK)
		synctest.Wait()
		cancel()
		<-done
		if s := strings.Join(got, " "); s != "pending claimed succeeded" {
			t.Errorf("events %q", s)
		}
	}},
	{"waiting ends when all jobs have ended", func(t *testing.T, h *Harness) {
		a, b := h.add(nil), h.add(nil)
		s := h.open(nil)
		done := make(chan []*haulier.Job, 1)
		go func() {
			jobs, err := h.Wait(context.Background(), "", []haulier.ID{a, b})
			if err != nil {
				t.Errorf("wait: %v", err)
			}
			done <- jobs
		}()
		jobs := h.claim(s, 2)
		h.finish(s, jobs[1], haulier.OutcomeOK)
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("ended while a job was open")
		default:
		}
		h.finish(s, jobs[0], haulier.OutcomeFailed)
		if got := <-done; got[0].State != haulier.Failed || got[1].State != haulier.Succeeded {
			t.Errorf("states %v %v", got[0].State, got[1].State)
		}
	}},
}
