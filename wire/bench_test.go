package wire_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/wire"
)

func benchSpec() haulier.Spec {
	now := time.Now().UTC()
	return haulier.Spec{ID: haulier.NewID(now), Tenant: "default", Queue: "default", Type: "bench", CreatedAt: now,
		MaxAttempts: 10, Payload: bytes.Repeat([]byte("x"), 100)}
}

func BenchmarkAppendSpec(b *testing.B) {
	s := benchSpec()
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = wire.AppendSpec(buf[:0], &s)
	}
}

func BenchmarkParseSpec(b *testing.B) {
	s := benchSpec()
	buf := wire.AppendSpec(nil, &s)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.ParseSpec(buf); err != nil {
			b.Fatal(err)
		}
	}
}

func benchStatus() haulier.Status {
	j := haulier.Job{Spec: benchSpec()}
	now := j.CreatedAt
	j.Status = j.First(now, "")
	for _, k := range []haulier.EventKind{haulier.EventClaim, haulier.EventStart, haulier.EventFinish} {
		now = now.Add(3 * time.Millisecond)
		e := haulier.Event{Kind: k, Session: j.ID, Attempt: 1, By: "worker-1", Outcome: haulier.OutcomeOK}
		j.Status, _ = j.Next(e, now)
	}
	return j.Status
}

func BenchmarkAppendStatus(b *testing.B) {
	s := benchStatus()
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = wire.AppendStatus(buf[:0], &s)
	}
	b.ReportMetric(float64(len(buf)), "bytes")
}

func BenchmarkParseStatus(b *testing.B) {
	s := benchStatus()
	buf := wire.AppendStatus(nil, &s)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.ParseStatus(buf); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseEnqueueRequests1000(b *testing.B) {
	s := benchSpec()
	r := haulier.EnqueueRequest{}
	for range 1000 {
		r.Jobs = append(r.Jobs, s)
	}
	buf := wire.AppendEnqueueRequests(nil, []haulier.EnqueueRequest{r})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.ParseEnqueueRequests(buf); err != nil {
			b.Fatal(err)
		}
	}
}
