package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/engine/flow"
)

// Names of the jobs that belong to a batch and are none of its own.
const (
	lidType      = "batch.lid"
	callbackType = "batch.callback"
	lidRef       = ".lid"
	endRef       = ".end"
	successRef   = ".success"
)

// lidUntil is when the lid of a batch that nobody closes goes by itself.
const lidUntil = 90 * 24 * time.Hour

// CreateBatch implements haulier.Batches.
func (e *Engine) CreateBatch(ctx context.Context, r haulier.BatchRequest) (haulier.BatchStatus, error) {
	tenant := tenantOr(r.Tenant)
	if err := first(func() error { return checkName("tenant", tenant) }, func() error { return optional("name", r.Name) }); err != nil {
		return haulier.BatchStatus{}, err
	}
	if len(r.Jobs) > haulier.MaxBatch {
		return haulier.BatchStatus{}, &haulier.FieldError{Field: "jobs", Kind: haulier.ErrTooLarge, Msg: fmt.Sprintf("has %d jobs: send at most %d at once, and more to the open batch", len(r.Jobs), haulier.MaxBatch)}
	}
	if len(r.Jobs) == 0 && !r.Open {
		return haulier.BatchStatus{}, field("jobs", "is empty: name at least one job, or leave the batch open")
	}
	var out haulier.BatchStatus
	err := e.transact(ctx, false, func(t *flow.Tx) error {
		var err error
		out, err = e.addBatch(ctx, t, tenant, &r)
		return err
	})
	if err != nil {
		return haulier.BatchStatus{}, fmt.Errorf("batch: %w", err)
	}
	b, err := e.GetBatch(ctx, tenant, out.ID)
	b.Jobs = out.Jobs
	return b, err
}

func (e *Engine) addBatch(ctx context.Context, t *flow.Tx, tenant string, r *haulier.BatchRequest) (out haulier.BatchStatus, err error) {
	now, err := e.now(ctx)
	if err != nil {
		return out, err
	}
	ids := make([]haulier.ID, 3+len(r.Jobs))
	haulier.FillIDs(ids, now)
	b := flow.Batch{ID: ids[0], Name: r.Name, CreatedAt: now.UTC().Truncate(time.Millisecond), Lid: ids[0], End: ids[1], Success: ids[2]}
	lid := haulier.Spec{Type: lidType, Task: haulier.Task{None: &haulier.NoTask{}}, Flow: &haulier.Flow{Ref: lidRef}, RunAt: now.Add(lidUntil)}
	belonging := []haulier.Spec{lid, callback(r.OnEnd, endRef), callback(r.OnSuccess, successRef)}
	jobs := make([]haulier.Job, 0, len(ids))
	for i, s := range append(belonging, r.Jobs...) {
		s.ID, s.Tenant, s.CreatedAt, s.Parent = ids[i], tenant, now.UTC().Truncate(time.Microsecond), haulier.NilID
		if i < len(belonging) {
			s.Labels = maps.Clone(s.Labels)
			if s.Labels == nil {
				s.Labels = map[string]string{}
			}
			s.Labels[haulier.LabelBatch] = b.ID.String()
		} else {
			member(&s, b.ID)
		}
		if err := complete(&s, now); err != nil {
			return out, inBatch(i-len(belonging), err)
		}
		if len(s.Payload) > haulier.MaxPayload {
			return out, inBatch(i-len(belonging), &haulier.FieldError{Field: "payload", Kind: haulier.ErrTooLarge, Msg: fmt.Sprintf("has %d bytes: at most %d in a batch", len(s.Payload), haulier.MaxPayload)})
		}
		jobs = append(jobs, haulier.Job{Spec: s, Status: s.First(now, r.By)})
	}
	t.AddBatch(tenant, &b)
	added, err := t.Add(ctx, jobs)
	if err != nil {
		return out, err
	}
	out = haulier.BatchStatus{ID: b.ID, Jobs: added[3:]}
	if r.Open {
		return out, nil
	}
	top, err := t.Job(ctx, b.Lid)
	if err != nil {
		return out, err
	}
	next, err := top.Next(haulier.Event{Kind: haulier.EventDue, By: r.By}, now)
	if err != nil {
		return out, err
	}
	return out, t.Set(ctx, top, next)
}

// callback is the job that waits for a batch: what was asked for, or one with nothing to run.
func callback(s *haulier.Spec, ref string) haulier.Spec {
	c := haulier.Spec{Type: callbackType, Task: haulier.Task{None: &haulier.NoTask{}}}
	f := haulier.Flow{}
	if s != nil {
		c = *s
		if s.Flow != nil {
			f = *s.Flow
		}
	}
	f.Ref, f.Needs = ref, append(slices.Clone(f.Needs), haulier.Need{Ref: lidRef, On: haulier.OnFinished})
	c.Flow = &f
	return c
}

// member makes a job one of a batch.
func member(s *haulier.Spec, batch haulier.ID) {
	var f haulier.Flow
	if s.Flow != nil {
		f = *s.Flow
	}
	f.Batch = batch
	s.Flow = &f
	if s.Group == "" {
		s.Group = batch.String()
	}
}

func inBatch(i int, err error) error {
	switch {
	case i >= 0:
		return inJob(i, err)
	case i == -1:
		return inField("on_success", err)
	}
	return inField("on_end", err)
}

// CloseBatch implements haulier.Batches.
func (e *Engine) CloseBatch(ctx context.Context, tenant string, id haulier.ID, by string) (haulier.BatchStatus, error) {
	b, err := e.batch(ctx, tenant, id)
	if err != nil {
		return haulier.BatchStatus{}, err
	}
	err = e.apply(ctx, b.Lid, func(*haulier.Job) (haulier.Event, error) {
		return haulier.Event{Kind: haulier.EventDue, By: by}, nil
	}, true)
	if err != nil && !refused(err) { // it was closed before
		return haulier.BatchStatus{}, fmt.Errorf("batch %v: %w", id, err)
	}
	return e.GetBatch(ctx, tenant, id)
}

func (e *Engine) batch(ctx context.Context, tenant string, id haulier.ID) (flow.Batch, error) {
	d, err := e.store.Doc(ctx, flow.DocBatch, tenantOr(tenant)+"/"+id.String())
	if err != nil {
		return flow.Batch{}, fmt.Errorf("batch %v: %w", id, err)
	}
	return flow.ParseBatch(&d)
}

// GetBatch implements haulier.Batches.
func (e *Engine) GetBatch(ctx context.Context, tenant string, id haulier.ID) (haulier.BatchStatus, error) {
	b, err := e.batch(ctx, tenant, id)
	if err != nil {
		return haulier.BatchStatus{}, err
	}
	return e.standingOf(ctx, tenantOr(tenant), &b)
}

// standingOf is how a batch stands, by the jobs that wait for its own.
func (e *Engine) standingOf(ctx context.Context, tenant string, b *flow.Batch) (haulier.BatchStatus, error) {
	out := haulier.BatchStatus{ID: b.ID, Tenant: tenant, Name: b.Name, CreatedAt: b.CreatedAt, Total: b.Total, OnSuccess: b.Success, OnEnd: b.End}
	jobs, err := e.store.Jobs(ctx, []haulier.ID{b.Lid, b.End, b.Success})
	if err != nil {
		return out, fmt.Errorf("batch %v: %w", b.ID, err)
	}
	lid, end, success := jobs[0], jobs[1], jobs[2]
	out.Closed = lid == nil || lid.State.Terminal()
	left := 0
	if end != nil && end.Standing != nil {
		if left = end.NeedsLeft; !out.Closed {
			left--
		}
	}
	if success != nil && success.Standing != nil {
		out.Failed = success.Barred
	}
	out.Ended = b.Total - left
	if b.Total > 0 {
		out.Percent = float64(out.Ended) * 100 / float64(b.Total)
	}
	return out, nil
}

// ListBatches implements haulier.Batches.
func (e *Engine) ListBatches(ctx context.Context, tenant string, limit int) ([]haulier.BatchStatus, error) {
	if limit <= 0 || limit > maxList {
		limit = 50
	}
	prefix := tenantOr(tenant) + "/"
	var all []haulier.Doc // by age: only the newest are kept
	for after := prefix; ; {
		docs, err := e.store.Docs(ctx, flow.DocBatch, prefix, after, 500)
		if err != nil {
			return nil, fmt.Errorf("batches: %w", err)
		}
		if len(docs) == 0 {
			break
		}
		after = docs[len(docs)-1].Key
		if all = append(all, docs...); len(all) > limit {
			all = slices.Clone(all[len(all)-limit:])
		}
	}
	out := make([]haulier.BatchStatus, 0, len(all))
	for i := range slices.Backward(all) {
		b, err := flow.ParseBatch(&all[i])
		if err != nil {
			return nil, err
		}
		v, err := e.standingOf(ctx, tenantOr(tenant), &b)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// dropBatch adds to b the removal of a batch, with the job that waited for its end.
func dropBatch(b *haulier.Batch, j *haulier.Job) {
	id, err := haulier.ParseID(j.Labels[haulier.LabelBatch])
	if err == nil && j.Flow != nil && j.Ref == endRef {
		b.Docs = append(b.Docs, haulier.DocWrite{Kind: flow.DocBatch, Key: j.Tenant + "/" + id.String(), Expect: haulier.AnyRev})
	}
}
