package wasi_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/blob"
	"github.com/haulier/haulier/engine"
	"github.com/haulier/haulier/executor"
	"github.com/haulier/haulier/executor/wasi"
	"github.com/haulier/haulier/store/pebble"
	"github.com/haulier/haulier/worker"
)

// cpu is the processor time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkJobs runs jobs of a trivial module from their enqueue to their end: an engine over Pebble that syncs, and a worker in the same process.
func BenchmarkJobs(b *testing.B) {
	for name, body := range map[string]string{"silent": "", "output": hello} {
		b.Run(name, func(b *testing.B) { benchJobs(b, made{body: []byte(body)}.bytes()) })
	}
}

func benchJobs(b *testing.B, module []byte) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	st, err := pebble.Open(b.TempDir(), pebble.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	blobs, err := blob.OpenDir(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer blobs.Close()
	e, err := engine.New(engine.Config{Store: st, Blobs: blobs})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	duties := make(chan error, 1)
	go func() { duties <- e.Run(ctx) }()
	r := &rig{t: b, blobs: e}
	task := haulier.Task{Wasi: &haulier.WasiTask{Module: r.put(module)}}
	w, err := worker.New(worker.Config{Consumer: e, Executors: []executor.Executor{wasi.New(wasi.Config{})}, Concurrency: 16, Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	do := func(n int) {
		specs := make([]haulier.Spec, n)
		for i := range specs {
			specs[i] = haulier.Spec{Type: "trivial", Task: task}
		}
		var ids []haulier.ID
		for len(specs) > 0 {
			k := min(len(specs), 1000)
			res, err := e.Enqueue(ctx, []haulier.EnqueueRequest{{Jobs: specs[:k]}})
			if err != nil || res[0].Err != nil {
				b.Fatal(err, res)
			}
			ids, specs = append(ids, res[0].IDs...), specs[k:]
		}
		jobs, err := e.Wait(ctx, haulier.DefaultTenant, ids)
		if err != nil || jobs[0].State != haulier.Succeeded {
			b.Fatal(err, jobs[0].Status)
		}
	}
	do(1) // compiles it
	before := cpu()
	b.ResetTimer()
	do(b.N)
	b.StopTimer()
	b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
	stop()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	if err := <-duties; err != nil {
		b.Fatal(err)
	}
}
