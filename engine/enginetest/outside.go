package enginetest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haulier/haulier"
)

// Driver is a store on a server that is no part of the test's process.
type Driver struct {
	haulier.Store
	// SetClock makes the store take its time from the function instead of the server.
	SetClock func(now func() time.Time)
}

// RunOutside runs the suite over a store whose server does not know of the time that testing/synctest makes: the
// store's calls are carried out outside of the bubble, where they take real time while that of the test stands still.
func RunOutside(t *testing.T, open func(t *testing.T) Driver) {
	all(t, func(t *testing.T, b behaviour) {
		o := newOutside(t, open(t))
		synctest.Test(t, func(t *testing.T) {
			h := start(t, o)
			defer h.stop()
			b.check(t, h)
		})
	})
}

// outside is a store whose calls are carried out by goroutines that are not of the bubble. What passes in and out is no
// channel, context or timer of the bubble, which those may not touch.
type outside struct {
	store haulier.Store
	calls chan func()  // taken by a goroutine outside
	at    atomic.Int64 // the time in the bubble, in nanoseconds

	writes  atomic.Int64 // begun and ended
	quiet   sync.Mutex
	nothing haulier.Due // the last answer of Due, which was that nothing is due
	settled int64       // what writes was then; negative: there is no such answer
	pages   map[page][]haulier.Doc
	paged   int64 // what writes was when they were read
	bands   []haulier.BandHead
	banded  int64 // what writes was when they were read; negative: never

	queue    sync.Mutex
	changes  [][]haulier.JobChange // to be told within the bubble
	telling  sync.Mutex
	watchers []watcher
}

type watcher struct {
	over func() bool
	f    func([]haulier.JobChange)
}

// slow bounds a call of a store, in real time.
const slow = time.Minute

func newOutside(t *testing.T, d Driver) *outside {
	o := &outside{store: d.Store, calls: make(chan func()), settled: -1, banded: -1}
	d.SetClock(func() time.Time { return time.Unix(0, o.at.Load()) })
	ctx, stop := context.WithCancel(context.Background())
	d.Watch(ctx, func(changes []haulier.JobChange) {
		o.queue.Lock()
		defer o.queue.Unlock()
		o.changes = append(o.changes, append([]haulier.JobChange(nil), changes...))
	})
	var wg sync.WaitGroup
	wg.Go(func() {
		for f := range o.calls {
			wg.Go(f)
		}
	})
	t.Cleanup(func() {
		close(o.calls)
		wg.Wait()
		stop()
		if err := d.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	return o
}

// do carries out a call outside, and tells what it changed. A goroutine that waits for a
// mutex does not let the bubble's time pass.
func (o *outside) do(f func(ctx context.Context)) {
	o.at.Store(time.Now().UnixNano())
	var done sync.Mutex
	done.Lock()
	o.calls <- func() {
		defer done.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), slow)
		defer cancel()
		f(ctx)
	}
	done.Lock() // when the call is over
	o.tell()
	done.Unlock()
}

func (o *outside) tell() {
	o.telling.Lock()
	defer o.telling.Unlock()
	o.queue.Lock()
	all := o.changes
	o.changes = nil
	o.queue.Unlock()
	for _, changes := range all {
		for _, w := range o.watchers {
			if !w.over() {
				w.f(changes)
			}
		}
	}
}

// Watch implements haulier.Store.
func (o *outside) Watch(ctx context.Context, f func([]haulier.JobChange)) {
	o.telling.Lock()
	defer o.telling.Unlock()
	o.watchers = append(o.watchers, watcher{func() bool { return ctx.Err() != nil }, f})
}

// Close implements haulier.Store. The store itself is closed when the bubble is over.
func (o *outside) Close() error { return nil }

// Opened implements haulier.Store. The tests say themselves when there is more than one server; one alone need not look for others.
func (o *outside) Opened() haulier.Opening {
	return haulier.Opening{ClaimsLost: o.store.Opened().ClaimsLost}
}

// Commit implements haulier.Store.
func (o *outside) Commit(_ context.Context, b *haulier.Batch) (err error) {
	o.write(func(ctx context.Context) { err = o.store.Commit(ctx, b) })
	return err
}

// Claim implements haulier.Store.
func (o *outside) Claim(_ context.Context, session haulier.ID, by string, takes []haulier.Take) (jobs []haulier.Job, err error) {
	o.write(func(ctx context.Context) { jobs, err = o.store.Claim(ctx, session, by, takes) })
	return jobs, err
}

// Bands implements haulier.Store. It is not asked again while nothing is written, as Due.
func (o *outside) Bands(context.Context) (bands []haulier.BandHead, err error) {
	o.quiet.Lock()
	defer o.quiet.Unlock()
	before := o.writes.Load()
	if o.banded == before {
		return slices.Clone(o.bands), nil
	}
	o.do(func(ctx context.Context) { bands, err = o.store.Bands(ctx) })
	if err == nil && before == o.writes.Load() {
		o.bands, o.banded = slices.Clone(bands), before
	}
	return bands, err
}

// Due implements haulier.Store. While nothing is written and nothing falls due, it is not asked again: that days pass would take hours.
func (o *outside) Due(_ context.Context, limit int) (due haulier.Due, err error) {
	o.quiet.Lock()
	defer o.quiet.Unlock()
	if o.settled == o.writes.Load() && (o.nothing.Next.IsZero() || time.Now().Before(o.nothing.Next)) {
		return o.nothing, nil
	}
	o.settled = -1
	before := o.writes.Load()
	o.do(func(ctx context.Context) { due, err = o.store.Due(ctx, limit) })
	if err == nil && len(due.Timers)+len(due.Sessions)+len(due.Purge) == 0 {
		o.nothing, o.settled = due, before
	}
	return due, err
}

// write is do for a call that may change what is due.
func (o *outside) write(f func(ctx context.Context)) {
	o.writes.Add(1)
	defer o.writes.Add(1)
	o.do(f)
}

// Jobs implements haulier.Store.
func (o *outside) Jobs(_ context.Context, ids []haulier.ID) (jobs []*haulier.Job, err error) {
	o.do(func(ctx context.Context) { jobs, err = o.store.Jobs(ctx, ids) })
	return jobs, err
}

// List implements haulier.Store.
func (o *outside) List(_ context.Context, q haulier.Query) (p haulier.Page, err error) {
	o.do(func(ctx context.Context) { p, err = o.store.List(ctx, q) })
	return p, err
}

// Counts implements haulier.Store.
func (o *outside) Counts(context.Context) (counts []haulier.Count, err error) {
	o.do(func(ctx context.Context) { counts, err = o.store.Counts(ctx) })
	return counts, err
}

// Doc implements haulier.Store.
func (o *outside) Doc(_ context.Context, kind haulier.DocKind, key string) (d haulier.Doc, err error) {
	o.do(func(ctx context.Context) { d, err = o.store.Doc(ctx, kind, key) })
	return d, err
}

// page is a call of Docs.
type page struct {
	kind          haulier.DocKind
	prefix, after string
	limit         int
}

// Docs implements haulier.Store. It asks the store once for each page while nothing is written, as Due does.
func (o *outside) Docs(_ context.Context, kind haulier.DocKind, prefix, after string, limit int) (docs []haulier.Doc, err error) {
	o.quiet.Lock()
	defer o.quiet.Unlock()
	before := o.writes.Load()
	if o.pages == nil || o.paged != before {
		o.pages, o.paged = map[page][]haulier.Doc{}, before
	}
	p := page{kind, prefix, after, limit}
	if known, ok := o.pages[p]; ok {
		return slices.Clone(known), nil
	}
	o.do(func(ctx context.Context) { docs, err = o.store.Docs(ctx, kind, prefix, after, limit) })
	if err == nil {
		o.pages[p] = slices.Clone(docs)
	}
	return docs, err
}

// Renew implements haulier.Store.
func (o *outside) Renew(_ context.Context, session haulier.ID, ttl time.Duration) (err error) {
	o.write(func(ctx context.Context) { err = o.store.Renew(ctx, session, ttl) })
	return err
}

// Now implements haulier.Store: it is the time that the store was given.
func (o *outside) Now(context.Context) (time.Time, error) {
	return time.Now().UTC().Truncate(time.Microsecond), nil
}
