package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/engine/flow"
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
		b := haulier.Batch{Sync: sync}
		work := ""
		if tied(j) {
			work, err = e.tie(ctx, &b, j, next, now)
		} else {
			b.Update = []haulier.JobUpdate{{Spec: &j.Spec, Expect: j.Rev, Status: next}}
		}
		if err != nil {
			return err
		}
		err = e.commit(ctx, &b, work)
		if !errors.Is(err, haulier.ErrConflict) {
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
	n := 0
	plain := jobs[:0:0]
	for _, j := range jobs {
		if tied(j) { // before the rest, whose documents may say that all were changed
			done, err := e.applyAlone(ctx, j, event, sync)
			if err != nil {
				return n, err
			}
			n += done
			continue
		}
		plain = append(plain, j)
		if next, err := j.Next(event(j), now); err == nil {
			b.Update = append(b.Update, haulier.JobUpdate{Spec: &j.Spec, Expect: j.Rev, Status: next})
		}
	}
	if len(b.Update)+len(with) == 0 {
		return n, nil
	}
	err = e.store.Commit(ctx, &b)
	if err == nil || !errors.Is(err, haulier.ErrConflict) {
		return n + len(b.Update), err
	}
	for _, j := range plain {
		done, err := e.applyAlone(ctx, j, event, sync)
		if err != nil {
			return n, err
		}
		n += done
	}
	if len(with) > 0 {
		return n, e.store.Commit(ctx, &haulier.Batch{Docs: with, Sync: sync})
	}
	return n, nil
}

// applyAlone is applyEach for one job.
func (e *Engine) applyAlone(ctx context.Context, j *haulier.Job, event func(*haulier.Job) haulier.Event, sync bool) (int, error) {
	err := e.apply(ctx, j.ID, func(now *haulier.Job) (haulier.Event, error) { return event(now), nil }, sync)
	switch {
	case err == nil:
		return 1, nil
	case refused(err):
		return 0, nil
	}
	return 0, err
}

// commit makes a commit that leaves some work to do afterwards, "" for none. When whether
// it was made is not known, the work is looked for all the same.
func (e *Engine) commit(ctx context.Context, b *haulier.Batch, work string) error {
	err := e.store.Commit(ctx, b)
	if work != "" && !errors.Is(err, haulier.ErrConflict) {
		e.handOver(work)
	}
	return err
}

// tied reports whether a change of the job may mean something for others.
func tied(j *haulier.Job) bool { return j.Flow != nil || j.Standing != nil }

// tie puts a job's change into b, with all that follows from it. work is what is left to do afterwards.
func (e *Engine) tie(ctx context.Context, b *haulier.Batch, j *haulier.Job, next haulier.Status, now time.Time) (work string, err error) {
	t := flow.Begin(e.store, now)
	if err := t.Set(ctx, j, next); err != nil {
		return "", err
	}
	return t.Flush(b)
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
