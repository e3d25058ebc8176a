package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/haulier/haulier"
)

// maxClaimWait bounds how long a claim may wait for its first job.
const maxClaimWait = time.Minute

// takeRounds bounds how often a claim looks again when others were faster each time.
const takeRounds = 16

// Claim implements haulier.Consumer.
func (e *Engine) Claim(ctx context.Context, r haulier.ClaimRequest) ([]haulier.Job, error) {
	if r.N < 1 || r.N > haulier.MaxClaim {
		return nil, field("n", fmt.Sprintf("is %d: claim from 1 to %d jobs", r.N, haulier.MaxClaim))
	}
	s, err := e.session(ctx, r.Session)
	if err != nil {
		return nil, err
	}
	info := s.snapshot()
	w := e.sched.join(&info)
	defer e.sched.leave(w)
	timeout := time.NewTimer(min(max(r.Wait, 0), maxClaimWait))
	defer timeout.Stop()
	for {
		jobs, err := e.take(ctx, s, &info, &r)
		switch {
		case errors.Is(err, errBarred):
			e.sched.deafen(w)
		case err != nil:
			return nil, err
		case len(jobs) > 0 || r.Wait <= 0:
			w.owes = false
			return jobs, nil
		}
		w.owes = false
		select {
		case <-w.wake:
			w.owes = true
		case <-timeout.C:
			return nil, nil
		case <-s.gone:
			return nil, s.lost()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if e.sched.isClosed() {
			return nil, fmt.Errorf("claim: %w: the server is closing", haulier.ErrUnavailable)
		}
	}
}

// errBarred: the claim gets nothing, whatever there is.
var errBarred = errors.New("barred")

// take claims once. The session is held, so that it can't be ended between the
// look at it and the claim.
func (e *Engine) take(ctx context.Context, s *session, info *haulier.Session, r *haulier.ClaimRequest) ([]haulier.Job, error) {
	s.claims.RLock()
	defer s.claims.RUnlock()
	if ctx.Err() != nil {
		return nil, ctx.Err() // nobody would hear of the jobs
	}
	if s.ended() {
		return nil, s.lost()
	}
	if s.draining() || r.Number > 0 && r.Number <= s.void.Load() {
		return nil, errBarred
	}
	if e.hold.active() {
		return nil, nil // its end wakes all
	}
	for round := 0; round < takeRounds; round++ {
		bands, err := e.store.Bands(ctx)
		if err != nil {
			return nil, fmt.Errorf("claim: %w", err)
		}
		now, err := e.now(ctx)
		if err != nil {
			return nil, err
		}
		takes := e.sched.pick(info, bands, e.queues, r.N, now)
		if len(takes) == 0 {
			return nil, nil
		}
		// Not ended by ctx: while the session is held, a claim is either carried out or not.
		jobs, err := e.store.Claim(context.WithoutCancel(ctx), s.ID, info.Worker, takes)
		if err != nil {
			return nil, fmt.Errorf("claim: %w", err)
		}
		if len(jobs) > 0 {
			got := len(jobs)
			if jobs, err = e.admit(context.WithoutCancel(ctx), jobs); err != nil {
				return nil, fmt.Errorf("claim: %w", err)
			}
			if len(jobs) > 0 {
				e.sched.started(jobs)
				e.hooks.mark(jobs)
				e.handlers.mark(jobs)
				if err := e.sign(context.WithoutCancel(ctx), jobs); err != nil {
					return nil, err
				}
				return jobs, e.bringResults(context.WithoutCancel(ctx), jobs)
			}
			if got > 0 {
				round = -1 // those that must wait are out of the way now
			}
		}
		// Others were faster: the bands have changed, so look again.
	}
	return nil, nil
}

// Payload implements haulier.Consumer.
func (e *Engine) Payload(ctx context.Context, session haulier.ID, ref haulier.Ref) ([]byte, error) {
	jobs, err := e.store.Jobs(ctx, []haulier.ID{ref.Job})
	if err != nil {
		return nil, fmt.Errorf("payload of %v: %w", ref.Job, err)
	}
	j := jobs[0]
	if j == nil || j.Session != session || j.Attempt != ref.Attempt {
		return nil, fmt.Errorf("payload of %v: %w: attempt %d is not the session's", ref.Job, haulier.ErrLeaseLost, ref.Attempt)
	}
	if j.Blob == "" {
		return j.Payload, nil
	}
	return e.readBlob(ctx, j.Tenant, j.Blob)
}
