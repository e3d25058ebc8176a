package etcd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/haulier/haulier"
)

// feed watches the key log. In the order of its revisions it brings each entry into the view and tells the watchers; a call
// of this server returns after that has happened to its own.
type feed struct {
	client  *clientv3.Client
	key     string
	view    *view
	log     *slog.Logger
	origin  string // names this opening of the store
	stop    context.CancelFunc
	stopped chan struct{}
	failed  chan struct{} // closed after err was set

	mu       sync.Mutex // guards what follows
	err      error
	at       int64 // revision of the last entry that was told
	calls    uint64
	waiting  map[uint64]*call // calls under way, by number
	awaited  []awaited
	watchers []watcher
}

// call is a commit or claim under way.
type call struct {
	number uint64
	entry  *entry
	told   chan struct{}
}

// awaited is a revision that somebody waits for.
type awaited struct {
	revision int64
	reached  chan struct{}
}

type watcher struct {
	ctx context.Context //nolint:containedctx // it says until when the watcher wants to hear
	f   func([]haulier.JobChange)
}

func newFeed(s *Store) *feed {
	return &feed{
		client: s.client, key: s.prefix + "log", view: s.view, log: s.log, origin: rand.Text()[:12],
		stopped: make(chan struct{}), failed: make(chan struct{}), waiting: map[uint64]*call{},
	}
}

// Watch implements haulier.Store. What other servers changed is told without payloads and results.
func (s *Store) Watch(ctx context.Context, fn func([]haulier.JobChange)) {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	s.feed.watchers = append(s.feed.watchers, watcher{ctx, fn})
}

// begin announces a call, whose entry may come before its answer.
func (f *feed) begin(e *entry) *call {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	c := &call{number: f.calls, entry: e, told: make(chan struct{})}
	f.waiting[c.number] = c
	return c
}

// end follows every begin. Should the call's entry yet come, since its answer was lost, it is told as those of others are.
func (f *feed) end(c *call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.waiting, c.number)
}

// settle waits until a call's entry, of a revision, was told.
func (f *feed) settle(ctx context.Context, c *call, revision int64) error {
	f.mu.Lock()
	lost := revision < f.at
	f.mu.Unlock()
	select {
	case <-c.told:
		return nil
	default:
	}
	if lost { // revisions have begun anew
		f.fail(errMissed)
	}
	return f.wait(ctx, c.told)
}

// lostWait is for how long a call whose answer was lost waits for its entry, until it gives up without knowing.
const lostWait = 2 * time.Second

// hears says whether a call's entry comes.
func (f *feed) hears(ctx context.Context, c *call) bool {
	ctx, cancel := context.WithTimeout(ctx, lostWait)
	defer cancel()
	return f.wait(ctx, c.told) == nil
}

// await waits until the feed has reached a revision of the log.
func (f *feed) await(ctx context.Context, revision int64) error {
	f.mu.Lock()
	if f.at >= revision {
		f.mu.Unlock()
		return nil
	}
	a := awaited{revision, make(chan struct{})}
	f.awaited = append(f.awaited, a)
	f.mu.Unlock()
	return f.wait(ctx, a.reached)
}

// tellTimeout bounds the wait for what etcd has to tell of a revision that it has.
const tellTimeout = 30 * time.Second

func (f *feed) wait(ctx context.Context, reached <-chan struct{}) error {
	t := time.NewTimer(tellTimeout)
	defer t.Stop()
	select {
	case <-reached:
		return nil
	case <-f.failed:
		return f.failure()
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return fmt.Errorf("etcd: %w: it has not told of what was changed for %v; can it be reached?", haulier.ErrUnavailable, tellTimeout)
	}
}

// start watches from behind a revision, until close.
func (f *feed) start(revision int64) {
	ctx, stop := context.WithCancel(context.Background())
	f.stop, f.at = stop, revision
	go func() {
		defer close(f.stopped)
		if err := f.run(ctx); err != nil {
			f.fail(err)
		}
	}()
}

func (f *feed) close() {
	f.stop()
	<-f.stopped
}

func (f *feed) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return
	}
	f.log.Error("changes were missed", "err", err)
	f.err = err
	close(f.failed)
}

func (f *feed) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// Between attempts to watch again there are pauses, each longer.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
)

// errMissed ends the feed: the history of the log does not go on where it was left.
var errMissed = fmt.Errorf("etcd: %w: changes of others were missed, since this server was cut off for longer than etcd keeps history, or etcd has lost data; "+
	"open the store again", haulier.ErrUnavailable)

// run watches until ctx ends, which is no error.
func (f *feed) run(ctx context.Context) error {
	pause := firstPause
	for {
		before := f.at
		err := f.follow(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errMissed) || errors.Is(err, haulier.ErrCorrupt):
			return err
		case f.at != before:
			pause = firstPause
		}
		f.log.Warn("the watch was cut", "err", err, "again_in", pause)
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
		pause = min(2*pause, lastPause)
	}
}

// follow watches until the watch is cut. A member that has lost its leader would keep silent, so it is left.
func (f *feed) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for r := range f.client.Watch(ctx, f.key, clientv3.WithRev(f.at+1)) {
		if r.CompactRevision != 0 {
			return errMissed
		}
		if err := r.Err(); err != nil {
			return translate(ctx, err)
		}
		for _, e := range r.Events {
			if e.Type != mvccpb.PUT {
				return errMissed // somebody has removed it
			}
			if err := f.tell(e.Kv); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("etcd: %w: the watch has ended", haulier.ErrUnavailable)
}

// tell brings an entry to whom it concerns.
func (f *feed) tell(kv *mvccpb.KeyValue) error {
	c := cutter{rest: kv.Value}
	origin, number := c.by()
	f.mu.Lock()
	var own *call
	if origin == f.origin {
		own = f.waiting[number]
	}
	alive := make([]watcher, 0, len(f.watchers))
	for _, w := range f.watchers {
		if w.ctx.Err() == nil {
			alive = append(alive, w)
		}
	}
	f.watchers = alive
	f.mu.Unlock()
	var e *entry
	if own != nil {
		e = own.entry
	} else {
		other, err := c.entry()
		if err != nil {
			return fmt.Errorf("log at revision %d: %w", kv.ModRevision, err)
		}
		e = &other
	}
	f.view.apply(e, own != nil, kv.ModRevision)
	if news := e.news(); len(news) > 0 {
		for _, w := range alive {
			w.f(news)
		}
	}
	f.reach(kv.ModRevision)
	if own != nil {
		close(own.told)
	}
	return nil
}

// reach moves on to a revision, and wakes those who wait for it.
func (f *feed) reach(revision int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = revision
	left := f.awaited[:0]
	for _, a := range f.awaited {
		if a.revision <= revision {
			close(a.reached)
		} else {
			left = append(left, a)
		}
	}
	clear(f.awaited[len(left):])
	f.awaited = left
}
