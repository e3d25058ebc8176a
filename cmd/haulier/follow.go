package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/haulier/haulier"
)

const hintAfter = 2 * time.Second // a job that has not begun by then gets an explanation

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
		jobs, err := q.Get(ctx, req.Tenant, []haulier.ID{req.Job})
		switch {
		case err != nil:
			return nil, err
		case jobs[0] == nil:
			return nil, errGone
		case jobs[0].State.Terminal() && jobs[0].Attempt <= chunk.Attempt:
			return jobs[0], nil
		}
		req.Attempt, req.From = chunk.Attempt+1, 0
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
