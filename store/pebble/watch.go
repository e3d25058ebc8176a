package pebble

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/haulier/haulier"
)

// watchers are those who hear of every change.
type watchers struct {
	mu   sync.Mutex
	list []watcher
	some atomic.Bool
}

type watcher struct {
	ctx context.Context //nolint:containedctx // it says until when the watcher wants to hear
	f   func([]haulier.JobChange)
}

// Watch implements haulier.Store.
func (s *Store) Watch(ctx context.Context, f func([]haulier.JobChange)) {
	s.watchers.mu.Lock()
	defer s.watchers.mu.Unlock()
	s.watchers.list = append(s.watchers.list, watcher{ctx, f})
	s.watchers.some.Store(true)
}

// tell calls the watchers. Only the committer does, so they hear of changes in their order.
func (w *watchers) tell(changes []haulier.JobChange) {
	w.mu.Lock()
	alive := make([]watcher, 0, len(w.list))
	for _, x := range w.list {
		if x.ctx.Err() == nil {
			alive = append(alive, x)
		}
	}
	w.list = alive
	w.some.Store(len(alive) > 0)
	w.mu.Unlock()
	for _, x := range alive {
		x.f(changes)
	}
}
