package storetest

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haulier/haulier"
)

// Benchmark measures a driver, in jobs a second:
//
//	Enqueue        one job a commit, by 1, 100 and 1000 callers
//	EnqueueBatch   1000 jobs a commit, by 1 and 4 callers
//	ClaimFinish    four workers that claim 100 jobs, read them as an engine does before a report, and finish them, while
//	               1 k, 100 k and 1 M others wait, and with 1 k that wait after 1 M were enqueued, finished and removed
//
// All commits are synced. open returns a new, empty store, which it closes when the benchmark ends.
func Benchmark(b *testing.B, open func(b *testing.B) haulier.Store) {
	for _, callers := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("Enqueue/callers=%d", callers), func(b *testing.B) { benchEnqueue(b, open(b), callers, 1) })
	}
	for _, callers := range []int{1, 4} {
		b.Run(fmt.Sprintf("EnqueueBatch/callers=%d", callers), func(b *testing.B) { benchEnqueue(b, open(b), callers, 1000) })
	}
	for _, waiting := range []int{1_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("ClaimFinish/waiting=%d", waiting), func(b *testing.B) { benchClaims(b, open(b), waiting, 0) })
	}
	b.Run("ClaimFinish/passed=1000000", func(b *testing.B) { benchClaims(b, open(b), 1000, 1_000_000) })
}

// NewJobs are n pending jobs with payloads of 100 bytes, all of one lane.
func NewJobs(n int) []haulier.Job {
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

func benchEnqueue(b *testing.B, s haulier.Store, callers, size int) {
	b.ReportAllocs()
	b.ResetTimer()
	together(b, callers, b.N, func(ctx context.Context) error {
		return s.Commit(ctx, &haulier.Batch{Insert: NewJobs(size), Sync: true})
	})
	b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "jobs/s")
}

// together calls f n times, from so many goroutines.
func together(b *testing.B, callers, n int, f func(context.Context) error) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := f(b.Context()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func benchClaims(b *testing.B, s haulier.Store, waiting, passed int) {
	session := haulier.NewID(time.Now())
	doc := haulier.DocWrite{Kind: haulier.DocSession, Key: session.String(), Value: []byte("x"), Lease: 10 * time.Hour}
	if err := s.Commit(b.Context(), &haulier.Batch{Docs: []haulier.DocWrite{doc}}); err != nil {
		b.Fatal(err)
	}
	together(b, 4, passed/1000, func(ctx context.Context) error {
		if err := s.Commit(ctx, &haulier.Batch{Insert: NewJobs(1000)}); err != nil {
			return err
		}
		finished, err := claimAndFinish(ctx, s, session, 1000)
		if err != nil {
			return err
		}
		return s.Commit(ctx, &haulier.Batch{Delete: finished})
	})
	together(b, 4, (waiting+100*b.N)/1000+1, func(ctx context.Context) error {
		return s.Commit(ctx, &haulier.Batch{Insert: NewJobs(1000)})
	})
	b.ReportAllocs()
	b.ResetTimer()
	together(b, 4, b.N, func(ctx context.Context) error {
		finished, err := claimAndFinish(ctx, s, session, 100)
		if err == nil && len(finished) == 0 {
			return fmt.Errorf("there is nothing to claim")
		}
		return err
	})
	b.ReportMetric(float64(b.N)*100/b.Elapsed().Seconds(), "jobs/s")
	b.StopTimer()
}

// claimAndFinish is what becomes of up to n jobs; it returns what would remove them.
func claimAndFinish(ctx context.Context, s haulier.Store, session haulier.ID, n int) ([]haulier.JobDelete, error) {
	claimed, err := s.Claim(ctx, session, "worker", []haulier.Take{{Band: haulier.Band{Lane: NewJobs(1)[0].Lane()}, N: n}})
	if err != nil {
		return nil, err
	}
	ids := make([]haulier.ID, len(claimed))
	for i := range claimed {
		ids[i] = claimed[i].ID
	}
	jobs, err := s.Jobs(ctx, ids)
	if err != nil {
		return nil, err
	}
	batch := haulier.Batch{Sync: true, Update: make([]haulier.JobUpdate, 0, len(jobs))}
	finished := make([]haulier.JobDelete, 0, len(jobs))
	for _, j := range jobs {
		next, err := j.Next(haulier.Event{Kind: haulier.EventFinish, Session: session, Attempt: j.Attempt, Outcome: haulier.OutcomeOK, By: "worker"}, time.Now())
		if err != nil {
			return nil, err
		}
		batch.Update = append(batch.Update, haulier.JobUpdate{Spec: &j.Spec, Expect: j.Rev, Status: next})
		finished = append(finished, haulier.JobDelete{ID: j.ID, Expect: next.Rev})
	}
	return finished, s.Commit(ctx, &batch)
}
