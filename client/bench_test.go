package client_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/haulier/haulier"
)

// idle accepts all jobs and keeps none, so that what is measured is the way there and back.
type idle struct{ haulier.Queue }

func (idle) Enqueue(_ context.Context, reqs []haulier.EnqueueRequest) ([]haulier.EnqueueResult, error) {
	out := make([]haulier.EnqueueResult, len(reqs))
	now := time.Now()
	for i := range reqs {
		out[i].IDs = make([]haulier.ID, len(reqs[i].Jobs))
		haulier.FillIDs(out[i].IDs, now)
	}
	return out, nil
}

var benchSpec = haulier.Spec{Type: "mail", Queue: "bulk", Payload: []byte(`{"to":"somebody@example.org","template":"welcome","n":12345}`)}

func BenchmarkEnqueueSingly(b *testing.B) {
	for _, callers := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprintf("%d callers", callers), func(b *testing.B) {
			c := dial(b, serve(b, idle{}, nil, "127.0.0.1:0").addr, "")
			b.ReportAllocs()
			var wg sync.WaitGroup
			b.ResetTimer()
			per := b.N/callers + 1
			for range callers {
				wg.Go(func() {
					for range per {
						res, err := c.Enqueue(context.Background(), []haulier.EnqueueRequest{{Jobs: []haulier.Spec{benchSpec}}})
						if err != nil || res[0].Err != nil || len(res[0].IDs) != 1 {
							b.Error(err, res)
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

func BenchmarkEnqueueBatches(b *testing.B) {
	c := dial(b, serve(b, idle{}, nil, "127.0.0.1:0").addr, "")
	jobs := make([]haulier.Spec, 1000)
	for i := range jobs {
		jobs[i] = benchSpec
	}
	b.ReportAllocs()
	for b.Loop() {
		res, err := c.Enqueue(context.Background(), []haulier.EnqueueRequest{{Jobs: jobs}})
		if err != nil || res[0].Err != nil || len(res[0].IDs) != len(jobs) {
			b.Fatal(err, res)
		}
	}
	b.ReportMetric(float64(b.N*len(jobs))/b.Elapsed().Seconds(), "jobs/s")
}
