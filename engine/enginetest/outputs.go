package enginetest

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/joblog"
)

func frames(text string) []byte {
	return joblog.Append(nil, joblog.Stdout, time.UnixMicro(1), []byte(text))
}

// output reads all of a job's output from the offset on.
func (h *Harness) output(id haulier.ID, from int64) (text string, chunks []haulier.LogChunk) {
	h.t.Helper()
	for {
		c, err := h.Log(h.t.Context(), haulier.LogRequest{Job: id, From: from, Max: 100_000})
		if err != nil {
			h.t.Fatalf("log: %v", err)
		}
		if len(c.Frames) > 0 {
			b, err := joblog.Text(c.Frames)
			if err != nil {
				h.t.Fatalf("frames at %d: %v", c.From, err)
			}
			text += string(b)
			chunks = append(chunks, c)
		}
		if c.End || len(c.Frames) == 0 {
			return text, chunks
		}
		from = c.Next
	}
}

var outputs = []behaviour{
	{"output is kept in order, once, whatever is sent again", func(t *testing.T, h *Harness) {
		id := h.add(nil)
		s := h.open(nil)
		j := h.claimOne(s)
		a, b, c := frames("one\n"), frames("two\n"), frames("three\n")
		send := func(from int, data []byte) {
			if errs := h.report(s, haulier.Report{Ref: ref(j), Kind: haulier.ReportLog, Log: data, LogFrom: int64(from)}); errs[0] != nil {
				t.Fatal(errs[0])
			}
		}
		send(0, a)
		send(0, bytes.Join([][]byte{a, b}, nil))
		h.restart()
		send(len(a), b)
		h.report(s, haulier.Report{Ref: ref(j), Kind: haulier.ReportFinish, Outcome: haulier.OutcomeOK, Log: c, LogFrom: int64(len(a) + len(b))})
		if got, _ := h.output(id, 0); got != "one\ntwo\nthree\n" {
			t.Errorf("output %q", got)
		}
		if got, _ := h.output(id, int64(len(a))); got != "two\nthree\n" {
			t.Errorf("output from the second frame %q", got)
		}
		if got, _ := h.output(id, -int64(len(c))); got != "three\n" {
			t.Errorf("tail %q", got)
		}
		if d := h.want(id, haulier.Succeeded); d.LogSize != int64(len(a)+len(b)+len(c)) {
			t.Errorf("size %d", d.LogSize)
		}
	}},
	{"a follower sees output as it comes, and its end", func(t *testing.T, h *Harness) {
		id := h.add(nil)
		s := h.open(nil)
		j := h.claimOne(s)
		got := make(chan haulier.LogChunk)
		go func() {
			from := int64(0)
			for {
				c, err := h.Log(context.Background(), haulier.LogRequest{Job: id, From: from, Wait: true})
				if err != nil {
					t.Errorf("log: %v", err)
				}
				got <- c
				if from = c.Next; c.End || err != nil {
					return
				}
			}
		}()
		synctest.Wait()
		a, b := frames("a"), frames("b")
		h.report(s, haulier.Report{Ref: ref(j), Kind: haulier.ReportLog, Log: a})
		if c := <-got; !bytes.Equal(c.Frames, a) || c.End {
			t.Fatalf("first: %+v", c)
		}
		h.report(s, haulier.Report{Ref: ref(j), Kind: haulier.ReportFinish, Outcome: haulier.OutcomeOK, Log: b, LogFrom: int64(len(a))})
		c := <-got
		if !bytes.Equal(c.Frames, b) {
			t.Fatalf("second: %+v", c)
		}
		for !c.End {
			c = <-got
		}
	}},
	{"much output becomes a blob, with the middle cut out", func(t *testing.T, h *Harness) {
		id := h.add(nil)
		s := h.open(nil)
		j := h.claimOne(s)
		var from int64
		line := bytes.Repeat([]byte("."), 1000)
		for i := range 1000 {
			f := joblog.Append(nil, joblog.Stdout, time.UnixMicro(1), fmt.Appendf(nil, "%06d%s\n", i, line))
			if errs := h.report(s, haulier.Report{Ref: ref(j), Kind: haulier.ReportLog, Log: f, LogFrom: from}); errs[0] != nil {
				t.Fatal(errs[0])
			}
			from += int64(len(f))
		}
		check := func() {
			text, chunks := h.output(id, 0)
			if len(text) < 350_000 || len(text) > 500_000 {
				t.Fatalf("%d bytes kept", len(text))
			}
			if text[:6] != "000000" || text[len(text)-1007:len(text)-1001] != "000999" {
				t.Errorf("begins %q, ends %q", text[:6], text[len(text)-1007:len(text)-1001])
			}
			gaps := 0
			for i, next := 0, int64(0); i < len(chunks); i++ {
				if chunks[i].From != next {
					gaps++
				}
				next = chunks[i].Next
			}
			if gaps != 1 {
				t.Errorf("%d gaps, want one", gaps)
			}
		}
		check()
		h.report(s, haulier.Report{Ref: ref(j), Kind: haulier.ReportFinish, Outcome: haulier.OutcomeOK, LogFrom: from})
		if d := h.want(id, haulier.Succeeded); d.LogBlob == "" || d.LogSize != from {
			t.Errorf("blob %q, size %d, want %d", d.LogBlob, d.LogSize, from)
		}
		check()
		if c, err := h.Delete(t.Context(), one(id), "me"); err != nil || c.N != 1 {
			t.Fatalf("%+v, %v", c, err)
		}
	}},
	{"a job whose output is the same blob as its payload can be removed", func(t *testing.T, h *Harness) {
		var out []byte
		for range 30 {
			out = joblog.Append(out, joblog.Stdout, time.UnixMicro(1), bytes.Repeat([]byte("x"), 10<<10))
		}
		id := h.add(func(s *haulier.Spec) { s.Payload = out })
		s := h.open(nil)
		j := h.claimOne(s)
		h.report(s, haulier.Report{Ref: ref(j), Kind: haulier.ReportFinish, Outcome: haulier.OutcomeOK, Log: out})
		if d := h.want(id, haulier.Succeeded); d.LogBlob != d.Blob {
			t.Fatalf("output is %q, payload %q", d.LogBlob, d.Blob)
		}
		if c, err := h.Delete(t.Context(), one(id), "me"); err != nil || c.N != 1 {
			t.Fatalf("%+v, %v", c, err)
		}
	}},
	{"who follows an attempt to come waits for it", func(t *testing.T, h *Harness) {
		id := h.add(nil)
		s := h.open(nil)
		h.finish(s, h.claimOne(s), haulier.OutcomeError)
		got := make(chan haulier.LogChunk, 1)
		go func() {
			c, err := h.Log(context.Background(), haulier.LogRequest{Job: id, Attempt: 2, Wait: true})
			if err != nil {
				t.Errorf("log: %v", err)
			}
			got <- c
		}()
		h.pass(2 * time.Second)
		select {
		case c := <-got:
			t.Fatalf("before the attempt has begun: %+v", c)
		default:
		}
		h.finish(s, h.claimOne(s), haulier.OutcomeOK)
		if c := <-got; !c.End || c.Attempt != 2 {
			t.Fatalf("%+v", c)
		}
	}},
	{"each attempt has its own output", func(t *testing.T, h *Harness) {
		id := h.add(nil)
		s := h.open(nil)
		for _, text := range []string{"first", "second"} {
			j := h.claimOne(s)
			h.report(s, haulier.Report{Ref: ref(j), Kind: haulier.ReportRelease, Log: frames(text)})
		}
		for i, want := range []string{"first", "second"} {
			c, err := h.Log(t.Context(), haulier.LogRequest{Job: id, Attempt: i + 1})
			if b, _ := joblog.Text(c.Frames); err != nil || string(b) != want {
				t.Errorf("attempt %d: %q, %v", i+1, b, err)
			}
		}
	}},
}
