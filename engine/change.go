package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/haulier/haulier"
)

// conflictTries bounds how often a change is decided anew because others changed the job meanwhile.
const conflictTries = 20

// apply decides one event of one job and commits it, anew when somebody else was faster.
func (e *Engine) apply(ctx context.Context, id haulier.ID, event func(*haulier.Job) (haulier.Event, error), sync bool) error {
	for range conflictTries {
		jobs, err := e.store.Jobs(ctx, []haulier.ID{id})
		if err != nil {
			return err
		}
		if jobs[0] == nil {
			return fmt.Errorf("job %v: %w", id, haulier.ErrNotFound)
		}
		j := jobs[0]
		ev, err := event(j)
		if err != nil {
			return err
		}
		now, err := e.now(ctx)
		if err != nil {
			return err
		}
		next, err := j.Next(ev, now)
		if err != nil {
			return err
		}
		b := haulier.Batch{Sync: sync, Update: []haulier.JobUpdate{{Spec: &j.Spec, Expect: j.Rev, Status: next}}}
		if err = e.store.Commit(ctx, &b); !errors.Is(err, haulier.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("job %v: %w: others keep changing it; try again", id, haulier.ErrConflict)
}

// applyEach decides an event for each job and commits them together, or one
// by one when one of them was changed meanwhile. Jobs whose state does not
// admit the event are passed over. It returns how many were changed.
func (e *Engine) applyEach(ctx context.Context, jobs []*haulier.Job, event func(*haulier.Job) haulier.Event, sync bool, with ...haulier.DocWrite) (int, error) {
	now, err := e.now(ctx)
	if err != nil {
		return 0, err
	}
	b := haulier.Batch{Sync: sync, Docs: with}
	for _, j := range jobs {
		if next, err := j.Next(event(j), now); err == nil {
			b.Update = append(b.Update, haulier.JobUpdate{Spec: &j.Spec, Expect: j.Rev, Status: next})
		}
	}
	if len(b.Update)+len(with) == 0 {
		return 0, nil
	}
	err = e.store.Commit(ctx, &b)
	if err == nil || !errors.Is(err, haulier.ErrConflict) {
		return len(b.Update), err
	}
	n := 0
	for _, j := range jobs {
		err := e.apply(ctx, j.ID, func(now *haulier.Job) (haulier.Event, error) { return event(now), nil }, sync)
		switch {
		case err == nil:
			n++
		case !refused(err):
			return n, err
		}
	}
	if len(with) > 0 {
		err = e.store.Commit(ctx, &haulier.Batch{Docs: with, Sync: sync})
	} else {
		err = nil
	}
	return n, err
}

// refused reports whether the job's state, and not the store, said no.
func refused(err error) bool {
	return errors.Is(err, haulier.ErrConflict) || errors.Is(err, haulier.ErrLeaseLost) || errors.Is(err, haulier.ErrNotFound)
}

// become moves the job on by the event, in memory.
func become(j *haulier.Job, ev haulier.Event, now time.Time) error {
	next, err := j.Next(ev, now)
	if err == nil {
		j.Status = next
	}
	return err
}
