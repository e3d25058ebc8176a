package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/blob"
	"github.com/haulier/haulier/engine"
	"github.com/haulier/haulier/store/mem"
	"github.com/haulier/haulier/store/pebble"
)

// bench is an engine over a store, with a session.
func bench(b *testing.B, s haulier.Store) (*engine.Engine, haulier.ID) {
	b.Helper()
	blobs, err := blob.Open(b.Context(), "mem://")
	if err != nil {
		b.Fatal(err)
	}
	e, err := engine.New(engine.Config{Store: s, Blobs: blobs})
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- e.Run(b.Context()) }()
	b.Cleanup(func() {
		e.Close()
		<-done
		s.Close()
		blobs.Close()
	})
	w, err := e.OpenSession(b.Context(), haulier.Session{Worker: "w", Kinds: []haulier.Kind{haulier.KindGo}, Types: []string{"work"}, Concurrency: 1000, Lease: haulier.Duration(time.Hour)})
	if err != nil {
		b.Fatal(err)
	}
	return e, w.ID
}

func onStores(b *testing.B, run func(b *testing.B, open func() haulier.Store)) {
	b.Run("mem", func(b *testing.B) { run(b, func() haulier.Store { return mem.New() }) })
	b.Run("pebble", func(b *testing.B) {
		run(b, func() haulier.Store {
			s, err := pebble.Open(b.TempDir(), pebble.Options{})
			if err != nil {
				b.Fatal(err)
			}
			return s
		})
	})
}

func enqueue(b *testing.B, e *engine.Engine, specs []haulier.Spec) []haulier.ID {
	b.Helper()
	res, err := e.Enqueue(b.Context(), []haulier.EnqueueRequest{{Jobs: specs}})
	if err != nil || res[0].Err != nil {
		b.Fatal(err, res)
	}
	return res[0].IDs
}

// work claims and finishes jobs, up to n at once, until want are done.
func work(b *testing.B, e *engine.Engine, session haulier.ID, n, want int) {
	b.Helper()
	for want > 0 {
		jobs, err := e.Claim(b.Context(), haulier.ClaimRequest{Session: session, N: n, Wait: 5 * time.Second})
		if err != nil || len(jobs) == 0 {
			b.Fatalf("%d are left: %v", want, err)
		}
		reports := make([]haulier.Report, len(jobs))
		for i := range jobs {
			reports[i] = haulier.Report{Ref: haulier.Ref{Job: jobs[i].ID, Attempt: jobs[i].Attempt}, Kind: haulier.ReportFinish, Outcome: haulier.OutcomeOK}
		}
		if _, err := e.Report(b.Context(), session, reports); err != nil {
			b.Fatal(err)
		}
		want -= len(jobs)
	}
}

// BenchmarkDrain runs plain jobs: what their queue could do besides must cost them nothing.
func BenchmarkDrain(b *testing.B) {
	const n = 100_000
	onStores(b, func(b *testing.B, open func() haulier.Store) {
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			e, s := bench(b, open())
			for range n / 1000 {
				specs := make([]haulier.Spec, 1000)
				for i := range specs {
					specs[i] = haulier.Spec{Type: "work", Payload: []byte(`{"n":1}`)}
				}
				enqueue(b, e, specs)
			}
			b.StartTimer()
			work(b, e, s, 100, n)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/job")
	})
}

// BenchmarkWaitersAtOneKey runs jobs that wait for one another at one key; what one costs must not grow with their number.
func BenchmarkWaitersAtOneKey(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(map[int]string{1000: "1k", 10_000: "10k"}[n], func(b *testing.B) {
			onStores(b, func(b *testing.B, open func() haulier.Store) {
				for b.Loop() {
					e, s := bench(b, open())
					specs := make([]haulier.Spec, n)
					for i := range specs {
						specs[i] = haulier.Spec{Type: "work", Flow: &haulier.Flow{Holds: []string{"k"}, YieldsTo: []haulier.Yield{{Key: "k"}}}}
					}
					enqueue(b, e, specs)
					work(b, e, s, 100, n)
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/job")
			})
		})
	}
}

// BenchmarkJoin finishes jobs that one needs, and then that one.
func BenchmarkJoin(b *testing.B) {
	for _, n := range []int{1000, 9_999} {
		b.Run(map[int]string{1000: "1k", 9_999: "10k"}[n], func(b *testing.B) {
			onStores(b, func(b *testing.B, open func() haulier.Store) {
				for b.Loop() {
					e, s := bench(b, open())
					specs := make([]haulier.Spec, n+1)
					join := &haulier.Flow{}
					for i := range n {
						ref := haulier.NewID(time.Now()).String()
						specs[i] = haulier.Spec{Type: "work", Flow: &haulier.Flow{Ref: ref}}
						join.Needs = append(join.Needs, haulier.Need{Ref: ref})
					}
					specs[n] = haulier.Spec{Type: "work", Flow: join}
					enqueue(b, e, specs)
					work(b, e, s, 500, n+1)
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/job")
			})
		})
	}
}

// BenchmarkFanOut finishes one job that many need, and then those.
func BenchmarkFanOut(b *testing.B) {
	const n = 9_999
	onStores(b, func(b *testing.B, open func() haulier.Store) {
		for b.Loop() {
			e, s := bench(b, open())
			specs := make([]haulier.Spec, n+1)
			specs[0] = haulier.Spec{Type: "work", Flow: &haulier.Flow{Ref: "first"}}
			for i := range n {
				specs[i+1] = haulier.Spec{Type: "work", Flow: &haulier.Flow{Needs: []haulier.Need{{Ref: "first"}}}}
			}
			enqueue(b, e, specs)
			work(b, e, s, 500, n+1)
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/job")
	})
}

// BenchmarkWorkflowStart starts runs of a workflow of 1000 jobs: ten stages of a hundred.
func BenchmarkWorkflowStart(b *testing.B) {
	var text strings.Builder
	text.WriteString("workflow:\n")
	for stage := range 10 {
		text.WriteString("  - parallel: [")
		for i := range 100 {
			fmt.Fprintf(&text, "s%d_%d, ", stage, i)
		}
		text.WriteString("]\n")
	}
	onStores(b, func(b *testing.B, open func() haulier.Store) {
		e, _ := bench(b, open())
		if _, err := e.ApplyWorkflow(b.Context(), "", "big", text.String(), ""); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			r, err := e.StartRun(b.Context(), haulier.RunRequest{Workflow: "big"})
			if err != nil || r.Size < 1000 {
				b.Fatal(r, err)
			}
		}
	})
}

// BenchmarkBatch makes batches of 10 000 jobs.
func BenchmarkBatch(b *testing.B) {
	onStores(b, func(b *testing.B, open func() haulier.Store) {
		e, _ := bench(b, open())
		jobs := make([]haulier.Spec, 10_000)
		for i := range jobs {
			jobs[i].Type = "other"
		}
		for b.Loop() {
			if x, err := e.CreateBatch(b.Context(), haulier.BatchRequest{Jobs: jobs}); err != nil || x.Total != len(jobs) {
				b.Fatal(x, err)
			}
		}
	})
}
