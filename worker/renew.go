package worker

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/haulier/haulier"
)

// renewLoop keeps the lease and hears of cancellations. A renewal is held by the server for a third of the
// lease, and counts as lost when it has not come back after another third.
func (s *session) renewLoop(ctx context.Context) {
	var wait backoff
	var held []haulier.Ref // what the server asked for
	for ctx.Err() == nil {
		reply, err := s.renew(ctx, s.lease/3, held, false)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			wait, held = backoff{}, nil
			if reply.Resend {
				held = s.refs()
			}
		case errors.Is(err, haulier.ErrLeaseLost):
			s.lose()
			return
		default:
			s.log.Warn("renewal", "err", err)
			s.failing(&wait)
		}
	}
}

// failing waits before the next try, and ends the jobs when the lease runs out meanwhile.
func (s *session) failing(wait *backoff) {
	next := wait.next()
	left := s.leaseLeft()
	if left <= 0 {
		s.fence()
	} else {
		next = min(next, left)
	}
	t := time.NewTimer(next)
	defer t.Stop()
	select {
	case <-t.C:
		if s.leaseLeft() <= 0 {
			s.fence()
		}
	case <-s.over:
	}
}

func (s *session) leaseLeft() time.Duration {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return time.Until(s.safeUntil())
}

// renew sends one renewal and does what the reply says. The lease counts from when it was sent.
func (s *session) renew(ctx context.Context, wait time.Duration, held []haulier.Ref, settle bool) (haulier.RenewReply, error) {
	facts := load(ctx)
	s.w.mu.Lock()
	req := haulier.RenewRequest{Session: s.id, Wait: wait, Epoch: s.epoch, Held: held, Settle: settle, Claims: s.claims, Drain: s.draining, Load: facts}
	end := s.safeUntil()
	s.w.mu.Unlock()
	sent := time.Now()
	deadline := sent.Add(wait + s.lease/3)
	if end.After(sent) && end.Before(deadline) {
		deadline = end
	}
	call, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	reply, err := s.w.cfg.Consumer.Renew(call, req)
	if err != nil {
		if ctx.Err() == nil {
			s.unheard(err, time.Now())
		}
		return reply, err
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.epoch, s.broken = reply.Epoch, time.Time{}
	if next := sent.Add(usable(s.lease)); next.After(s.leaseEnd) {
		s.leaseEnd = next
	}
	if time.Until(s.leaseEnd) > 0 {
		s.fenced = false
	}
	s.w.tellLease(s.leaseEnd)
	s.cancelled(reply.Cancel)
	s.dropped(reply.Lost)
	return reply, nil
}

// unheard notes a renewal without success. A server that lives sees the connection break too, and
// shortens the lease. One that does not listen shortens nothing, and when it is back the lease is whole.
func (s *session) unheard(err error, now time.Time) {
	var answered *haulier.RetryAfterError
	broke := errors.Is(err, haulier.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	switch {
	case !broke || errors.As(err, &answered) || errors.Is(err, syscall.ECONNREFUSED):
		s.broken = time.Time{}
	case s.broken.IsZero():
		s.broken = now
	}
	s.w.tellLease(s.safeUntil())
}

// safeUntil is when the jobs must have ended, unless a renewal succeeds before. It is called with the lock held.
func (s *session) safeUntil() time.Time {
	if !s.broken.IsZero() {
		if at := s.broken.Add(usable(shortened(s.lease))); at.Before(s.leaseEnd) {
			return at
		}
	}
	return s.leaseEnd
}

// usable is the part of a lease in which jobs may run. The rest is for ending them: when it
// is over the server gives them to others.
func usable(lease time.Duration) time.Duration { return lease - lease/10 }

// shortened is what the server leaves of a lease when the worker's connection breaks.
func shortened(lease time.Duration) time.Duration { return max(lease/3, haulier.MinLease) }

// tellLease tells executors how long what they run may go on if this worker comes to a standstill.
func (w *Worker) tellLease(until time.Time) {
	for _, x := range w.execs {
		x.Lease(until)
	}
}

// sayHeld tells the server what the worker holds, apart from the renewal that it may hold back; the server
// takes back what the session has besides. No claim may be under way.
func (s *session) sayHeld(ctx context.Context) error {
	_, err := s.renew(ctx, 0, s.refs(), true)
	if errors.Is(err, haulier.ErrLeaseLost) {
		s.lose()
	}
	return err
}

// cancelled ends jobs whose cancellation was asked for. It is called with the lock held.
func (s *session) cancelled(refs []haulier.Ref) {
	for _, ref := range refs {
		r := s.held[ref.Job]
		if r == nil || r.job.Attempt != ref.Attempt || r.cause != causeNone {
			continue
		}
		s.log.Info("job is cancelled", "job", ref.Job, "attempt", ref.Attempt)
		r.end(causeCancel)
		if !r.begun {
			s.w.ready.take(func(o *run) bool { return o == r })
			r.release("cancelled before it was started")
		}
	}
}

// dropped ends jobs that are no longer the session's. It is called with the lock held.
func (s *session) dropped(refs []haulier.Ref) {
	for _, ref := range refs {
		r := s.held[ref.Job]
		if r == nil || r.job.Attempt != ref.Attempt {
			continue
		}
		s.drop(r)
	}
}

// drop forgets a job that somebody else may run by now. It is called with the lock held.
func (s *session) drop(r *run) {
	if s.held[r.job.ID] != r {
		return
	}
	s.log.Warn("job is no longer this worker's, it is ended", "job", r.job.ID, "attempt", r.job.Attempt)
	delete(s.held, r.job.ID)
	if !r.begun {
		s.w.ready.take(func(o *run) bool { return o == r })
	}
	r.end(causeLost)
	s.checkDrained()
}
