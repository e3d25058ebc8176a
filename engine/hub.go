package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/haulier/haulier"
)

// eventBuffer is how many events a slow receiver may lag behind before some are left out.
const eventBuffer = 4096

// hub tells those who wait of changes.
type hub struct {
	active atomic.Int64 // waiters and subscribers: with none, changes cost nothing
	done   chan struct{}

	mu      sync.Mutex
	jobs    map[haulier.ID][]chan struct{} // closed when the job changes or its output grows
	streams map[*stream]struct{}
	closed  bool
}

// stream is a subscription to events.
type stream struct {
	filter haulier.Filter
	events chan haulier.JobEvent
	missed int
}

func newHub() *hub {
	return &hub{done: make(chan struct{}), jobs: map[haulier.ID][]chan struct{}{}, streams: map[*stream]struct{}{}}
}

func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.closed = true
		close(h.done)
	}
}

// await returns a channel that is closed at the job's next change; cancel must be called.
func (h *hub) await(id haulier.ID) (changed <-chan struct{}, cancel func()) {
	ch := make(chan struct{})
	h.active.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.jobs[id] = append(h.jobs[id], ch)
	return ch, func() { h.forget(id, ch) }
}

func (h *hub) forget(id haulier.ID, ch chan struct{}) {
	h.active.Add(-1)
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.jobs[id]
	for i, x := range list {
		if x == ch {
			list = append(list[:i:i], list[i+1:]...)
			break
		}
	}
	if len(list) == 0 {
		delete(h.jobs, id)
	} else {
		h.jobs[id] = list
	}
}

// signal wakes who waits for the job. The caller holds the lock.
func (h *hub) signal(id haulier.ID) {
	for _, ch := range h.jobs[id] {
		close(ch)
	}
	delete(h.jobs, id)
}

// grew tells that a job has more output.
func (h *hub) grew(id haulier.ID) {
	if h.active.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.signal(id)
}

func (h *hub) changed(changes []haulier.JobChange) {
	if h.active.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range changes {
		c := &changes[i]
		h.signal(c.Spec.ID)
		for s := range h.streams {
			s.offer(c)
		}
	}
}

// offer puts the change into the stream, or counts it as missed. The hub's lock is held.
func (s *stream) offer(c *haulier.JobChange) {
	state := c.Status.State
	if state == 0 {
		state = c.Before
	}
	if !s.filter.Selects(c.Spec, state) {
		return
	}
	ev := haulier.JobEvent{
		Job: c.Spec.ID, Tenant: c.Spec.Tenant, Queue: c.Spec.Queue, Type: c.Spec.Type, Group: c.Spec.Group,
		State: c.Status.State, Removed: c.Status.State == 0, Attempt: c.Status.Attempt, Percent: c.Status.Percent,
		Step: c.Status.Step, Outcome: c.Status.Outcome, Reason: c.Status.Reason, At: c.Status.UpdatedAt, Missed: s.missed,
	}
	select {
	case s.events <- ev:
		s.missed = 0
	default:
		s.missed++
	}
}

// Events implements haulier.Operator.
func (e *Engine) Events(ctx context.Context, f haulier.Filter, fn func(haulier.JobEvent) error) error {
	s := &stream{filter: f, events: make(chan haulier.JobEvent, eventBuffer)}
	h := e.hub
	h.mu.Lock()
	h.streams[s] = struct{}{}
	h.mu.Unlock()
	h.active.Add(1)
	defer func() {
		h.active.Add(-1)
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.streams, s)
	}()
	for {
		select {
		case ev := <-s.events:
			if err := fn(ev); err != nil {
				return err
			}
		case <-h.done:
			return fmt.Errorf("events: %w: the server is closing", haulier.ErrUnavailable)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Wait implements haulier.Operator. Jobs that do not exist count as ended.
func (e *Engine) Wait(ctx context.Context, tenant string, ids []haulier.ID) ([]*haulier.Job, error) {
	if len(ids) > haulier.MaxBatch {
		return nil, &haulier.FieldError{Field: "ids", Kind: haulier.ErrTooLarge, Msg: fmt.Sprintf("has %d ids: at most %d", len(ids), haulier.MaxBatch)}
	}
	for i := 0; i < len(ids); i++ {
		if err := e.waitOne(ctx, tenant, ids[i]); err != nil {
			return nil, err
		}
	}
	return e.Get(ctx, tenant, ids)
}

func (e *Engine) waitOne(ctx context.Context, tenant string, id haulier.ID) error {
	for {
		changed, cancel := e.hub.await(id)
		jobs, err := e.Get(ctx, tenant, []haulier.ID{id})
		if err != nil || jobs[0] == nil || jobs[0].State.Terminal() {
			cancel()
			return err
		}
		select {
		case <-changed:
			cancel()
		case <-ctx.Done():
			cancel()
			return ctx.Err()
		case <-e.hub.done:
			cancel()
			return fmt.Errorf("wait: %w: the server is closing", haulier.ErrUnavailable)
		}
	}
}
