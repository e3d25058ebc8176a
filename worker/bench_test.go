package worker_test

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
	"github.com/haulier/haulier/executor/script"
	"github.com/haulier/haulier/worker"
)

// supply is a server that always has jobs and takes every report: what remains is the worker.
type supply struct {
	haulier.Consumer
	spec  haulier.Spec
	left  int
	ended int
	done  chan struct{}
}

func (s *supply) OpenSession(_ context.Context, in haulier.Session) (haulier.Session, error) {
	in.ID = haulier.NewID(time.Now())
	return in, nil
}

func (s *supply) Renew(ctx context.Context, _ haulier.RenewRequest) (haulier.RenewReply, error) {
	<-ctx.Done()
	return haulier.RenewReply{}, ctx.Err()
}

func (s *supply) CloseSession(context.Context, haulier.ID) error { return nil }

func (s *supply) Claim(ctx context.Context, r haulier.ClaimRequest) ([]haulier.Job, error) {
	n := min(r.N, s.left)
	if n == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	s.left -= n
	ids := make([]haulier.ID, n)
	haulier.FillIDs(ids, time.Now())
	jobs := make([]haulier.Job, n)
	for i := range jobs {
		jobs[i].Spec, jobs[i].ID, jobs[i].Attempt = s.spec, ids[i], 1
	}
	return jobs, nil
}

func (s *supply) Report(_ context.Context, _ haulier.ID, reports []haulier.Report) ([]error, error) {
	for i := range reports {
		if reports[i].Kind == haulier.ReportFinish {
			if s.ended--; s.ended == 0 {
				close(s.done)
			}
		}
	}
	return make([]error, len(reports)), nil
}

func bench(b *testing.B, c worker.Config, spec haulier.Spec) {
	s := &supply{spec: spec, left: b.N, ended: b.N, done: make(chan struct{})}
	c.Consumer = s
	w, err := worker.New(c)
	if err != nil {
		b.Fatal(err)
	}
	if spec.Task.Kind() == haulier.KindGo {
		haulier.Handle(w, spec.Type, func(context.Context, *haulier.Job, struct{}) error { return nil })
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	before := cpu()
	b.ReportAllocs()
	b.ResetTimer()
	go func() { ended <- w.Run(ctx) }()
	<-s.done
	b.StopTimer()
	b.ReportMetric(float64((cpu()-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
	stop()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}

func cpu() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkFunctions(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(strconv.Itoa(n), func(b *testing.B) { bench(b, worker.Config{Concurrency: n}, haulier.Spec{Type: "noop"}) })
	}
}

// noop is a handler that returns at once.
type noop struct{}

func (noop) Handler(context.Context, string, string, int) (haulier.Handler, error) {
	return haulier.Handler{Type: "noop", Version: 1, Digest: "1", Lang: "node", Scripts: haulier.Scripts{Body: "module.exports = async () => 200"}}, nil
}

func BenchmarkScripts(b *testing.B) {
	if _, err := exec.LookPath("node"); err != nil {
		b.Skip("node is not on this machine")
	}
	spec := haulier.Spec{Tenant: "default", Queue: "default", Type: "noop", Task: haulier.Task{Script: &haulier.ScriptTask{Version: 1, Digest: "1"}}}
	bench(b, worker.Config{Concurrency: 400, Executors: []executor.Executor{script.New(script.Config{Source: noop{}})}}, spec)
}

func BenchmarkCommands(b *testing.B) {
	dir, err := os.MkdirTemp("/tmp", "hw")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(dir)
	spec := haulier.Spec{Type: "sh", Task: haulier.Task{Exec: &haulier.ExecTask{Argv: []string{"true"}}}}
	bench(b, worker.Config{Concurrency: 4, Dir: dir, Executors: commands()}, spec)
}
