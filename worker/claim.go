package worker

import (
	"context"
	"errors"
	"time"

	"github.com/haulier/haulier"
)

const (
	claimWait = 30 * time.Second // that the server may hold a claim back
	claimLate = 10 * time.Second // beyond that the connection counts as broken
	staleWait = 2 * time.Second  // that a job claimed ahead may wait for a slot
)

// claimLoop claims jobs until ctx ends. No other part of the worker claims, so that
// between two claims everything that the session has got is known. Jobs run under base.
func (s *session) claimLoop(ctx, base context.Context) {
	var p pace
	var wait backoff
	for ctx.Err() == nil {
		if err := s.settleDoubt(ctx); err != nil {
			if !wait.pause(ctx, nil) {
				return
			}
			continue
		}
		n := s.awaitRoom(ctx, &p)
		if n == 0 {
			continue
		}
		jobs, err := s.claim(ctx, n)
		s.got(base, jobs)
		switch {
		case err == nil:
			wait = backoff{}
		case errors.Is(err, haulier.ErrLeaseLost):
			s.lose()
			return
		case ctx.Err() == nil:
			s.log.Warn("claim", "err", err)
			wait.pause(ctx, nil)
		}
	}
}

// claim asks for jobs. When the answer did not come, the server may have given
// jobs that the worker does not know of: it is told what is held before the next claim.
func (s *session) claim(ctx context.Context, n int) ([]haulier.Job, error) {
	ctx, cancel := context.WithTimeout(ctx, claimWait+claimLate)
	defer cancel()
	s.w.mu.Lock()
	s.claims++
	number := s.claims
	s.w.mu.Unlock()
	jobs, err := s.w.cfg.Consumer.Claim(ctx, haulier.ClaimRequest{Session: s.id, N: n, Wait: claimWait, Number: number})
	if err != nil {
		s.w.mu.Lock()
		s.unsure = true
		s.w.mu.Unlock()
	}
	return jobs, err
}

// settleDoubt tells the server what is held, if that is needed.
func (s *session) settleDoubt(ctx context.Context) error {
	s.w.mu.Lock()
	unsure := s.unsure
	s.unsure = false
	s.w.mu.Unlock()
	if !unsure {
		return nil
	}
	err := s.sayHeld(ctx)
	if err != nil {
		s.w.mu.Lock()
		s.unsure = true
		s.w.mu.Unlock()
	}
	return err
}

// awaitRoom waits until it is worth to claim, and returns for how many jobs there is room; 0 to look again.
func (s *session) awaitRoom(ctx context.Context, p *pace) int {
	ahead := p.look(s.w, time.Now())
	n, waiting := s.w.claimable(ahead)
	if n > 0 {
		return min(n, haulier.MaxClaim)
	}
	var stale <-chan time.Time
	if waiting {
		t := time.NewTimer(staleWait)
		defer t.Stop()
		stale = t.C
	}
	select {
	case <-s.w.room:
	case <-stale:
		s.returnStale(time.Now())
	case <-ctx.Done():
	}
	return 0
}

// returnStale gives back what was claimed ahead and found no slot, since the jobs became long: others may have one.
func (s *session) returnStale(now time.Time) {
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.ready.take(func(r *run) bool { return r.s == s && now.Sub(r.claimedAt) >= staleWait }) {
		r.release("its worker had no room for it")
	}
}

// got takes in the jobs of a claim.
func (s *session) got(ctx context.Context, jobs []haulier.Job) {
	if len(jobs) == 0 {
		return
	}
	now := time.Now()
	runs := make([]run, len(jobs))
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.lost {
		return
	}
	for i := range jobs {
		r := &runs[i]
		r.s, r.job, r.claimedAt = s, &jobs[i], now
		s.held[jobs[i].ID] = r
	}
	if s.fenced {
		for i := range runs {
			runs[i].release("its worker could not reach the server")
		}
		return
	}
	w.enter(ctx, runs)
}

func (w *Worker) pokeRoom() {
	select {
	case w.room <- struct{}{}:
	default:
	}
}
