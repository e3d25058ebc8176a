package worker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
)

// session is the time for which the worker holds one session at the server.
type session struct {
	w     *Worker
	id    haulier.ID
	lease time.Duration
	log   *slog.Logger

	over   <-chan struct{} // closed when the session has ended, one way or the other
	finish context.CancelFunc
	stop   context.CancelFunc // ends claims

	wake chan struct{} // poked when there is something to report

	// Guarded by the worker's lock.
	held     map[haulier.ID]*run // claimed, and the end not yet acknowledged
	queue    reports             // what is to be reported, in order
	drained  chan struct{}       // closed when draining and nothing is held
	draining bool
	lost     bool
	fenced   bool      // the lease has run out by the worker's clock
	claims   uint64    // number of the newest claim
	unsure   bool      // the server is to be told what is held, before the next claim
	leaseEnd time.Time // of its usable part
	broken   time.Time // when renewals began to fail; zero: they do not
	epoch    string    // of the server
}

func newSession(w *Worker, s haulier.Session, opened time.Time, resumed bool) *session {
	lease := time.Duration(s.Lease)
	if lease <= 0 {
		lease = w.cfg.Lease
	}
	return &session{
		w: w, id: s.ID, lease: lease, log: w.log.With("session", s.ID), wake: make(chan struct{}, 1),
		held: map[haulier.ID]*run{}, drained: make(chan struct{}), leaseEnd: opened.Add(usable(lease)), unsure: resumed,
		claims: uint64(opened.UnixMicro()), // beyond those of a worker before this one
	}
}

// serve works until ctx ends and everything is reported, or the worker is aborted, or
// the session is lost: then the error is ErrLeaseLost.
func (s *session) serve(ctx context.Context, left []executor.Attempt) error {
	base := context.WithoutCancel(ctx)
	live, finish := context.WithCancel(base)
	defer finish()
	s.over, s.finish = live.Done(), finish
	claiming, stop := context.WithCancel(live)
	defer stop()
	s.stop = stop
	s.adopt(base, left)
	var claims, rest sync.WaitGroup
	claims.Go(func() { s.claimLoop(claiming, base) })
	rest.Go(func() { s.renewLoop(live) })
	rest.Go(func() { s.reportLoop(live) })
	select {
	case <-ctx.Done():
		s.drain(live, &claims, &rest)
	case <-s.w.abort:
		s.drain(live, &claims, &rest)
	case <-s.over:
	}
	s.await()
	s.finish()
	claims.Wait()
	rest.Wait()
	if s.isLost() {
		return fmt.Errorf("session %v: %w", s.id, haulier.ErrLeaseLost)
	}
	s.closeSession(base)
	return nil
}

// closeWait bounds the last calls of a worker that ends.
const closeWait = 5 * time.Second

func (s *session) closeSession(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, closeWait)
	defer cancel()
	if err := s.w.cfg.Consumer.CloseSession(ctx, s.id); err != nil {
		s.log.Warn("session not closed, it will expire", "err", err)
	}
}

// adopt takes over what a former worker left.
func (s *session) adopt(ctx context.Context, left []executor.Attempt) {
	for _, a := range left {
		ref := a.Ref()
		job := &haulier.Job{}
		job.ID, job.Attempt = ref.Job, ref.Attempt
		r := &run{s: s, job: job, attempt: a, adopted: true}
		s.w.mu.Lock()
		s.held[ref.Job] = r
		s.w.busy++
		s.w.mu.Unlock()
		s.log.Info("job adopted", "job", ref.Job, "attempt", ref.Attempt)
		s.w.slots.Go(func() { s.w.leave(r, r.goOn(ctx)) })
	}
}

// drain ends the claims, gives back what has not been started, and tells the server.
func (s *session) drain(ctx context.Context, claims, rest *sync.WaitGroup) {
	s.stop()
	claims.Wait()
	w := s.w
	w.mu.Lock()
	s.draining = true
	for _, r := range w.ready.take(func(r *run) bool { return r.s == s }) {
		r.release("its worker is stopping")
	}
	n := len(s.held)
	s.checkDrained()
	w.mu.Unlock()
	s.log.Info("draining", "jobs", n)
	rest.Go(func() {
		if err := s.sayHeld(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("server not told of the drain", "err", err)
		}
	})
}

// await returns when nothing is held, or the session is lost, or the worker was
// aborted and has had its time.
func (s *session) await() {
	select {
	case <-s.drained:
		return
	case <-s.over:
		return
	case <-s.w.abort:
	}
	s.w.mu.Lock()
	for _, r := range s.held {
		r.end(causeAbort)
	}
	s.w.mu.Unlock()
	if s.awaitFor(s.w.cfg.Grace + time.Second) {
		return
	}
	s.w.mu.Lock()
	for _, r := range s.held { // functions that do not heed their context
		r.release("its worker is stopping")
	}
	s.w.mu.Unlock()
	s.awaitFor(closeWait)
}

func (s *session) awaitFor(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-s.drained:
		return true
	case <-s.over:
		return true
	case <-t.C:
		return false
	}
}

// checkDrained is called with the lock held, when something is held no more.
func (s *session) checkDrained() {
	if s.draining && len(s.held) == 0 {
		select {
		case <-s.drained:
		default:
			close(s.drained)
		}
	}
}

// lose ends the session: it is gone at the server, so others may run its jobs.
func (s *session) lose() {
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.lost {
		return
	}
	s.lost = true
	w.ready.take(func(r *run) bool { return r.s == s })
	for _, r := range s.held {
		r.end(causeLost)
	}
	clear(s.held)
	s.finish()
}

func (s *session) isLost() bool {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return s.lost
}

// fence ends what runs, since the lease has run out by the worker's own clock. The
// session may live on at the server, which then still hears of the ends.
func (s *session) fence() {
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.fenced || s.lost {
		return
	}
	s.fenced = true
	if len(s.held) > 0 {
		s.log.Error("lease not renewed in time: jobs are ended, since others may run them", "jobs", len(s.held))
	}
	for _, r := range w.ready.take(func(r *run) bool { return r.s == s }) {
		r.release("its worker could not reach the server")
	}
	for _, r := range s.held {
		r.end(causeFence)
	}
}

// refs lists what the worker holds.
func (s *session) refs() []haulier.Ref {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	refs := make([]haulier.Ref, 0, len(s.held))
	for _, r := range s.held {
		refs = append(refs, r.ref())
	}
	return refs
}
