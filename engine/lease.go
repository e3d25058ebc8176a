package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/haulier/haulier"
)

// pageSize is how many jobs one commit of a longer change touches.
const pageSize = 200

// sessionDoc is a session's document.
type sessionDoc struct {
	haulier.Session
}

// OpenSession implements haulier.Consumer.
func (e *Engine) OpenSession(ctx context.Context, in haulier.Session) (haulier.Session, error) {
	now, err := e.now(ctx)
	if err != nil {
		return in, err
	}
	if !in.ID.IsNil() {
		return e.resumeSession(ctx, in, now)
	}
	if err := completeSession(&in); err != nil {
		return in, err
	}
	in.ID, in.StartedAt, in.SeenAt = haulier.NewID(now), now, now
	s := newSession(in, 1)
	if err := e.writeSession(ctx, s, 0); err != nil {
		return in, fmt.Errorf("open session: %w", err)
	}
	e.sessions.add(s)
	e.wakeSweeper()
	e.log.Info("session opened", "session", in.ID, "worker", in.Worker, "lease", time.Duration(in.Lease))
	return in, nil
}

// resumeSession gives a session to a worker that takes over; its settings may be new.
func (e *Engine) resumeSession(ctx context.Context, in haulier.Session, now time.Time) (haulier.Session, error) {
	s, err := e.session(ctx, in.ID)
	if err != nil {
		return in, err
	}
	if err := completeSession(&in); err != nil {
		return in, err
	}
	s.claims.Lock()
	defer s.claims.Unlock()
	s.mu.Lock()
	in.StartedAt, in.SeenAt = s.info.StartedAt, now
	old, rev := s.info, s.rev
	if s.expired {
		s.mu.Unlock()
		return in, s.lost()
	}
	s.info, s.resumed = in, true
	s.mu.Unlock()
	if err := e.writeSession(ctx, s, rev); err != nil {
		s.mu.Lock()
		s.info = old
		s.mu.Unlock()
		return in, fmt.Errorf("resume session: %w", err)
	}
	if err := e.store.Renew(ctx, s.ID, time.Duration(in.Lease)); err != nil {
		return in, fmt.Errorf("resume session: %w", err)
	}
	e.log.Info("session resumed", "session", in.ID, "worker", in.Worker)
	return s.snapshot(), nil
}

// writeSession commits the document over the one of revision expect.
func (e *Engine) writeSession(ctx context.Context, s *session, expect uint64) error {
	s.mu.Lock()
	info := s.info
	s.mu.Unlock()
	value, err := json.Marshal(sessionDoc{Session: info})
	if err != nil {
		return err
	}
	for {
		err := e.store.Commit(ctx, &haulier.Batch{Sync: true, Docs: []haulier.DocWrite{{
			Kind: haulier.DocSession, Key: s.ID.String(), Expect: expect, Value: value, Lease: time.Duration(info.Lease),
		}}})
		if err == nil {
			break
		}
		if !errors.Is(err, haulier.ErrConflict) {
			return err
		}
		// An earlier write was carried out though its caller did not hear of it.
		d, err := e.store.Doc(ctx, haulier.DocSession, s.ID.String())
		if errors.Is(err, haulier.ErrNotFound) {
			return s.lost()
		}
		if err != nil {
			return err
		}
		expect = d.Rev
	}
	s.mu.Lock()
	s.rev = expect + 1
	s.mu.Unlock()
	return nil
}

func completeSession(s *haulier.Session) error {
	if s.Lease == 0 {
		s.Lease = haulier.Duration(haulier.DefaultLease)
	}
	if s.Concurrency == 0 {
		s.Concurrency = 1
	}
	if len(s.Tenants) == 0 {
		s.Tenants = []string{haulier.DefaultTenant}
	}
	if len(s.Queues) == 0 {
		s.Queues = map[string]int{"*": 1}
	}
	s.Draining, s.Connected, s.Jobs, s.Holding = false, false, 0, nil
	return checkSession(s)
}

func checkSession(s *haulier.Session) error {
	switch lease := time.Duration(s.Lease); {
	case lease < haulier.MinLease || lease > haulier.MaxLease:
		return field("lease", fmt.Sprintf("is %v: it goes from %v to %v", lease, haulier.MinLease, haulier.MaxLease))
	case s.Concurrency < 1 || s.Concurrency > haulier.MaxConcurrency:
		return field("concurrency", fmt.Sprintf("is %d: it goes from 1 to %d", s.Concurrency, haulier.MaxConcurrency))
	case len(s.Kinds) == 0:
		return field("kinds", "is empty: name the kinds of task that the worker runs")
	case len(s.Worker) > haulier.MaxName || s.Worker == "":
		return field("worker", fmt.Sprintf("is empty or longer than %d bytes: name the worker", haulier.MaxName))
	case len(s.Tenants)+len(s.Queues)+len(s.Types)+len(s.Labels)+len(s.Languages) > 1000:
		return field("session", "names more than 1000 tenants, queues, types, labels and languages")
	}
	for _, t := range s.Tenants {
		if t == "*" {
			continue
		}
		if err := checkName("tenants", t); err != nil {
			return err
		}
	}
	for q, w := range s.Queues {
		if w < 1 || w > 100 {
			return field("queues", fmt.Sprintf("weight of %.40q is %d: it goes from 1 to 100", q, w))
		}
		if q != "*" {
			if err := checkName("queues", q); err != nil {
				return err
			}
		}
	}
	for _, t := range s.Types {
		if err := checkName("types", t); err != nil {
			return err
		}
	}
	return checkFacts(s)
}

// checkFacts bounds what a worker tells of its machine.
func checkFacts(s *haulier.Session) error {
	size := len(s.Host) + len(s.Version)
	for k, v := range s.Labels {
		size += len(k) + len(v)
	}
	for _, a := range s.Addresses {
		size += len(a)
	}
	switch {
	case len(s.Addresses) > haulier.MaxHosts:
		return field("addresses", fmt.Sprintf("has %d entries: at most %d", len(s.Addresses), haulier.MaxHosts))
	case size > maxFacts:
		return field("labels", fmt.Sprintf("come to %d bytes with host, version and addresses: at most %d", size, maxFacts))
	}
	return checkLoad(s.Load)
}

// maxFacts is the most bytes of the words that a worker says of itself.
const maxFacts = 16 << 10

func checkLoad(l *haulier.Load) error {
	if l == nil || l.CPU >= 0 && l.CPU <= 100 && l.MemoryUsed >= 0 && l.MemoryTotal >= 0 {
		return nil
	}
	return field("load", "is negative, or has a cpu of more than 100 percent")
}

// Renew implements haulier.Consumer.
func (e *Engine) Renew(ctx context.Context, r haulier.RenewRequest) (haulier.RenewReply, error) {
	reply := haulier.RenewReply{Epoch: e.epoch}
	s, err := e.session(ctx, r.Session)
	if err != nil {
		return reply, err
	}
	if s.ended() {
		return reply, s.lost()
	}
	if err := checkLoad(r.Load); err != nil {
		return reply, err
	}
	now, err := e.now(ctx)
	if err != nil {
		return reply, err
	}
	lease := time.Duration(s.snapshot().Lease)
	if err := e.store.Renew(ctx, s.ID, lease); err != nil {
		return reply, fmt.Errorf("renew session: %w", e.gone(s, err))
	}
	renewal := s.connect(now, &r)
	// A worker that knows this run of the server was asked, if there was anything to ask: no list means that it holds nothing.
	told := len(r.Held) > 0 || r.Epoch == e.epoch && e.hold.active()
	if told {
		if reply.Lost, err = e.reclaim(ctx, s, r.Held); err != nil {
			s.disconnect(renewal)
			return reply, err
		}
		e.hold.said(s.ID)
	}
	if r.Settle {
		if err := e.settle(ctx, s, &r); err != nil {
			s.disconnect(renewal)
			return reply, fmt.Errorf("renew session: %w", err)
		}
	}
	reply.Resend = r.Epoch != e.epoch && !told && e.hold.active()
	if reply.Resend || len(reply.Lost) > 0 {
		s.disconnect(renewal)
		reply.Cancel, _ = s.toCancel()
		return reply, nil
	}
	reply.Cancel, err = e.awaitNews(ctx, s, r.Epoch != e.epoch, min(r.Wait, lease/2))
	newest := s.disconnect(renewal)
	if errors.Is(err, context.Canceled) && newest && !errors.Is(context.Cause(ctx), haulier.ErrUnavailable) {
		e.shorten(s, lease)
	}
	return reply, err
}

// settle takes from the session what its worker does not hold. No claim of the session goes on meanwhile.
func (e *Engine) settle(ctx context.Context, s *session, r *haulier.RenewRequest) error {
	s.claims.Lock()
	defer s.claims.Unlock()
	s.void.Store(max(s.void.Load(), r.Claims))
	how, reason := s.unheld()
	holds := make(map[haulier.Ref]bool, len(r.Held))
	for _, ref := range r.Held {
		holds[ref] = true
	}
	for cursor := ""; ; {
		page, err := e.store.List(ctx, haulier.Query{Session: s.ID, Cursor: cursor, Limit: pageSize})
		if err != nil {
			return err
		}
		var others []*haulier.Job
		for _, j := range page.Jobs {
			if !holds[haulier.Ref{Job: j.ID, Attempt: j.Attempt}] {
				others = append(others, j)
			}
		}
		n, err := e.applyEach(ctx, others, func(j *haulier.Job) haulier.Event {
			return haulier.Event{Kind: how, Session: s.ID, Attempt: j.Attempt, By: s.snapshot().Worker, Error: reason}
		}, false)
		if err != nil {
			return err
		}
		if n > 0 {
			e.log.Info("jobs returned that the worker does not hold", "session", s.ID, "jobs", n)
		}
		if cursor = page.Next; cursor == "" {
			s.settled()
			return nil
		}
	}
}

// awaitNews waits for something to tell the worker, at most for wait. A worker that meets a
// new server is answered at once.
func (e *Engine) awaitNews(ctx context.Context, s *session, greet bool, wait time.Duration) ([]haulier.Ref, error) {
	timeout := time.NewTimer(max(wait, 0))
	defer timeout.Stop()
	cancels, more := s.toCancel()
	// Cancellations that stay unacknowledged are told again with each reply, but do not turn the wait into a spin.
	if s.toldAll() || greet || wait <= 0 {
		return cancels, nil
	}
	select {
	case <-more:
	case <-timeout.C:
	case <-s.gone:
		return nil, s.lost()
	case <-e.hub.done:
		return nil, fmt.Errorf("renew session: %w: the server is closing", haulier.ErrUnavailable)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.toldAll()
	cancels, _ = s.toCancel()
	return cancels, nil
}

// shorten cuts the lease of a worker whose connection broke: it may well be dead.
func (e *Engine) shorten(s *session, lease time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := e.store.Renew(ctx, s.ID, max(lease/3, haulier.MinLease)); err == nil {
		e.log.Info("worker's connection broke, lease shortened", "session", s.ID, "worker", s.snapshot().Worker)
		e.wakeSweeper()
	}
}

// CloseSession implements haulier.Consumer.
func (e *Engine) CloseSession(ctx context.Context, id haulier.ID) error {
	s, err := e.session(ctx, id)
	if err != nil {
		return err
	}
	return e.endSession(ctx, s, haulier.EventRelease)
}

// returnOp is the work of returning the jobs of a session that has ended.
const returnOp = "return"

// sessionEnd is the document of that work.
type sessionEnd struct {
	Op      string            `json:"op"`
	Session haulier.ID        `json:"session"`
	Worker  string            `json:"worker"`
	How     haulier.EventKind `json:"how"`
}

// endSession removes a session and returns its jobs, by Release or Lost. After the commit that removes it nobody
// claims by it, at no server; that its jobs are to go back is a work document of the same commit.
func (e *Engine) endSession(ctx context.Context, s *session, how haulier.EventKind) error {
	s.claims.Lock()
	defer s.claims.Unlock()
	select {
	case <-s.gone:
		return nil
	default:
	}
	s.mu.Lock()
	again := s.expired
	s.expired = true
	s.mu.Unlock()
	end := sessionEnd{Op: returnOp, Session: s.ID, Worker: s.snapshot().Worker, How: how}
	v, err := json.Marshal(end)
	if err != nil {
		return err
	}
	key := returnOp + "-" + s.ID.String()
	err = e.store.Commit(ctx, &haulier.Batch{Sync: true, Docs: []haulier.DocWrite{
		{Kind: haulier.DocSession, Key: s.ID.String(), Expect: haulier.AnyRev},
		{Kind: haulier.DocWork, Key: key, Expect: haulier.AnyRev, Value: v},
	}})
	if err != nil {
		if !again {
			err = e.unexpire(s, fmt.Errorf("end session: %w", err))
		}
		return err
	}
	e.hold.said(s.ID)
	e.sessions.remove(s)
	n, err := e.finishReturn(ctx, key, &end)
	if err != nil {
		e.effects.add(key)
		return fmt.Errorf("end session: its jobs go back by themselves: %w", err)
	}
	e.log.Info("session ended", "session", s.ID, "worker", end.Worker, "how", how.String(), "jobs", n)
	return nil
}

// finishReturn returns the jobs of a session that was removed.
func (e *Engine) finishReturn(ctx context.Context, key string, end *sessionEnd) (int, error) {
	n, err := e.returnJobs(ctx, end.Session, end.Worker, end.How)
	if err != nil {
		return n, err
	}
	return n, e.store.Commit(ctx, &haulier.Batch{Sync: true, Docs: []haulier.DocWrite{{Kind: haulier.DocWork, Key: key, Expect: haulier.AnyRev}}})
}

// carryReturn completes what a server has left that died while it ended a session.
func (e *Engine) carryReturn(ctx context.Context, d *haulier.Doc) error {
	var end sessionEnd
	if err := json.Unmarshal(d.Value, &end); err != nil {
		return fmt.Errorf("work %s: %w: %w", d.Key, haulier.ErrCorrupt, err)
	}
	n, err := e.finishReturn(ctx, d.Key, &end)
	if err == nil && n > 0 {
		e.log.Info("jobs returned of a session that has ended", "session", end.Session, "worker", end.Worker, "jobs", n)
	}
	return err
}

// unexpire takes back the mark when it could not be written.
func (e *Engine) unexpire(s *session, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expired = false
	return err
}

// returnJobs takes all jobs from a session that can't claim any more, in bounded commits.
func (e *Engine) returnJobs(ctx context.Context, session haulier.ID, worker string, how haulier.EventKind) (int, error) {
	total := 0
	for {
		page, err := e.store.List(ctx, haulier.Query{Session: session, Limit: pageSize})
		if err != nil {
			return total, err
		}
		if len(page.Jobs) == 0 && page.Next == "" {
			return total, nil
		}
		n, err := e.applyEach(ctx, page.Jobs, func(j *haulier.Job) haulier.Event {
			return haulier.Event{Kind: how, Session: session, Attempt: j.Attempt, By: worker}
		}, false)
		if err != nil {
			return total, err
		}
		if total += n; n == 0 && len(page.Jobs) > 0 {
			return total, fmt.Errorf("%w: %d jobs of the session do not go back; it is tried again", haulier.ErrUnavailable, len(page.Jobs))
		}
	}
}

// loadSessions reads the sessions that were alive when the server stopped.
func (e *Engine) loadSessions(ctx context.Context) error {
	var lease time.Duration
	waiting := map[haulier.ID]bool{}
	for after := ""; ; {
		docs, err := e.store.Docs(ctx, haulier.DocSession, "", after, 500)
		if err != nil {
			return err
		}
		for _, d := range docs {
			var v sessionDoc
			if err := json.Unmarshal(d.Value, &v); err != nil {
				return fmt.Errorf("session %s: %w: %w", d.Key, haulier.ErrCorrupt, err)
			}
			s := newSession(v.Session, d.Rev)
			e.sessions.add(s)
			waiting[s.ID] = true
			lease = max(lease, time.Duration(v.Lease))
			after = d.Key
		}
		if len(docs) == 0 {
			break
		}
	}
	e.hold = &hold{}
	if e.store.Opened().ClaimsLost && len(waiting) > 0 {
		e.log.Warn("the machine went down: workers may say for one lease what they run, before jobs are handed out", "sessions", len(waiting), "lease", lease)
		e.hold.begin(waiting, lease, e.sched.wakeAll)
	}
	return nil
}

// loadOwners reads who holds which job, and finds jobs whose session is gone.
func (e *Engine) loadOwners(ctx context.Context) error {
	for _, st := range []haulier.State{haulier.Claimed, haulier.Running} {
		for cursor := ""; ; {
			page, err := e.store.List(ctx, haulier.Query{State: st, Cursor: cursor, Limit: 1000})
			if err != nil {
				return err
			}
			for _, j := range page.Jobs {
				if err := e.loadOwner(ctx, j); err != nil {
					return err
				}
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
	}
	return nil
}

func (e *Engine) loadOwner(ctx context.Context, j *haulier.Job) error {
	if _, err := e.session(ctx, j.Session); err != nil {
		if !errors.Is(err, haulier.ErrLeaseLost) {
			return err
		}
		e.log.Warn("job belongs to a session that is gone: returned", "job", j.ID, "session", j.Session)
		_, err := e.applyEach(ctx, []*haulier.Job{j}, func(j *haulier.Job) haulier.Event {
			return haulier.Event{Kind: haulier.EventLost, Session: j.Session, By: "server"}
		}, false)
		return err
	}
	e.sessions.changed([]haulier.JobChange{{Spec: &j.Spec, Status: j.Status}})
	return nil
}

// reclaim compares what a worker says it runs with what the store says, gives back to it
// what a power cut made the store forget, and returns what it has lost.
func (e *Engine) reclaim(ctx context.Context, s *session, held []haulier.Ref) ([]haulier.Ref, error) {
	ids := make([]haulier.ID, len(held))
	for i, r := range held {
		ids[i] = r.Job
	}
	jobs, err := e.store.Jobs(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("renew session: %w", err)
	}
	var lost []haulier.Ref
	for i, j := range jobs {
		r := held[i]
		if j != nil && j.Session == s.ID && j.Attempt == r.Attempt && j.State.Owned() {
			continue
		}
		if j == nil || !e.reclaimOne(ctx, s, j, r) {
			lost = append(lost, r)
		}
	}
	return lost, nil
}

func (e *Engine) reclaimOne(ctx context.Context, s *session, j *haulier.Job, r haulier.Ref) bool {
	if !e.hold.active() || j.State != haulier.Pending || j.Attempt+1 != r.Attempt {
		return false
	}
	n, err := e.applyEach(ctx, []*haulier.Job{j}, func(*haulier.Job) haulier.Event {
		return haulier.Event{Kind: haulier.EventReclaim, Session: s.ID, Attempt: r.Attempt, By: s.snapshot().Worker}
	}, true)
	if err != nil || n == 0 {
		return false
	}
	e.log.Info("job reclaimed by its worker after a power cut", "job", j.ID, "session", s.ID, "attempt", r.Attempt)
	return true
}

// hold keeps claims back after a power cut may have lost some, until each
// session has said what it runs, or for one lease.
type hold struct {
	mu      sync.Mutex
	waiting map[haulier.ID]bool
	over    func()
	timer   *time.Timer
}

func (h *hold) begin(waiting map[haulier.ID]bool, lease time.Duration, over func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting, h.over = waiting, over
	h.timer = time.AfterFunc(lease, h.end)
}

func (h *hold) active() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.waiting) > 0
}

// said notes that a session has spoken, or is gone.
func (h *hold) said(id haulier.ID) {
	h.mu.Lock()
	was := len(h.waiting)
	delete(h.waiting, id)
	done := was > 0 && len(h.waiting) == 0
	if done {
		h.timer.Stop()
	}
	h.mu.Unlock()
	if done {
		h.over()
	}
}

// stop ends the hold with the engine.
func (h *hold) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.timer != nil {
		h.timer.Stop()
	}
}

func (h *hold) end() {
	h.mu.Lock()
	clear(h.waiting)
	h.mu.Unlock()
	h.over()
}
