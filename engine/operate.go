package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/haulier/haulier"
)

// operation is a change of many jobs, kept as a document until it is complete.
type operation struct {
	Op     string         `json:"op"` // cancel, retry or delete
	Filter haulier.Filter `json:"filter"`
	By     string         `json:"by"`
	Reason string         `json:"reason,omitempty"`
	Cursor string         `json:"cursor,omitempty"` // what List gave after the last page that was done
	N      int            `json:"n"`                // jobs changed so far
}

// The states in which an operation finds its jobs, unless the filter names others.
var operationStates = map[string][]haulier.State{
	"cancel": {haulier.Blocked, haulier.Scheduled, haulier.Pending, haulier.Claimed, haulier.Running},
	"retry":  {haulier.Failed, haulier.Cancelled},
	"force":  {haulier.Scheduled, haulier.Blocked, haulier.Pending},
	"delete": {haulier.Succeeded, haulier.Failed, haulier.Cancelled, haulier.Collapsed},
}

// Cancel implements haulier.Operator.
func (e *Engine) Cancel(ctx context.Context, sel haulier.Selection, by, reason string) (haulier.Changed, error) {
	return e.operate(ctx, sel, operation{Op: "cancel", By: by, Reason: reason})
}

// Retry implements haulier.Operator.
func (e *Engine) Retry(ctx context.Context, sel haulier.Selection, by string) (haulier.Changed, error) {
	return e.operate(ctx, sel, operation{Op: "retry", By: by})
}

// Force implements haulier.Operator.
func (e *Engine) Force(ctx context.Context, sel haulier.Selection, by string) (haulier.Changed, error) {
	return e.operate(ctx, sel, operation{Op: "force", By: by})
}

// Delete implements haulier.Operator.
func (e *Engine) Delete(ctx context.Context, sel haulier.Selection, by string) (haulier.Changed, error) {
	return e.operate(ctx, sel, operation{Op: "delete", By: by})
}

func (e *Engine) operate(ctx context.Context, sel haulier.Selection, op operation) (haulier.Changed, error) {
	if sel.Filter == nil {
		return e.operateIDs(ctx, &sel, &op)
	}
	if len(sel.IDs) > 0 {
		return haulier.Changed{}, field("ids", "can't be given together with a filter")
	}
	op.Filter = *sel.Filter
	if sel.Tenant != "" {
		op.Filter.Tenant = sel.Tenant
	}
	return e.operateFilter(ctx, op)
}

func (e *Engine) operateIDs(ctx context.Context, sel *haulier.Selection, op *operation) (haulier.Changed, error) {
	out := haulier.Changed{Errors: map[haulier.ID]error{}}
	if len(sel.IDs) == 0 || len(sel.IDs) > haulier.MaxBatch {
		return out, field("ids", fmt.Sprintf("has %d ids: name from 1 to %d jobs, or give a filter", len(sel.IDs), haulier.MaxBatch))
	}
	for _, id := range sel.IDs {
		err := e.operateOne(ctx, sel.Tenant, id, op)
		switch {
		case err == nil:
			out.N++
		case refused(err):
			out.Errors[id] = err
		default:
			return out, fmt.Errorf("%s job %v: %w", op.Op, id, err)
		}
	}
	return out, nil
}

func (e *Engine) operateOne(ctx context.Context, tenant string, id haulier.ID, op *operation) error {
	if op.Op == "delete" {
		return e.deleteOne(ctx, tenant, id)
	}
	return e.apply(ctx, id, func(j *haulier.Job) (haulier.Event, error) {
		if tenant != "" && j.Tenant != tenant {
			return haulier.Event{}, fmt.Errorf("job %v: %w", id, haulier.ErrNotFound)
		}
		return op.event(), nil
	}, true)
}

func (op *operation) event() haulier.Event {
	switch op.Op {
	case "retry":
		return haulier.Event{Kind: haulier.EventRetry, By: op.By}
	case "force":
		return haulier.Event{Kind: haulier.EventForce, By: op.By}
	}
	return haulier.Event{Kind: haulier.EventCancel, By: op.By, Error: op.Reason}
}

func (e *Engine) deleteOne(ctx context.Context, tenant string, id haulier.ID) error {
	for range conflictTries {
		jobs, err := e.Get(ctx, tenant, []haulier.ID{id})
		if err != nil {
			return err
		}
		j := jobs[0]
		if j == nil {
			return fmt.Errorf("job %v: %w", id, haulier.ErrNotFound)
		}
		if !j.State.Terminal() {
			return fmt.Errorf("job %v: %w: it is %v; cancel it first", id, haulier.ErrConflict, j.State)
		}
		n, err := e.remove(ctx, []*haulier.Job{j})
		if err != nil || n > 0 {
			return err
		}
	}
	return fmt.Errorf("job %v: %w: others keep changing it; try again", id, haulier.ErrConflict)
}

// operateFilter writes down what is to be done, then does it in bounded commits.
// When the caller leaves or the server dies, Run completes it.
func (e *Engine) operateFilter(ctx context.Context, op operation) (haulier.Changed, error) {
	now, err := e.now(ctx)
	if err != nil {
		return haulier.Changed{}, err
	}
	if err := op.complete(); err != nil {
		return haulier.Changed{}, err
	}
	key := haulier.NewID(now).String()
	if err := e.noteWork(ctx, key, &op, 0); err != nil {
		return haulier.Changed{}, fmt.Errorf("%s jobs: %w", op.Op, err)
	}
	err = e.carryOut(ctx, key, &op)
	if err != nil && ctx.Err() != nil {
		e.left.add(key)
		return haulier.Changed{N: op.N}, fmt.Errorf("%s jobs: %w: it goes on by itself", op.Op, ctx.Err())
	}
	if err != nil {
		return haulier.Changed{N: op.N}, fmt.Errorf("%s jobs: %w", op.Op, err)
	}
	return haulier.Changed{N: op.N}, nil
}

// complete limits the filter to states in which the operation makes sense.
func (op *operation) complete() error {
	able := operationStates[op.Op]
	if op.Op == "retry" && slices.Contains(op.Filter.States, haulier.Succeeded) {
		able = append(slices.Clone(able), haulier.Succeeded)
	}
	if len(op.Filter.States) == 0 {
		op.Filter.States = able
		return nil
	}
	var states []haulier.State
	for _, s := range op.Filter.States {
		if slices.Contains(able, s) {
			states = append(states, s)
		}
	}
	if len(states) == 0 {
		return field("filter.states", fmt.Sprintf("names no state in which a job can be changed by %s: those are %v", op.Op, able))
	}
	op.Filter.States = states
	return nil
}

func (e *Engine) noteWork(ctx context.Context, key string, op *operation, expect uint64) error {
	w, err := op.write(key)
	if err != nil {
		return err
	}
	w.Expect = expect
	return e.store.Commit(ctx, &haulier.Batch{Sync: true, Docs: []haulier.DocWrite{w}})
}

func (op *operation) write(key string) (haulier.DocWrite, error) {
	value, err := json.Marshal(op)
	return haulier.DocWrite{Kind: haulier.DocWork, Key: key, Expect: haulier.AnyRev, Value: value}, err
}

// carryOut does the operation from its cursor on, page by page, and removes its document at the end.
func (e *Engine) carryOut(ctx context.Context, key string, op *operation) error {
	for {
		page, err := e.List(ctx, op.Filter, op.Cursor, pageSize)
		if err != nil {
			return err
		}
		if err := e.changePage(ctx, key, op, page); err != nil {
			return err
		}
		if op.Cursor = page.Next; op.Cursor == "" {
			return e.store.Commit(ctx, &haulier.Batch{Sync: true, Docs: []haulier.DocWrite{{Kind: haulier.DocWork, Key: key, Expect: haulier.AnyRev}}})
		}
	}
}

func (e *Engine) changePage(ctx context.Context, key string, op *operation, page haulier.Page) error {
	if len(page.Jobs) == 0 {
		return nil
	}
	if op.Op == "delete" {
		n, err := e.remove(ctx, page.Jobs)
		op.N += n
		return err
	}
	next := *op
	next.Cursor = page.Next
	next.N += len(page.Jobs)
	w, err := next.write(key)
	if err != nil {
		return err
	}
	n, err := e.applyEach(ctx, page.Jobs, func(*haulier.Job) haulier.Event { return op.event() }, true, w)
	op.N += n
	return err
}

// resumeOne completes a change by filter.
func (e *Engine) resumeOne(ctx context.Context, key string) error {
	d, err := e.store.Doc(ctx, haulier.DocWork, key)
	if errors.Is(err, haulier.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	var op operation
	if err := json.Unmarshal(d.Value, &op); err != nil {
		return fmt.Errorf("work %s: %w: %w", key, haulier.ErrCorrupt, err)
	}
	e.log.Info("completing a change by filter", "work", key, "op", op.Op, "done", op.N)
	return e.carryOut(ctx, key, &op)
}
