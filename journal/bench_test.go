package journal_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/journal"
)

const benchPayload = `{"to":"somebody@example.org","template":"welcome","n":12345}`

// BenchmarkWriteSync: each caller writes a job and waits until it is on stable storage.
func BenchmarkWriteSync(b *testing.B) {
	for _, callers := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("%d callers", callers), func(b *testing.B) {
			j := open(b, b.TempDir(), journal.Options{})
			ctx := context.Background()
			per := b.N/callers + 1
			var wg sync.WaitGroup
			b.ReportAllocs()
			b.ResetTimer()
			for range callers {
				wg.Go(func() {
					for range per {
						_, _, err := j.Write(ctx, jobs(benchPayload))
						if err == nil {
							err = j.Sync(ctx)
						}
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(per*callers)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

// BenchmarkWriteBatches: 1000 jobs in a request.
func BenchmarkWriteBatches(b *testing.B) {
	j := open(b, b.TempDir(), journal.Options{})
	list := make([]string, 1000)
	for i := range list {
		list[i] = benchPayload
	}
	entries := jobs(list...)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := j.Write(b.Context(), entries); err != nil {
			b.Fatal(err)
		}
		synced(b, j)
		token, _ := j.Reserve(1000, time.Minute)
		if err := j.Done(b.Context(), token); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*len(list))/b.Elapsed().Seconds(), "jobs/s")
}

// BenchmarkIngest brings jobs into an engine over a store in memory.
func BenchmarkIngest(b *testing.B) {
	e := newEngine(b)
	j := open(b, b.TempDir(), journal.Options{})
	f := &journal.Front{Journal: j}
	const n = 1000
	reqs := make([]haulier.EnqueueRequest, n)
	for i := range reqs {
		reqs[i].Jobs = []haulier.Spec{{Type: "mail", Payload: []byte(benchPayload)}}
	}
	in := journal.Ingest{Journal: j, Queue: e}
	for b.Loop() {
		b.StopTimer()
		accept(b, f, reqs...)
		b.StartTimer()
		if sum, err := in.Once(b.Context()); err != nil || sum.Added != n {
			b.Fatal(sum, err)
		}
	}
	b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "jobs/s")
}
