package postgres

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/haulier/haulier"
)

// watchers are those who hear of every change.
type watchers struct {
	telling sync.Mutex // held while they are called, one change after the other; taken before mu
	mu      sync.Mutex
	list    []watcher
	some    atomic.Bool
	// meanwhile are the revisions that were told while changes of other servers are read, of which those are no news any more.
	meanwhile map[haulier.ID]uint64
}

// gone is the revision, in meanwhile, of a job that was removed.
const gone = ^uint64(0)

type watcher struct {
	ctx context.Context //nolint:containedctx // it says until when the watcher wants to hear
	f   func([]haulier.JobChange)
}

// Watch implements haulier.Store.
func (s *Store) Watch(ctx context.Context, f func([]haulier.JobChange)) {
	w := &s.watchers
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, watcher{ctx, f})
	w.some.Store(true)
}

// tell calls the watchers with changes of this server.
func (w *watchers) tell(changes []haulier.JobChange) {
	if len(changes) == 0 {
		return
	}
	w.telling.Lock()
	defer w.telling.Unlock()
	if w.meanwhile != nil {
		for i := range changes {
			c := &changes[i]
			if c.Spec == nil {
				continue
			}
			rev := c.Status.Rev
			if c.Status.State == 0 {
				rev = gone
			}
			w.meanwhile[c.Spec.ID] = rev
		}
	}
	w.call(changes)
}

// begin is called before changes of others are read, end when they were told or could not be read.
func (w *watchers) begin() {
	w.telling.Lock()
	defer w.telling.Unlock()
	w.meanwhile = map[haulier.ID]uint64{}
}

func (w *watchers) end() {
	w.telling.Lock()
	defer w.telling.Unlock()
	w.meanwhile = nil
}

// tellOthers calls the watchers with changes of other servers, but for those that were overtaken by changes of this one.
func (w *watchers) tellOthers(changes []haulier.JobChange) {
	w.telling.Lock()
	defer w.telling.Unlock()
	news := changes[:0]
	for _, c := range changes {
		if c.Spec == nil {
			news = append(news, c)
			continue
		}
		rev := c.Status.Rev
		if c.Status.State == 0 {
			rev = gone
		}
		if told, ok := w.meanwhile[c.Spec.ID]; !ok || told < rev {
			news = append(news, c)
		}
	}
	if len(news) > 0 {
		w.call(news)
	}
}

// call calls those watchers that still want to hear. The caller holds telling.
func (w *watchers) call(changes []haulier.JobChange) {
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
