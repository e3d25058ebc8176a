package enginetest

import (
	"errors"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/joblog"
)

var batching = []behaviour{
	{"a batch calls back when all its jobs have succeeded, and when all have ended", batchEnds},
	{"a failed job keeps the success back until it runs again", batchRetried},
	{"an open batch takes jobs until it is closed, and its running jobs may add more", batchOpen},
	{"lines of a job's output bring jobs of its batch", batchChained},
	{"a batch whose jobs end at once is done", batchIdle},
	{"a batch that can't be is refused", batchRefused},
	{"a batch goes with the job that waited for its end", batchForgotten},
}

func (h *Harness) batch(r haulier.BatchRequest) haulier.BatchStatus {
	h.t.Helper()
	b, err := h.CreateBatch(h.t.Context(), r)
	if err != nil {
		h.t.Fatalf("create batch: %v", err)
	}
	return b
}

func (h *Harness) wantBatch(id haulier.ID, total, ended, failed int) {
	h.t.Helper()
	b, err := h.GetBatch(h.t.Context(), "", id)
	if err != nil || b.Total != total || b.Ended != ended || b.Failed != failed {
		h.t.Errorf("batch: %+v, %v; want %d jobs, %d ended, %d failed", b, err, total, ended, failed)
	}
}

func three() []haulier.Spec {
	one := haulier.Spec{Type: "work", MaxAttempts: 1}
	return []haulier.Spec{one, one, one}
}

func batchEnds(t *testing.T, h *Harness) {
	s := h.open(patient)
	b := h.batch(haulier.BatchRequest{Name: "n", Jobs: three(), OnSuccess: &haulier.Spec{Type: "done", Payload: []byte("1")}, OnEnd: &haulier.Spec{Type: "over"}})
	if !b.Closed || len(b.Jobs) != 3 || h.get(b.Jobs[0]).Group != b.ID.String() {
		t.Errorf("%+v", b)
	}
	h.wantBatch(b.ID, 3, 0, 0)
	for i := range 3 {
		h.want(b.OnSuccess, haulier.Blocked)
		h.ok(s, h.claim(s, 1)[0])
		h.wantBatch(b.ID, 3, i+1, 0)
		if i == 1 {
			h.restart()
		}
	}
	for _, id := range []haulier.ID{b.OnSuccess, b.OnEnd} {
		if j := h.want(id, haulier.Pending); j.Labels[haulier.LabelBatch] != b.ID.String() {
			t.Errorf("%+v", j.Spec)
		}
	}
	if list, err := h.ListBatches(t.Context(), "", 0); err != nil || len(list) != 1 || list[0].Percent != 100 || list[0].Name != "n" {
		t.Errorf("%+v, %v", list, err)
	}
}

func batchRetried(t *testing.T, h *Harness) {
	s := h.open(patient)
	b := h.batch(haulier.BatchRequest{Jobs: three(), OnSuccess: &haulier.Spec{Type: "done"}, OnEnd: &haulier.Spec{Type: "over"}})
	jobs := h.claim(s, 10)
	h.finish(s, jobs[0], haulier.OutcomeFailed)
	h.finish(s, jobs[1], haulier.OutcomeFailed)
	h.wantBatch(b.ID, 3, 2, 2)
	h.ok(s, jobs[2])
	h.wantBatch(b.ID, 3, 3, 2)
	h.want(b.OnEnd, haulier.Pending)
	h.want(b.OnSuccess, haulier.Cancelled)
	if _, err := h.Retry(t.Context(), haulier.Selection{IDs: []haulier.ID{jobs[0].ID, jobs[1].ID}}, "ann"); err != nil {
		t.Fatal(err)
	}
	h.wantBatch(b.ID, 3, 3, 0)
	for _, j := range h.claim(s, 10) {
		h.want(b.OnSuccess, haulier.Blocked)
		h.ok(s, j)
	}
	h.want(b.OnSuccess, haulier.Pending)
}

func batchOpen(t *testing.T, h *Harness) {
	s := h.open(patient)
	b := h.batch(haulier.BatchRequest{Open: true, OnEnd: &haulier.Spec{Type: "over"}})
	in := haulier.Spec{Type: "work", Flow: &haulier.Flow{Batch: b.ID}}
	h.enqueue(in, in)
	for _, j := range h.claim(s, 10) {
		h.ok(s, j)
	}
	h.want(b.OnEnd, haulier.Blocked)
	h.wantBatch(b.ID, 2, 2, 0)
	h.enqueue(in)
	for range 2 {
		if got, err := h.CloseBatch(t.Context(), "", b.ID, "ann"); err != nil || !got.Closed {
			t.Fatal(got, err)
		}
	}
	last := h.claimOne(s)
	h.want(b.OnEnd, haulier.Blocked)
	more := h.enqueue(in)[0] // by the one that runs
	h.ok(s, last)
	h.want(b.OnEnd, haulier.Blocked)
	if j := h.claimOne(s); j.ID == more {
		h.ok(s, j)
	}
	h.wantBatch(b.ID, 4, 4, 0)
	h.want(b.OnEnd, haulier.Pending)
	res, err := h.Enqueue(t.Context(), []haulier.EnqueueRequest{{Jobs: []haulier.Spec{in}}})
	if err != nil || !errors.Is(res[0].Err, haulier.ErrConflict) {
		t.Errorf("a batch that has ended takes a job: %v, %v", res, err)
	}
}

func batchChained(t *testing.T, h *Harness) {
	s := h.open(patient)
	b := h.batch(haulier.BatchRequest{Jobs: []haulier.Spec{{Type: "work", Flow: &haulier.Flow{Chain: true}}}})
	j := h.claimOne(s)
	frames := joblog.Append(nil, joblog.Stdout, time.Now(), []byte("J: other|x\nJ: other|y"))
	h.report(s, haulier.Report{Ref: ref(j), Kind: haulier.ReportFinish, Outcome: haulier.OutcomeOK, Log: frames})
	h.wantBatch(b.ID, 3, 1, 0)
	h.want(b.OnEnd, haulier.Blocked)
	for _, j := range h.claim(s, 10) {
		h.ok(s, j)
	}
	h.wantBatch(b.ID, 3, 3, 0)
	if j := h.want(b.OnEnd, haulier.Succeeded); j.Type == "" {
		t.Errorf("%+v", j)
	}
}

func batchIdle(_ *testing.T, h *Harness) {
	none := haulier.Spec{Type: "none", Task: haulier.Task{None: &haulier.NoTask{}}}
	b := h.batch(haulier.BatchRequest{Jobs: []haulier.Spec{none, none}, OnSuccess: &haulier.Spec{Type: "done"}})
	h.wantBatch(b.ID, 2, 2, 0)
	h.want(b.OnSuccess, haulier.Pending)
	h.want(b.OnEnd, haulier.Succeeded)
}

func batchRefused(t *testing.T, h *Harness) {
	for field, r := range map[string]haulier.BatchRequest{
		"jobs":            {},
		"jobs[1].type":    {Jobs: []haulier.Spec{{Type: "a"}, {}}},
		"on_success.type": {Open: true, OnSuccess: &haulier.Spec{}},
		"name":            {Open: true, Name: "a b"},
	} {
		_, err := h.CreateBatch(t.Context(), r)
		var f *haulier.FieldError
		if !errors.As(err, &f) || f.Field != field {
			t.Errorf("a wrong %s: %v", field, err)
		}
	}
	res, err := h.Enqueue(t.Context(), []haulier.EnqueueRequest{{Jobs: []haulier.Spec{{Type: "a", Flow: &haulier.Flow{Batch: haulier.ID{1}}}}}})
	if err != nil || !errors.Is(res[0].Err, haulier.ErrInvalid) {
		t.Errorf("a batch that is not there takes a job: %v, %v", res, err)
	}
	if _, err := h.GetBatch(t.Context(), "", haulier.ID{1}); !errors.Is(err, haulier.ErrNotFound) {
		t.Errorf("a batch that is not there: %v", err)
	}
	if page, err := h.List(t.Context(), haulier.Filter{}, "", 10); err != nil || len(page.Jobs) > 0 {
		t.Errorf("refused batches leave %d jobs, %v", len(page.Jobs), err)
	}
}

func batchForgotten(t *testing.T, h *Harness) {
	s := h.open(patient)
	b := h.batch(haulier.BatchRequest{Jobs: three()[:1]})
	h.ok(s, h.claimOne(s))
	h.pass(haulier.DefaultRetention + time.Hour)
	if _, err := h.GetBatch(t.Context(), "", b.ID); !errors.Is(err, haulier.ErrNotFound) {
		t.Errorf("it is still there: %v", err)
	}
}
