package etcd_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/store/etcd"
	"github.com/haulier/haulier/store/services"
)

// newJobs are n pending jobs with payloads of 100 bytes.
func newJobs(n int) []haulier.Job {
	now := time.Now()
	ids := make([]haulier.ID, n)
	haulier.FillIDs(ids, now)
	jobs := make([]haulier.Job, n)
	payload := bytes.Repeat([]byte("x"), 100)
	for i := range jobs {
		jobs[i].Spec = haulier.Spec{ID: ids[i], Tenant: "default", Queue: "default", Type: "bench", CreatedAt: now.UTC().Truncate(time.Microsecond),
			MaxAttempts: 10, Payload: payload}
		jobs[i].Status = jobs[i].First(now, "bench")
	}
	return jobs
}

func openBench(b *testing.B) *etcd.Store {
	b.Helper()
	s, err := etcd.Open(b.Context(), services.Etcd(b).URL(freshPrefix()), etcd.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

func BenchmarkEnqueue(b *testing.B) {
	for _, callers := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s := openBench(b)
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ReportAllocs()
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						if err := s.Commit(context.Background(), &haulier.Batch{Insert: newJobs(1), Sync: true}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

func BenchmarkEnqueueBatch1000(b *testing.B) {
	for _, callers := range []int{1, 4} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s := openBench(b)
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ReportAllocs()
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						if err := s.Commit(context.Background(), &haulier.Batch{Insert: newJobs(1000), Sync: true}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

// BenchmarkClaimFinish100 claims 100 jobs, reads them as an engine does before a report, and
// finishes them, over and over by two workers, while each finish is replaced by a new job.
func BenchmarkClaimFinish100(b *testing.B) {
	for _, waiting := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("waiting=%d", waiting), func(b *testing.B) {
			s := openBench(b)
			session := haulier.NewID(time.Now())
			err := s.Commit(b.Context(), &haulier.Batch{Docs: []haulier.DocWrite{{Kind: haulier.DocSession, Key: session.String(), Value: []byte("x"), Lease: time.Hour}}})
			if err != nil {
				b.Fatal(err)
			}
			for range (waiting + 100*b.N) / 1000 {
				if err := s.Commit(b.Context(), &haulier.Batch{Insert: newJobs(1000)}); err != nil {
					b.Fatal(err)
				}
			}
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						if err := cycle(b.Context(), s, session); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)*100/b.Elapsed().Seconds(), "jobs/s")
			b.StopTimer()
		})
	}
}

func cycle(ctx context.Context, s *etcd.Store, session haulier.ID) error {
	band := haulier.Band{Lane: haulier.Lane{Tenant: "default", Queue: "default", Type: "bench", Kind: haulier.KindGo}}
	claimed, err := s.Claim(ctx, session, "worker", []haulier.Take{{Band: band, N: 100}})
	if err != nil {
		return err
	}
	ids := make([]haulier.ID, len(claimed))
	for i := range claimed {
		ids[i] = claimed[i].ID
	}
	jobs, err := s.Jobs(ctx, ids)
	if err != nil {
		return err
	}
	batch := haulier.Batch{Sync: true, Update: make([]haulier.JobUpdate, 0, len(jobs))}
	for _, j := range jobs {
		next, err := j.Next(haulier.Event{Kind: haulier.EventFinish, Session: session, Attempt: j.Attempt, Outcome: haulier.OutcomeOK, By: "worker"}, time.Now())
		if err != nil {
			return err
		}
		batch.Update = append(batch.Update, haulier.JobUpdate{Spec: &j.Spec, Expect: j.Rev, Status: next})
	}
	return s.Commit(ctx, &batch)
}
