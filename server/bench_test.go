package server_test

import (
	"bytes"
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/server"
)

func BenchmarkEnqueueJSON(b *testing.B) {
	h := newServer(b, server.Config{Queue: &counter{}}).Handler()
	job := `{"type":"mail","queue":"bulk","payload":{"to":"somebody@example.org","template":"welcome","n":12345},"priority":2},`
	body := []byte(`{"jobs":[` + strings.TrimSuffix(strings.Repeat(job, 1000), ",") + `]}`)
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		r := httptest.NewRequestWithContext(b.Context(), "POST", "http://localhost/v1/jobs", bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != 201 {
			b.Fatal(w.Code, w.Body)
		}
	}
	b.ReportMetric(float64(b.N*1000)/b.Elapsed().Seconds(), "jobs/s")
}

// counter takes all jobs and keeps none.
type counter struct{ haulier.Queue }

func (counter) Enqueue(_ context.Context, reqs []haulier.EnqueueRequest) ([]haulier.EnqueueResult, error) {
	out := make([]haulier.EnqueueResult, len(reqs))
	for i := range reqs {
		out[i].IDs = make([]haulier.ID, len(reqs[i].Jobs))
	}
	return out, nil
}
