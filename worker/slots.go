package worker

import (
	"context"
	"time"

	"github.com/haulier/haulier"
)

// enter puts claimed jobs in line for a slot. It is called with the lock held.
func (w *Worker) enter(ctx context.Context, runs []run) {
	for i := range runs {
		w.ready.push(&runs[i])
		switch {
		case w.idle > 0:
			w.idle-- // one for each that is woken
			w.work.Signal()
		case w.slotN < w.cfg.Concurrency:
			w.slotN++
			w.slots.Go(func() { w.slot(ctx) })
		}
	}
}

// slot runs one job after the other. It ends with the worker.
func (w *Worker) slot(ctx context.Context) {
	var r *run
	defer func() {
		if r != nil { // the function has ended its goroutine
			w.mu.Lock()
			w.slots.Go(func() { w.slot(ctx) })
			w.mu.Unlock()
			w.leave(r, r.failed("the function ended its goroutine instead of returning"))
		}
	}()
	w.mu.Lock()
	for {
		for w.busy >= w.cfg.Concurrency || w.ready.len() == 0 {
			if w.closed {
				w.slotN--
				w.mu.Unlock()
				return
			}
			w.idle++
			w.work.Wait()
		}
		r = w.ready.pop()
		w.busy++
		r.begin()
		w.mu.Unlock()
		end := r.execute(ctx)
		w.mu.Lock()
		w.left(r, end)
		r = nil
	}
}

// leave notes that a run has ended.
func (w *Worker) leave(r *run, end haulier.Report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left(r, end)
}

// left frees the run's slot and queues the report of its end. It is called with the lock held.
func (w *Worker) left(r *run, end haulier.Report) {
	w.busy--
	w.ended++
	r.conclude(end)
	if w.idle > 0 && w.ready.len() > 0 { // an adopted job has made room
		w.idle--
		w.work.Signal()
	}
	if w.wanted > 0 && w.unclaimed(w.ahead) >= w.wanted {
		w.wanted = 0
		w.pokeRoom()
	}
}

func (w *Worker) unclaimed(ahead int) int { return w.cfg.Concurrency + ahead - w.busy - w.ready.len() }

// claimable is how many jobs may be claimed now, for the free slots and those that will be free soon. It
// is 0 as long as it is not worth the call; then room is poked when it is.
func (w *Worker) claimable(ahead int) (n int, waiting bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n = w.unclaimed(ahead)
	if worth := ahead/2 + 1; n < worth {
		n, w.wanted, w.ahead = 0, worth, ahead
	}
	return n, w.ready.len() > 0
}

// pace says how many jobs to claim ahead: as many as start within the horizon.
type pace struct {
	since time.Time
	ended uint64
	ahead int
}

const horizon = 20 * time.Millisecond

func (p *pace) look(w *Worker, now time.Time) int {
	dt := now.Sub(p.since)
	if dt < horizon/4 {
		return p.ahead
	}
	w.mu.Lock()
	ended := w.ended
	w.mu.Unlock()
	if !p.since.IsZero() {
		p.ahead = min(int(float64(ended-p.ended)*float64(horizon)/float64(dt)), w.cfg.Prefetch)
	}
	p.since, p.ended = now, ended
	return p.ahead
}
