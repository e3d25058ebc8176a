package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/engine/flow"
)

// conflictTries bounds how often a change is decided anew because others changed the job meanwhile.
const conflictTries = 20

// tiedTries is conflictTries for a change that meets others at a key or a needed job: each time one of them was served.
const tiedTries = 1000

// tiedAtOnce bounds the tied jobs that one commit is made for.
const tiedAtOnce = 100

// apply decides one event of one job and commits it, anew when somebody else was faster.
func (e *Engine) apply(ctx context.Context, id haulier.ID, event func(*haulier.Job) (haulier.Event, error), sync bool) error {
	for try, tries := 0, conflictTries; try < tries; try++ {
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
		var work []string
		if e.tied(j, &next) {
			tries = tiedTries
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
	var plain, bound []*haulier.Job
	for _, j := range jobs {
		next, err := j.Next(event(j), now)
		if e.tied(j, &next) {
			bound = append(bound, j)
			continue
		}
		plain = append(plain, j)
		if err == nil {
			b.Update = append(b.Update, haulier.JobUpdate{Spec: &j.Spec, Expect: j.Rev, Status: next})
		}
	}
	n, err := e.applyTied(ctx, bound, event, sync) // before the rest, whose documents may say that all were changed
	if err != nil {
		return n, err
	}
	if len(b.Update)+len(with) == 0 {
		return n, nil
	}
	err = e.store.Commit(ctx, &b)
	if err == nil || !errors.Is(err, haulier.ErrConflict) {
		return n + len(b.Update), err
	}
	done, err := e.applyAlone(ctx, plain, event, sync)
	if n += done; err != nil {
		return n, err
	}
	if len(with) > 0 {
		return n, e.store.Commit(ctx, &haulier.Batch{Docs: with, Sync: sync})
	}
	return n, nil
}

// applyTied is applyEach for jobs that are tied to others.
func (e *Engine) applyTied(ctx context.Context, jobs []*haulier.Job, event func(*haulier.Job) haulier.Event, sync bool) (int, error) {
	total := 0
	for some := range slices.Chunk(jobs, tiedAtOnce) {
		n, err := e.applyTogether(ctx, some, event, sync)
		if errors.Is(err, haulier.ErrConflict) {
			n, err = e.applyAlone(ctx, some, event, sync)
		}
		if total += n; err != nil {
			return total, err
		}
	}
	return total, nil
}

// applyTogether is applyTied in one commit; ErrConflict: somebody else was faster with one of the jobs.
func (e *Engine) applyTogether(ctx context.Context, jobs []*haulier.Job, event func(*haulier.Job) haulier.Event, sync bool) (int, error) {
	now, err := e.now(ctx)
	if err != nil {
		return 0, err
	}
	t, n := flow.Begin(e.store, now), 0
	for _, j := range jobs {
		j = t.Adopt(j) // what became of those before may have changed it
		next, err := j.Next(event(j), now)
		if err == nil {
			err = t.Set(ctx, j, next)
		}
		if err != nil && !refused(err) {
			return 0, err
		}
		if err == nil {
			n++
		}
	}
	if n == 0 {
		return 0, nil
	}
	b := haulier.Batch{Sync: sync}
	work, err := t.Flush(ctx, &b)
	if err == nil {
		err = e.commit(ctx, &b, work)
	}
	if err != nil {
		return 0, err
	}
	return n, nil
}

// applyAlone is applyEach in a commit for each job.
func (e *Engine) applyAlone(ctx context.Context, jobs []*haulier.Job, event func(*haulier.Job) haulier.Event, sync bool) (int, error) {
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
	return n, nil
}

// commit makes a commit that leaves some work to do afterwards. When whether
// it was made is not known, the work is looked for all the same.
func (e *Engine) commit(ctx context.Context, b *haulier.Batch, work []string) error {
	err := e.store.Commit(ctx, b)
	if len(work) > 0 && !errors.Is(err, haulier.ErrConflict) {
		e.effects.add(work...)
	}
	return err
}

// tied reports whether a change of the job may mean something for others. A job that its worker
// says it runs, after a power cut, may have to hold keys of which it knows nothing.
func (e *Engine) tied(j *haulier.Job, next *haulier.Status) bool {
	return j.Flow != nil || j.Standing != nil || j.State.Waits() && next.State.Owned() && e.limits.any()
}

// tie puts a job's change into b, with all that follows from it. work is what is left to do afterwards.
func (e *Engine) tie(ctx context.Context, b *haulier.Batch, j *haulier.Job, next haulier.Status, now time.Time) (work []string, err error) {
	t := flow.Begin(e.store, now)
	if err := t.Set(ctx, j, next); err != nil {
		return nil, err
	}
	return t.Flush(ctx, b)
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
