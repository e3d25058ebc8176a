// Package mem keeps jobs and documents in memory: the plain model of
// haulier.Store, which other drivers are compared with and tests run on.
// Nothing survives the process.
//
// Its clock is time.Now, so that testing/synctest drives it.
package mem

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/haulier/haulier"
)

// Options of a store, for tests.
type Options struct {
	ClaimsLost bool // what Opened says
}

// Store is a haulier.Store in memory. Safe for concurrent use.
type Store struct {
	opening haulier.Opening

	// writing is held by a write until its watchers have heard of it, so that
	// they hear of the writes in their order. It is taken before mu.
	writing sync.Mutex

	mu       sync.RWMutex // guards what follows
	closed   bool
	jobs     map[haulier.ID]*haulier.Job // a job is replaced, never changed
	all      line
	lines    map[place]*line
	counts   map[tally]int64
	docs     map[docKey]haulier.Doc
	leases   map[haulier.ID]time.Time // when each session expires
	watchers []watcher
}

type tally struct {
	lane  haulier.Lane
	state haulier.State
}

type docKey struct {
	kind haulier.DocKind
	key  string
}

type watcher struct {
	ctx context.Context //nolint:containedctx // it says until when the watcher wants to hear
	f   func([]haulier.JobChange)
}

var _ haulier.Store = (*Store)(nil)

// New returns an empty store.
func New() *Store { return Open(Options{}) }

// Open returns an empty store with options.
func Open(o Options) *Store {
	return &Store{
		opening: haulier.Opening{ClaimsLost: o.ClaimsLost},
		jobs:    map[haulier.ID]*haulier.Job{},
		lines:   map[place]*line{},
		counts:  map[tally]int64{},
		docs:    map[docKey]haulier.Doc{},
		leases:  map[haulier.ID]time.Time{},
	}
}

// Watch implements haulier.Store.
func (s *Store) Watch(ctx context.Context, f func([]haulier.JobChange)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers = append(s.watchers, watcher{ctx, f})
}

// tell calls the watchers. The caller holds writing, and not mu.
func (s *Store) tell(changes []haulier.JobChange) {
	if len(changes) == 0 {
		return
	}
	s.mu.Lock()
	alive := make([]watcher, 0, len(s.watchers))
	for _, w := range s.watchers {
		if w.ctx.Err() == nil {
			alive = append(alive, w)
		}
	}
	s.watchers = alive
	s.mu.Unlock()
	for _, w := range alive {
		w.f(changes)
	}
}

// Now implements haulier.Store.
func (s *Store) Now(context.Context) (time.Time, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return time.Now().UTC(), s.open()
}

// Opened implements haulier.Store.
func (s *Store) Opened() haulier.Opening { return s.opening }

// Close implements haulier.Store.
func (s *Store) Close() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// open is the error of a store that was closed. The caller holds mu.
func (s *Store) open() error {
	if s.closed {
		return fmt.Errorf("store in memory: %w: it was closed", haulier.ErrUnavailable)
	}
	return nil
}
