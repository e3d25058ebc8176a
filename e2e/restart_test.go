package e2e_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/joblog"
)

// beats is how often the jobs of these tests beat.
const beats = 30

// testTime bounds each of these tests.
const testTime = time.Minute

func TestRunningJobs(t *testing.T) {
	t.Run("outlive a server that is killed", func(t *testing.T) {
		s, ctx := working(t)
		id := s.beating(ctx)
		s.server.kill()
		s.serve()
		s.ready(ctx)
		s.beatOnce(ctx, id)
	})
	t.Run("outlive a server that is restarted", func(t *testing.T) {
		s, ctx := working(t)
		id := s.beating(ctx)
		if code := s.server.stop(); code != 0 {
			t.Errorf("the server ended with code %d on TERM:\n%s", code, tail(s.server.output(t)))
		}
		s.serve()
		s.ready(ctx)
		s.beatOnce(ctx, id)
	})
	t.Run("are adopted from a worker that is killed", func(t *testing.T) {
		s, ctx := working(t)
		w := s.work("first")
		id := s.beating(ctx)
		w.kill()
		s.work("first")
		s.beatOnce(ctx, id)
	})
	t.Run("are adopted when server and worker are killed at once", func(t *testing.T) {
		s, ctx := working(t)
		w := s.work("first")
		id := s.beating(ctx)
		s.server.kill()
		w.kill()
		s.serve()
		s.work("first")
		s.ready(ctx)
		s.beatOnce(ctx, id)
	})
}

// working is a site with a server that is ready, and the context of the test.
func working(t *testing.T) (*site, context.Context) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	t.Cleanup(cancel)
	s := newSite(t)
	s.serve()
	s.ready(ctx)
	return s, ctx
}

// beating enqueues a job that beats, and waits until some of its output has arrived.
func (s *site) beating(ctx context.Context) haulier.ID {
	s.t.Helper()
	if len(mentioning(s.t, " worker ", s.dir)) == 0 {
		s.work("only")
	}
	id := s.enqueue(ctx, s.shell(beating, fmt.Sprint(beats)))
	s.await(ctx, "the job's output arrives", func() bool { return strings.Contains(s.output(ctx, id), "beat 3\n") })
	return id
}

// output of the newest attempt so far.
func (s *site) output(ctx context.Context, id haulier.ID) string {
	s.t.Helper()
	chunk, err := s.client.Log(ctx, haulier.LogRequest{Tenant: haulier.DefaultTenant, Job: id})
	if err != nil {
		s.t.Fatal("output: ", err)
	}
	text, err := joblog.Text(chunk.Frames, joblog.Stdout)
	if err != nil {
		s.t.Fatal("output: ", err)
	}
	return string(text)
}

// beatOnce waits for the job's end: it must have succeeded in its first
// attempt, done its work once, and its output must be whole.
func (s *site) beatOnce(ctx context.Context, id haulier.ID) {
	s.t.Helper()
	jobs, err := s.client.Wait(ctx, haulier.DefaultTenant, []haulier.ID{id})
	if err != nil {
		s.t.Fatalf("wait: %v; the job is %+v", err, s.job(context.Background(), id).Status)
	}
	j := jobs[0]
	if j.State != haulier.Succeeded || j.Attempt != 1 {
		s.t.Errorf("the job is %v after %d attempts; want succeeded after one: %+v", j.State, j.Attempt, j.History)
	}
	d := readLedger(s.t, s.ledger)[haulier.Ref{Job: id, Attempt: 1}]
	if d == nil || len(d.begun) != 1 || len(d.ended) != 1 {
		s.t.Errorf("the ledger says %+v; want one begin and one end", d)
	}
	var want strings.Builder
	for i := range beats {
		fmt.Fprintf(&want, "beat %d\n", i+1)
	}
	if got := s.output(ctx, id); got != want.String() {
		s.t.Errorf("output is %q, want %q", got, want.String())
	}
}

func TestJobsOfLostWorkers(t *testing.T) {
	t.Run("run elsewhere when no worker comes back, and no longer where they were", func(t *testing.T) {
		s, ctx := working(t)
		w := s.work("lost")
		id := s.enqueue(ctx, s.shell(marked, "61.25"))
		s.await(ctx, "the job runs", func() bool { return s.job(ctx, id).State == haulier.Running && s.begun(id, 1) })
		w.kill()
		s.work("other")
		s.await(ctx, "the job runs at the other worker", func() bool { return s.begun(id, 2) })
		s.await(ctx, "the first attempt's processes have ended", func() bool { return len(mentioning(t, "sleep 61.25")) == 1 })
		if j := s.job(ctx, id); j.Attempt != 2 || j.Crashes != 1 {
			t.Errorf("the job is in attempt %d with %d workers lost, want 2 and 1: %+v", j.Attempt, j.Crashes, j.History)
		}
	})
	t.Run("run elsewhere when their worker stands still, which then has nothing more to say", func(t *testing.T) {
		s, ctx := working(t)
		w := s.work("still")
		id := s.enqueue(ctx, s.shell(beating, "900"))
		s.await(ctx, "the job runs", func() bool { return s.job(ctx, id).State == haulier.Running && s.begun(id, 1) })
		w.signal(syscall.SIGSTOP)
		s.work("other")
		s.await(ctx, "the job runs at the other worker", func() bool { return s.marks("beat", id, 2) > 3 })
		w.signal(syscall.SIGCONT)
		s.await(ctx, "the first worker has a session again", func() bool {
			return strings.Count(w.output(t), "session opened") == 2
		})
		if j := s.job(ctx, id); j.State != haulier.Running || j.Attempt != 2 || j.Crashes != 1 {
			t.Errorf("the job is %v in attempt %d with %d workers lost, want running, 2 and 1: %+v", j.State, j.Attempt, j.Crashes, j.History)
		}
		s.cancel(ctx, id)
		readLedger(t, s.ledger) // in which no attempt does something when the next has begun
	})
	t.Run("run again when they were functions", func(t *testing.T) {
		s, ctx := working(t)
		w := s.workFunctions("functions")
		id := s.enqueue(ctx, haulier.Spec{Type: "errand", Payload: []byte(`{"millis":1500}`), MaxAttempts: 3})
		s.await(ctx, "the function runs", func() bool { return s.begun(id, 1) })
		w.kill()
		s.workFunctions("functions")
		jobs, err := s.client.Wait(ctx, haulier.DefaultTenant, []haulier.ID{id})
		if err != nil || jobs[0].State != haulier.Succeeded || jobs[0].Attempt != 2 {
			t.Errorf("the job is %+v: %v; want succeeded in attempt 2", jobs, err)
		}
		readLedger(t, s.ledger)
	})
	t.Run("end failed when they take down worker after worker", func(t *testing.T) {
		s, ctx := working(t)
		spec := s.shell(`echo "begin $HAULIER_JOB_ID $HAULIER_ATTEMPT" >>"$0"; sleep 60`)
		id := s.enqueue(ctx, spec)
		for n := range haulier.PoisonAfter {
			w := s.work(fmt.Sprintf("victim%d", n), "--lease", "1s")
			s.await(ctx, "the job runs, and the server has heard of it", func() bool {
				j := s.job(ctx, id)
				return s.begun(id, n+1) && j.State == haulier.Running && j.Attempt == n+1
			})
			w.kill()
			for pid := range mentioning(t, " shim", s.dir) {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		jobs, err := s.client.Wait(ctx, haulier.DefaultTenant, []haulier.ID{id})
		if err != nil || jobs[0].State != haulier.Failed || !strings.HasPrefix(jobs[0].Reason, "poison") {
			t.Errorf("the job is %+v: %v; want failed as poison", jobs, err)
		}
	})
}

// cancel cancels a job and waits for its end.
func (s *site) cancel(ctx context.Context, id haulier.ID) {
	s.t.Helper()
	if _, err := s.client.Cancel(ctx, haulier.Selection{Tenant: haulier.DefaultTenant, IDs: []haulier.ID{id}}, "test", ""); err != nil {
		s.t.Fatal("cancel: ", err)
	}
	if _, err := s.client.Wait(ctx, haulier.DefaultTenant, []haulier.ID{id}); err != nil {
		s.t.Fatal("wait: ", err)
	}
}

// begun reports whether the ledger tells that the attempt has begun.
func (s *site) begun(id haulier.ID, attempt int) bool { return s.marks("begin", id, attempt) > 0 }

// marks counts the ledger's lines of an attempt.
func (s *site) marks(what string, id haulier.ID, attempt int) int {
	b, err := os.ReadFile(s.ledger)
	if err != nil {
		return 0
	}
	return strings.Count(string(b), fmt.Sprintf("%s %v %d\n", what, id, attempt))
}

func TestDrain(t *testing.T) {
	s, ctx := working(t)
	w := s.work("only")
	running := s.enqueue(ctx, s.shell(marked, "1"))
	s.await(ctx, "the job runs", func() bool { return s.begun(running, 1) })
	if code := w.stop(); code != 0 {
		t.Errorf("the worker ended with code %d on TERM:\n%s", code, tail(w.output(t)))
	}
	if j := s.job(ctx, running); j.State != haulier.Succeeded || j.Attempt != 1 {
		t.Errorf("the job that ran is %v in attempt %d, want succeeded in the first", j.State, j.Attempt)
	}
	s.await(ctx, "no process of the worker is left", func() bool {
		return len(mentioning(t, s.path("only"))) == 0
	})
}

func TestSecondServer(t *testing.T) {
	s, ctx := working(t)
	id := s.enqueue(ctx, s.shell(marked, "0"))
	second := start(t, s.path("second.log"), nil, program(t), "serve", "--data", s.path("data"), "--listen", "127.0.0.1:0", "--insecure")
	if code := second.exit(20 * time.Second); code <= 0 {
		t.Errorf("a second server on the same folder ended with code %d, want an error", code)
	}
	if said := second.output(t); !strings.Contains(said, s.path("data")) || !strings.Contains(said, "another") {
		t.Errorf("the second server said %q; want the folder and that another process has it", said)
	}
	if j := s.job(ctx, id); j.State != haulier.Pending {
		t.Errorf("the first server's job is %v, want pending", j.State)
	}
}
