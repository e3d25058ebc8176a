package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/blob"
	"github.com/haulier/haulier/engine"
	"github.com/haulier/haulier/executor"
	"github.com/haulier/haulier/executor/process"
	"github.com/haulier/haulier/joblog"
	"github.com/haulier/haulier/store/mem"
	"github.com/haulier/haulier/worker"
)

// TestMain makes the test program its own supervisor, and the worker that is killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "shim" {
		if err := process.RunShim(context.Background(), process.ShimConfig{Dir: os.Args[3]}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 3 && os.Args[1] == "doomed" {
		doomedWorker(os.Args[2], os.Args[3])
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// queue is an engine over memory.
func queue(t *testing.T) *engine.Engine {
	t.Helper()
	blobs, err := blob.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Config{Store: mem.New(), Blobs: blobs, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		blobs.Close()
	})
	return e
}

// running is a worker under test.
type running struct {
	*worker.Worker
	stop func() // TERM
	done chan error
}

func (r *running) wait(t *testing.T) {
	t.Helper()
	select {
	case err := <-r.done:
		if err != nil {
			t.Fatal(err)
		}
		r.done <- nil
	case <-time.After(30 * time.Second):
		t.Fatal("the worker does not end")
	}
}

func start(t *testing.T, c worker.Config, handlers ...func(haulier.Registry)) *running {
	t.Helper()
	if testing.Verbose() {
		c.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	w, err := worker.New(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range handlers {
		h(w)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Worker: w, stop: cancel, done: make(chan error, 1)}
	go func() { r.done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		w.Abort()
		r.wait(t)
	})
	return r
}

func commands() []executor.Executor {
	return []executor.Executor{process.New(process.Config{Shim: []string{os.Args[0], "shim"}})}
}

func enqueue(t *testing.T, q haulier.Queue, specs ...haulier.Spec) []haulier.ID {
	t.Helper()
	res, err := q.Enqueue(t.Context(), []haulier.EnqueueRequest{{Jobs: specs}})
	if err = errors.Join(err, firstErr(res)); err != nil {
		t.Fatal(err)
	}
	return res[0].IDs
}

func firstErr(res []haulier.EnqueueResult) error {
	for _, r := range res {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}

func sh(script string) haulier.Spec {
	return haulier.Spec{Type: "sh", Task: haulier.Task{Exec: &haulier.ExecTask{Argv: []string{script}, Shell: true}}}
}

func end(t *testing.T, q haulier.Queue, ids ...haulier.ID) []*haulier.Job {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	jobs, err := q.Wait(ctx, haulier.DefaultTenant, ids)
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

// until waits for a job to be as f wants it.
func until(t *testing.T, q haulier.Queue, id haulier.ID, what string, f func(*haulier.Job) bool) *haulier.Job {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for stop := time.Now().Add(20 * time.Second); ; <-tick.C {
		jobs, err := q.Get(t.Context(), haulier.DefaultTenant, []haulier.ID{id})
		if err != nil {
			t.Fatal(err)
		}
		if jobs[0] != nil && f(jobs[0]) {
			return jobs[0]
		}
		if time.Now().After(stop) {
			t.Fatalf("job is not %s: %+v", what, jobs[0])
		}
	}
}

func inState(st haulier.State) func(*haulier.Job) bool {
	return func(j *haulier.Job) bool { return j.State == st }
}

// output waits for a job's output to hold the text.
func output(t *testing.T, q haulier.Queue, id haulier.ID, want string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var all []byte
	for from := int64(0); ; {
		c, err := q.Log(ctx, haulier.LogRequest{Tenant: haulier.DefaultTenant, Job: id, From: from, Wait: true})
		if err != nil {
			t.Fatalf("output is %q, want %q: %v", all, want, err)
		}
		text, err := joblog.Text(c.Frames)
		if err != nil {
			t.Fatal(err)
		}
		all, from = append(all, text...), c.Next
		if want != "" && strings.Contains(string(all), want) || c.End {
			if !strings.Contains(string(all), want) {
				t.Fatalf("output is %q, want %q", all, want)
			}
			return string(all)
		}
	}
}

func TestCommands(t *testing.T) {
	q := queue(t)
	w := start(t, worker.Config{Consumer: q, Executors: commands(), Concurrency: 4})
	t.Run("run to their end, with result and output", func(t *testing.T) {
		s := sh(`cat; echo; echo '{"n":1}'; exit 0`)
		s.Payload = []byte("payload")
		id := enqueue(t, q, s)[0]
		j := end(t, q, id)[0]
		if j.State != haulier.Succeeded || string(j.Result) != `{"n":1}` || j.StartedAt.IsZero() {
			t.Fatalf("got %+v", j.Status)
		}
		if got := output(t, q, id, ""); got != "payload\n{\"n\":1}\n" {
			t.Fatalf("output %q", got)
		}
	})
	t.Run("output comes while they run", func(t *testing.T) {
		id := enqueue(t, q, sh("echo first; sleep 60"))[0]
		output(t, q, id, "first")
		cancelJob(t, q, id)
		if j := end(t, q, id)[0]; j.State != haulier.Cancelled {
			t.Fatalf("got %+v", j.Status)
		}
	})
	t.Run("exit codes choose the outcome", func(t *testing.T) {
		once := sh(`exit $((HAULIER_ATTEMPT == 1 ? 75 : 0))`)
		once.Backoff = &haulier.Backoff{Constant: haulier.Duration(time.Millisecond)}
		one := sh("exit 3")
		one.MaxAttempts = 1
		missing := haulier.Spec{Type: "sh", Task: haulier.Task{Exec: &haulier.ExecTask{Argv: []string{"no-such-program"}}}}
		jobs := end(t, q, enqueue(t, q, once, sh("exit 65"), one, missing)...)
		for i, want := range []haulier.State{haulier.Succeeded, haulier.Failed, haulier.Failed, haulier.Failed} {
			if jobs[i].State != want {
				t.Errorf("job %d: %+v", i, jobs[i].Status)
			}
		}
		if jobs[0].Attempt != 2 || jobs[2].Code != 3 || !strings.Contains(jobs[3].Error, "not found") {
			t.Errorf("got %+v, %+v, %+v", jobs[0].Status, jobs[2].Status, jobs[3].Status)
		}
	})
	t.Run("much output is kept", func(t *testing.T) {
		id := enqueue(t, q, sh("seq 200000"))[0]
		end(t, q, id)
		if got := output(t, q, id, "\n200000\n"); !strings.HasPrefix(got, "1\n2\n") || len(got) != 1288895 {
			t.Fatalf("%d bytes", len(got))
		}
	})
	t.Run("many of them", func(t *testing.T) {
		specs := make([]haulier.Spec, 200)
		for i := range specs {
			specs[i] = haulier.Spec{Type: "sh", Task: haulier.Task{Exec: &haulier.ExecTask{Argv: []string{"true"}}}}
		}
		for _, j := range end(t, q, enqueue(t, q, specs...)...) {
			if j.State != haulier.Succeeded {
				t.Fatalf("got %+v", j.Status)
			}
		}
	})
	w.stop()
	w.wait(t)
	if left, err := q.Sessions(t.Context(), ""); err != nil || len(left) != 0 {
		t.Fatalf("sessions left: %v, %v", left, err)
	}
}

func cancelJob(t *testing.T, q haulier.Queue, id haulier.ID) {
	t.Helper()
	if c, err := q.Cancel(t.Context(), haulier.Selection{IDs: []haulier.ID{id}}, "test", "enough"); err != nil || c.N != 1 {
		t.Fatalf("cancel: %+v, %v", c, err)
	}
}

type sum struct{ A, B int }

func TestFunctions(t *testing.T) {
	q := queue(t)
	var attempts atomic.Int32
	start(t, worker.Config{Consumer: q, Concurrency: 8}, func(r haulier.Registry) {
		haulier.Handle(r, "sum", func(ctx context.Context, _ *haulier.Job, arg sum) error {
			fmt.Fprintf(haulier.Log(ctx), "adding %d and %d\n", arg.A, arg.B)
			return haulier.SetResult(ctx, arg.A+arg.B)
		})
		haulier.Handle(r, "raw", func(ctx context.Context, _ *haulier.Job, arg []byte) error {
			return haulier.SetResult(ctx, string(arg))
		})
		haulier.Handle(r, "panic", func(context.Context, *haulier.Job, struct{}) error { panic("oh no") })
		haulier.Handle(r, "fail", func(context.Context, *haulier.Job, struct{}) error {
			return fmt.Errorf("wrapped: %w", haulier.Fail(errors.New("no way")))
		})
		haulier.Handle(r, "retry", func(context.Context, *haulier.Job, struct{}) error {
			if attempts.Add(1) < 3 {
				return haulier.RetryIn(time.Millisecond, nil)
			}
			return nil
		})
		haulier.Handle(r, "wait", func(ctx context.Context, _ *haulier.Job, _ struct{}) error {
			haulier.Progress(ctx, 40, "waiting")
			<-ctx.Done()
			return context.Cause(ctx)
		})
		haulier.Handle(r, "then", func(ctx context.Context, _ *haulier.Job, _ struct{}) error {
			haulier.Then(ctx, haulier.Spec{Type: "sum", Payload: []byte(`{"A":20,"B":22}`)})
			return nil
		})
		haulier.Handle(r, "then-wrong", func(ctx context.Context, _ *haulier.Job, _ struct{}) error {
			haulier.Then(ctx, haulier.Spec{Type: "sum", Tenant: "somebody-else"})
			return nil
		})
		haulier.Handle(r, "exit", func(context.Context, *haulier.Job, struct{}) error {
			runtime.Goexit()
			return nil
		})
	})
	job := func(typ, payload string) haulier.Spec {
		return haulier.Spec{Type: typ, Payload: []byte(payload), MaxAttempts: 1}
	}
	for _, c := range []struct {
		name, typ, payload string
		state              haulier.State
		result, why, log   string
	}{
		{"take JSON and give a result", "sum", `{"A":1,"B":2}`, haulier.Succeeded, "3", "", "adding 1 and 2\n"},
		{"take no payload as zero", "sum", ``, haulier.Succeeded, "0", "", ""},
		{"take bytes as they are", "raw", `{not json`, haulier.Succeeded, `"{not json"`, "", ""},
		{"fail for good on what does not decode", "sum", `{`, haulier.Failed, "", "payload: invalid", ""},
		{"turn a panic into an error", "panic", ``, haulier.Failed, "", "panic: oh no", "worker_test.go"},
		{"say that it is final", "fail", ``, haulier.Failed, "", "no way", ""},
		{"are told what the server refuses", "then-wrong", ``, haulier.Failed, "", "refused", ""},
		{"survive the end of their goroutine", "exit", ``, haulier.Failed, "", "ended its goroutine", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := enqueue(t, q, job(c.typ, c.payload))[0]
			j := end(t, q, id)[0]
			if j.State != c.state || string(j.Result) != c.result || !strings.Contains(j.Error, c.why) {
				t.Fatalf("got %+v, result %s", j.Status, j.Result)
			}
			output(t, q, id, c.log)
		})
	}
	t.Run("ask for another try", func(t *testing.T) {
		s := job("retry", "")
		s.MaxAttempts = 5
		if j := end(t, q, enqueue(t, q, s)...)[0]; j.State != haulier.Succeeded || j.Attempt != 3 {
			t.Fatalf("got %+v", j.Status)
		}
	})
	t.Run("see their timeout", func(t *testing.T) {
		s := job("wait", "")
		s.Timeout = haulier.Duration(20 * time.Millisecond)
		if j := end(t, q, enqueue(t, q, s)...)[0]; j.State != haulier.Failed || !strings.Contains(j.Error, "timed out after 20ms") {
			t.Fatalf("got %+v", j.Status)
		}
	})
	t.Run("tell their progress and see a cancellation", func(t *testing.T) {
		id := enqueue(t, q, job("wait", ""))[0]
		until(t, q, id, "at 40 percent", func(j *haulier.Job) bool { return j.Percent == 40 && j.Step == "waiting" && j.State == haulier.Running })
		cancelJob(t, q, id)
		if j := end(t, q, id)[0]; j.State != haulier.Cancelled {
			t.Fatalf("got %+v", j.Status)
		}
	})
	t.Run("bring further jobs", func(t *testing.T) {
		id := enqueue(t, q, job("then", ""))[0]
		end(t, q, id)
		p, err := q.List(t.Context(), haulier.Filter{Tenant: haulier.DefaultTenant, Type: "sum"}, "", 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range p.Jobs {
			if j.Parent == id {
				if j = end(t, q, j.ID)[0]; string(j.Result) != "42" {
					t.Fatalf("got %+v", j.Status)
				}
				return
			}
		}
		t.Fatalf("none of %d jobs came from it", len(p.Jobs))
	})
}

func TestManyFunctions(t *testing.T) {
	q := queue(t)
	var ran sync.Map
	start(t, worker.Config{Consumer: q, Concurrency: 50}, func(r haulier.Registry) {
		haulier.Handle(r, "once", func(_ context.Context, j *haulier.Job, _ struct{}) error {
			if _, again := ran.LoadOrStore(j.ID, true); again {
				return haulier.Fail(errors.New("ran twice"))
			}
			return nil
		})
	})
	specs := make([]haulier.Spec, 5000)
	for i := range specs {
		specs[i].Type = "once"
	}
	for _, j := range end(t, q, enqueue(t, q, specs...)...) {
		if j.State != haulier.Succeeded || j.Attempt != 1 {
			t.Fatalf("got %+v", j.Status)
		}
	}
}
