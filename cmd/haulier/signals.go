package main

import (
	"context"
	"sync"
)

// untilSignal returns a context that ends at the first signal, with
// errInterrupted as its cause. stop frees it and must be called.
func (p *program) untilSignal(ctx context.Context) (until context.Context, stop func()) {
	until, cancel := context.WithCancelCause(ctx)
	ignore := p.eachSignal(func(int) { cancel(errInterrupted) })
	return until, func() {
		ignore()
		cancel(nil)
	}
}

// eachSignal calls react for each signal, with their count from 1, until stop is
// called, which waits for the last of these calls.
func (p *program) eachSignal(react func(n int)) (stop func()) {
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for n := 1; ; n++ {
			select {
			case <-p.signals:
				react(n)
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		watch.Wait()
	}
}

// usualSignals lets the next signal end the program at once, as if it had never listened for them.
func (p *program) usualSignals() {
	if p.unhook != nil {
		p.unhook()
	}
}
