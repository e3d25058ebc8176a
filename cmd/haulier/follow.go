package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/haulier/haulier"
)

const (
	hintAfter = 2 * time.Second        // a job that has not begun by then gets an explanation
	lookAgain = 250 * time.Millisecond // between looks at a job that waits for its next attempt
)

// errGone: somebody removed the job while it was followed.
var errGone = errors.New("the job was removed")

// follow writes a job's output as it comes, from the request on and attempt after attempt,
// until the job has ended, and returns it. With explain it says what a job waits for that does not begin.
func (p *program) follow(ctx context.Context, q haulier.Operator, req haulier.LogRequest, w *logWriter, explain bool) (*haulier.Job, error) {
	if explain {
		stop := p.explainWait(ctx, q, req.Job)
		defer stop()
	}
	for {
		chunk, err := q.Log(ctx, req)
		if err != nil {
			return nil, err
		}
		if err := w.write(chunk.Frames); err != nil {
			return nil, err
		}
		req.Attempt, req.From = chunk.Attempt, chunk.Next
		if !chunk.End {
			continue
		}
		job, err := nextAttempt(ctx, q, req.Tenant, req.Job, chunk.Attempt)
		if err != nil || job.State.Terminal() && job.Attempt <= chunk.Attempt {
			return job, err
		}
		req.Attempt, req.From = chunk.Attempt+1, 0
	}
}

// nextAttempt waits until the job has ended or begun another attempt than that one.
func nextAttempt(ctx context.Context, q haulier.Operator, tenant string, id haulier.ID, attempt int) (*haulier.Job, error) {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		jobs, err := q.Get(ctx, tenant, []haulier.ID{id})
		switch {
		case err != nil:
			return nil, err
		case jobs[0] == nil:
			return nil, errGone
		case jobs[0].State.Terminal() || jobs[0].Attempt > attempt:
			return jobs[0], nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// explainWait says once why a job has not begun, when that takes long. The returned function ends that.
func (p *program) explainWait(ctx context.Context, q haulier.Operator, id haulier.ID) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-time.After(hintAfter):
		case <-ctx.Done():
			return
		}
		x, err := q.Why(ctx, p.settings.Tenant, id)
		if err == nil && !x.State.Owned() && !x.State.Terminal() && len(x.Reasons) > 0 {
			p.say("haulier: job %v waits: %s", id, x.Reasons[0])
		}
	})
	return func() {
		cancel()
		watch.Wait()
	}
}
