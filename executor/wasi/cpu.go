package wasi

import (
	"sync"
	"time"
)

// cpuWatch calls a function when the thread that made it has used its processor time. It looks again when the rest could be used up,
// so that it looks but a few times, however long the thread waits.
type cpuWatch struct {
	used  func() (time.Duration, bool)
	most  time.Duration
	over  func()
	mu    sync.Mutex
	timer *time.Timer
	ended bool
}

const leastLook = time.Millisecond

func watchCPU(most time.Duration, over func()) *cpuWatch {
	w := &cpuWatch{used: threadClock(), over: over}
	now, _ := w.used()
	w.most = now + most
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(most, w.look)
	return w
}

func (w *cpuWatch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	used, ok := w.used()
	switch left := w.most - used; {
	case !ok:
	case left <= 0:
		w.over()
	default:
		w.timer.Reset(max(left, leastLook))
	}
}

// stop ends it: over is not called any more.
func (w *cpuWatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.timer.Stop()
}
