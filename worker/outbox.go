package worker

import (
	"context"
	"sync"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
)

const (
	flushAfter = 100 * time.Millisecond // that output may wait for more
	flushSize  = 32 << 10               // bytes of output that are worth a report
)

// outbox is the output of a run that the server does not have yet.
type outbox struct {
	mu    sync.Mutex
	buf   []byte // not yet in a report
	from  int64  // offset of buf
	acked int64  // offset before which the server has all
	timer *time.Timer
	armed bool
	room  chan struct{} // poked when acked grows
	ended bool
}

// told is what a run has to tell beyond output. It is guarded by the worker's lock.
type told struct {
	logQueued bool
	progress  bool
	queued    bool // a report of progress is in the queue
	percent   float64
	step      string
}

// Log implements executor.Sink.
func (r *run) Log(ctx context.Context, from int64, frames []byte) error {
	o := &r.out
	o.mu.Lock()
	if o.room == nil { // the first output
		o.room = make(chan struct{}, 1)
		o.from, o.acked = from, from
	}
	for !o.ended && o.from+int64(len(o.buf))-o.acked > 0 && o.from+int64(len(o.buf)+len(frames))-o.acked > executor.Window {
		o.mu.Unlock()
		r.flush()
		select {
		case <-o.room:
		case <-ctx.Done():
			return ctx.Err()
		}
		o.mu.Lock()
	}
	if o.ended {
		o.mu.Unlock()
		return nil
	}
	o.buf = append(o.buf, frames...)
	full := len(o.buf) >= flushSize
	if !full {
		o.arm(r)
	}
	o.mu.Unlock()
	if full {
		r.flush()
	}
	return nil
}

// arm makes sure that what waits is sent soon.
func (o *outbox) arm(r *run) {
	switch {
	case o.armed:
		return
	case o.timer == nil:
		o.timer = time.AfterFunc(flushAfter, r.flush)
	default:
		o.timer.Reset(flushAfter)
	}
	o.armed = true
}

// flush queues a report of what waits, output and progress.
func (r *run) flush() {
	w := r.s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	o := &r.out
	o.mu.Lock()
	o.armed = false
	waiting := len(o.buf) > 0
	o.mu.Unlock()
	if r.done {
		return
	}
	if r.told.progress && !r.told.queued {
		r.told.queued = true
		r.s.report(r, haulier.Report{Ref: r.ref(), Kind: haulier.ReportProgress})
	}
	if waiting && !r.told.logQueued {
		r.told.logQueued = true
		r.s.report(r, haulier.Report{Ref: r.ref(), Kind: haulier.ReportLog})
	}
}

// Progress implements executor.Sink and haulier.Activity. What comes within a short time is joined.
func (r *run) Progress(percent float64, step string) {
	w := r.s.w
	w.mu.Lock()
	t := &r.told
	if percent >= 0 || !t.progress {
		t.percent = percent
	}
	if step != "" {
		t.step = step
	}
	t.progress = true
	w.mu.Unlock()
	r.out.mu.Lock()
	r.out.arm(r)
	r.out.mu.Unlock()
}

// take hands the waiting output to a report. It is called with the worker's lock held.
func (o *outbox) take(rep *haulier.Report) {
	o.mu.Lock()
	defer o.mu.Unlock()
	rep.LogFrom = o.from // also without output: a server to which none of it came learns that there is some
	if len(o.buf) == 0 {
		return
	}
	rep.Log = o.buf
	o.from += int64(len(o.buf))
	o.buf = nil
}

// end drops whatever output may still come, once the last report is on its way.
func (o *outbox) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	if o.timer != nil {
		o.timer.Stop()
	}
	o.poke()
}

func (o *outbox) ack(offset int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.acked = max(o.acked, offset)
	o.poke()
}

func (o *outbox) poke() {
	if o.room != nil {
		select {
		case o.room <- struct{}{}:
		default:
		}
	}
}
