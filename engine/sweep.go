package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/engine/flow"
)

const (
	sweepLimit   = 500              // jobs of each kind a round
	sweepAtLeast = 30 * time.Second // the sweeper looks this often though nothing seems due
	keysEvery    = time.Hour        // how often idempotency keys are looked through
)

// alarm is when the sweeper wakes next.
type alarm struct {
	mu    sync.Mutex
	at    time.Time // zero: the sweeper is at work
	noted time.Time // earliest time that was set while it was at work
}

// work notes that the sweeper looks at what is due.
func (a *alarm) work() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at, a.noted = time.Time{}, time.Time{}
}

// arm sets when the sweeper wakes: at the given time, or at an earlier one that was set since work.
func (a *alarm) arm(at time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.noted.IsZero() && a.noted.Before(at) {
		at = a.noted
	}
	a.at = at
	return at
}

// changed wakes the sweeper when a timer was set that falls due before it would look.
func (a *alarm) changed(changes []haulier.JobChange, poke chan<- struct{}) {
	for i := range changes {
		c := &changes[i]
		at := c.Status.PurgeAt
		if c.Status.State == haulier.Scheduled {
			at = c.Status.RunAt
		}
		if !at.IsZero() && a.note(at) {
			select {
			case poke <- struct{}{}:
			default:
			}
			return
		}
	}
}

// note reports whether the sweeper sleeps for longer than until then.
func (a *alarm) note(at time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at.IsZero() {
		if a.noted.IsZero() || at.Before(a.noted) {
			a.noted = at
		}
		return false
	}
	return at.Before(a.at)
}

func (e *Engine) wakeSweeper() {
	select {
	case e.poke <- struct{}{}:
	default:
	}
}

// sweep fires timers, ends sessions and purges, each when its time has come.
func (e *Engine) sweep(ctx context.Context) error {
	keysAt, flowAt := time.Time{}, time.Now().Add(sweepAtLeast)
	for ctx.Err() == nil {
		e.duty.await(ctx)
		e.alarm.work()
		next, busy, err := e.sweepOnce(ctx)
		if err == nil && !time.Now().Before(keysAt) {
			keysAt = time.Now().Add(keysEvery)
			err = e.purgeKeys(ctx)
		}
		if err == nil && !time.Now().Before(flowAt) {
			flowAt = time.Now().Add(sweepAtLeast)
			err = errors.Join(e.loadFlow(ctx), e.expireUnhandled(ctx))
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			e.log.Error("sweep", "err", err)
			next = time.Second
		case busy:
			continue
		}
		if err := e.rest(ctx, next); err != nil {
			return nil
		}
	}
	return nil
}

// rest waits until next has passed or something falls due earlier.
func (e *Engine) rest(ctx context.Context, next time.Duration) error {
	now, err := e.now(ctx)
	if err != nil {
		now = time.Now()
	}
	timer := time.NewTimer(max(e.alarm.arm(now.Add(next)).Sub(now), 0))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.poke:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// sweepOnce does one round, and says when the next is due or that there is more to do now.
func (e *Engine) sweepOnce(ctx context.Context) (next time.Duration, busy bool, err error) {
	due, err := e.store.Due(ctx, sweepLimit)
	if err != nil {
		return 0, false, err
	}
	if err := e.fire(ctx, due.Timers); err != nil {
		return 0, false, fmt.Errorf("timers: %w", err)
	}
	for _, id := range due.Sessions {
		if err := e.expire(ctx, id); err != nil {
			return 0, false, fmt.Errorf("session %v: %w", id, err)
		}
	}
	if err := e.purge(ctx, due.Purge); err != nil {
		return 0, false, fmt.Errorf("purge: %w", err)
	}
	if len(due.Timers)+len(due.Sessions)+len(due.Purge) > 0 {
		return 0, true, nil
	}
	now, err := e.now(ctx)
	if err != nil {
		return 0, false, err
	}
	next = sweepAtLeast
	if e.duty.shared {
		next = keepUpWait // leases that begin at other servers are not told
	}
	if !due.Next.IsZero() {
		next = min(next, max(due.Next.Sub(now), time.Millisecond))
	}
	return next, false, nil
}

// fire makes scheduled jobs pending whose time has come.
func (e *Engine) fire(ctx context.Context, ids []haulier.ID) error {
	jobs, err := e.present(ctx, ids)
	if err != nil {
		return err
	}
	_, err = e.applyEach(ctx, jobs, func(*haulier.Job) haulier.Event {
		return haulier.Event{Kind: haulier.EventDue, By: "timer"}
	}, false)
	return err
}

func (e *Engine) present(ctx context.Context, ids []haulier.ID) ([]*haulier.Job, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	jobs, err := e.store.Jobs(ctx, ids)
	var out []*haulier.Job
	for _, j := range jobs {
		if j != nil {
			out = append(out, j)
		}
	}
	return out, err
}

// expire ends a session whose lease is over: its worker counts as lost.
func (e *Engine) expire(ctx context.Context, id haulier.ID) error {
	s, err := e.sessions.get(id)
	if err != nil { // its document outlived the view: nobody can claim by it here
		if s, err = e.findSession(ctx, id); errors.Is(err, haulier.ErrLeaseLost) {
			return nil // another server was faster
		} else if err != nil {
			return err
		}
	}
	info := s.snapshot()
	e.log.Warn("worker lost: its lease is over", "session", id, "worker", info.Worker, "jobs", info.Jobs)
	return e.endSession(ctx, s, haulier.EventLost)
}

// purge removes old terminal jobs with all that belongs to them.
func (e *Engine) purge(ctx context.Context, ids []haulier.ID) error {
	jobs, err := e.present(ctx, ids)
	if err != nil || len(jobs) == 0 {
		return err
	}
	_, err = e.remove(ctx, jobs)
	return err
}

// remove deletes terminal jobs, their output and their hold on blobs, and returns how many it deleted.
func (e *Engine) remove(ctx context.Context, jobs []*haulier.Job) (int, error) {
	total := 0
	for some := range slices.Chunk(jobs, pageSize) {
		n, err := e.removeTogether(ctx, some)
		if errors.Is(err, haulier.ErrConflict) {
			n, err = e.removeAlone(ctx, some)
		}
		if total += n; err != nil {
			return total, err
		}
	}
	return total, nil
}

// removeAlone is remove in a commit for each job, as it is now.
func (e *Engine) removeAlone(ctx context.Context, jobs []*haulier.Job) (int, error) {
	total := 0
	for _, j := range jobs {
		now, err := e.present(ctx, []haulier.ID{j.ID})
		if err != nil {
			return total, err
		}
		n, err := e.removeTogether(ctx, now)
		if err != nil && !errors.Is(err, haulier.ErrConflict) {
			return total, err
		}
		total += n
	}
	return total, nil
}

// removeTogether is remove in one commit; ErrConflict: one of the jobs has changed.
func (e *Engine) removeTogether(ctx context.Context, jobs []*haulier.Job) (int, error) {
	b := haulier.Batch{Sync: true}
	var blobs, work []string
	for _, j := range jobs {
		if !j.State.Terminal() {
			continue
		}
		if j.Flow != nil || j.Standing != nil {
			left, err := flow.Forget(ctx, e.store, j, &b)
			if err != nil {
				return 0, err
			}
			work = append(work, left...)
		}
		held, err := e.removal(ctx, &b, j)
		if err != nil {
			return 0, err
		}
		blobs = append(blobs, held...)
	}
	if len(b.Delete) == 0 {
		return 0, nil
	}
	if err := e.commit(ctx, &b, work); err != nil {
		return 0, err
	}
	e.releaseBlobs(ctx, blobs)
	return len(b.Delete), nil
}

// removal adds a job's removal to the batch, and returns the keys of the blobs that it held.
func (e *Engine) removal(ctx context.Context, b *haulier.Batch, j *haulier.Job) ([]string, error) {
	b.Delete = append(b.Delete, haulier.JobDelete{ID: j.ID, Expect: j.Rev})
	dropBatch(b, j)
	if j.Task.Script != nil || j.Flow != nil && j.Flow.Chain {
		b.Docs = append(b.Docs, haulier.DocWrite{Kind: DocChain, Key: j.ID.String(), Expect: haulier.AnyRev})
	}
	var blobs []string
	if j.Attempt > 0 {
		writes, held, err := e.dropOutputs(ctx, j.ID)
		if err != nil {
			return nil, err
		}
		b.Docs = append(b.Docs, writes...)
		blobs = held
	}
	if j.Blob != "" {
		blobs = append(blobs, j.Blob)
	}
	blobs = append(blobs, j.Task.Blobs()...)
	if j.Files != nil && len(j.Inputs) > 0 {
		held, err := e.dropInputs(ctx, b, j.ID)
		if err != nil {
			return nil, err
		}
		blobs = append(blobs, held...)
	}
	slices.Sort(blobs)
	blobs = slices.Compact(blobs) // its output may be the same bytes as its payload
	for i, addr := range blobs {
		blobs[i] = blobKey(j.Tenant, addr)
		b.Docs = append(b.Docs, haulier.DocWrite{Kind: haulier.DocBlobRef, Key: blobs[i] + "/" + j.ID.String(), Expect: haulier.AnyRev})
	}
	return blobs, nil
}

// purgeKeys removes idempotency keys whose time is over.
func (e *Engine) purgeKeys(ctx context.Context) error {
	now, err := e.now(ctx)
	if err != nil {
		return err
	}
	for after := ""; ; {
		docs, err := e.store.Docs(ctx, haulier.DocRequest, "", after, 200)
		if err != nil || len(docs) == 0 {
			return err
		}
		var b haulier.Batch
		for _, d := range docs {
			after = d.Key
			var k keyed
			if err := json.Unmarshal(d.Value, &k); err == nil && now.Before(k.Expires) {
				continue
			}
			b.Docs = append(b.Docs, haulier.DocWrite{Kind: haulier.DocRequest, Key: d.Key, Expect: d.Rev})
		}
		if len(b.Docs) == 0 {
			continue
		}
		if err := e.store.Commit(ctx, &b); err != nil && !errors.Is(err, haulier.ErrConflict) {
			return err
		}
	}
}
