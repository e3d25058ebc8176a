package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/engine/flow"
)

// PostEvent implements haulier.Workflows.
func (e *Engine) PostEvent(ctx context.Context, s haulier.Signal) error {
	if err := first(
		func() error { return checkName("tenant", tenantOr(s.Tenant)) },
		func() error { return checkName("name", s.Name) },
	); err != nil {
		return err
	}
	if strings.Contains(s.Name, ":") {
		return field("name", "has a colon: such events are posted by workflows and schedules themselves")
	}
	if len(s.Payload) > haulier.MaxPayload {
		return &haulier.FieldError{Field: "payload", Kind: haulier.ErrTooLarge, Msg: fmt.Sprintf("is longer than %d bytes", haulier.MaxPayload)}
	}
	return e.transact(ctx, false, func(t *flow.Tx) error {
		t.Signal(flow.Signal{Tenant: tenantOr(s.Tenant), Event: s.Name, Payload: s.Payload, Cause: s.By})
		return nil
	})
}

// carrySignal starts what waits for an event, each in a commit that also notes it.
func (e *Engine) carrySignal(ctx context.Context, key string) error {
	for range tiedTries {
		d, err := e.store.Doc(ctx, haulier.DocWork, key)
		if errors.Is(err, haulier.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		var s flow.Signal
		if err := json.Unmarshal(d.Value, &s); err != nil {
			return fmt.Errorf("work %s: %w: %w", key, haulier.ErrCorrupt, err)
		}
		done, err := e.signalOne(ctx, &d, &s)
		switch {
		case errors.Is(err, haulier.ErrConflict):
		case err != nil:
			return err
		case done:
			return nil
		}
	}
	return fmt.Errorf("%w: others keep changing the same", haulier.ErrConflict)
}

// signalOne starts the next of those that wait for an event. done: there was none.
func (e *Engine) signalOne(ctx context.Context, d *haulier.Doc, s *flow.Signal) (done bool, err error) {
	list, err := e.Workflows(ctx, s.Tenant)
	if err != nil {
		return false, err
	}
	note := haulier.DocWrite{Kind: haulier.DocWork, Key: d.Key, Expect: d.Rev}
	for i := range list {
		for k, event := range list[i].Events {
			place := fmt.Sprintf("%s/%d", list[i].Name, k)
			if event != s.Event || slices.Contains(s.Done, place) {
				continue
			}
			s.Done = append(s.Done, place)
			if note.Value, err = json.Marshal(s); err != nil {
				return false, err
			}
			return false, e.startBySignal(ctx, &list[i], k, s, note)
		}
	}
	return true, e.store.Commit(ctx, &haulier.Batch{Docs: []haulier.DocWrite{note}})
}

func (e *Engine) startBySignal(ctx context.Context, w *haulier.Workflow, trigger int, s *flow.Signal, note haulier.DocWrite) error {
	v, err := e.Workflow(ctx, w.Tenant, w.Name, w.Version)
	if err != nil {
		return err
	}
	c, err := e.compiled.get(v.Name, v.Digest, v.Source)
	if err != nil {
		return err
	}
	r := haulier.RunRequest{Tenant: w.Tenant, Workflow: w.Name, Version: w.Version, From: c.Triggers[trigger].From, Payload: s.Payload, By: s.Event}
	if s.Cause != "" {
		r.By += ", by " + s.Cause
	}
	run, err := e.startRun(ctx, r, []haulier.DocWrite{note})
	switch {
	case err == nil:
		e.log.Info("run started", "run", run.ID, "event", s.Event)
		return nil
	case errors.Is(err, haulier.ErrConflict), errors.Is(err, haulier.ErrUnavailable), ctx.Err() != nil:
		return err
	}
	// That run can't be: its neighbours can.
	e.log.Error("an event could not start a workflow", "workflow", w.Name, "tenant", w.Tenant, "event", s.Event, "err", err)
	return e.store.Commit(ctx, &haulier.Batch{Docs: []haulier.DocWrite{note}})
}
