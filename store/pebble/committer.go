package pebble

import (
	"context"
	"fmt"
	"sync"

	pdb "github.com/cockroachdb/pebble/v2"

	"github.com/haulier/haulier"
)

// How a commit goes:
//
//	caller      encodes its writes, reads the jobs it changes, queues up
//	committer   takes all that wait, checks and applies them in memory, writes them as
//	            one Pebble batch: visible. Tells the watchers. Goes on with the next group.
//	writer      waits until the group's bytes are with the operating system, wakes
//	            the callers that need no more
//	syncer      syncs the log once for all groups that arrived meanwhile, wakes the rest
//
// Each step works on a later group while the next one is busy with an earlier.

// queue holds the requests that wait for the committer.
type queue struct {
	mu     sync.Mutex
	list   []*request
	closed bool
	wake   chan struct{}
}

func (q *queue) add(r *request) {
	q.mu.Lock()
	q.list = append(q.list, r)
	q.mu.Unlock()
	q.ring()
}

func (q *queue) ring() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take waits for requests and returns all of them; false: the queue was closed and is empty.
func (q *queue) take(old []*request) ([]*request, bool) {
	for {
		q.mu.Lock()
		list, closed := q.list, q.closed
		q.list = old[:0]
		q.mu.Unlock()
		if len(list) > 0 || closed {
			return list, len(list) > 0
		}
		old = list
		<-q.wake
	}
}

func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.ring()
}

var requests = sync.Pool{New: func() any { return &request{done: make(chan error, 1)} }}

func (s *Store) newRequest() *request {
	r := requests.Get().(*request)
	r.watched = s.watchers.some.Load()
	return r
}

// recycle keeps the request for the next call. Nobody else may know it any more.
func (r *request) recycle() {
	r.ops.reset()
	clear(r.lanes)
	clear(r.jobs)
	clear(r.olds)
	*r = request{ops: r.ops, done: r.done, lanes: r.lanes[:0], jobs: r.jobs[:0], olds: r.olds[:0]}
	requests.Put(r)
}

// submit hands the request to the committer and waits for its result.
func (s *Store) submit(ctx context.Context, r *request) error {
	if err := s.fault.check(); err != nil {
		return err
	}
	s.queue.add(r)
	select {
	case err := <-r.done:
		r.recycle()
		return err
	case <-ctx.Done():
		return fmt.Errorf("what was asked may still be carried out: %w", ctx.Err())
	case <-s.fault.done:
		return s.fault.err
	}
}

// group is what one Pebble batch makes of the requests that waited.
type group struct {
	ops      ops
	plain    []*request // to be woken when written
	synced   []*request // to be woken when synced
	refused  []refusal  // to be told when what stood in their way is visible
	inserted map[haulier.ID]struct{}
	docs     map[string]docFacts // as the group leaves them
	lowered  []*lowWater
}

// refusal is a request that was not carried out.
type refusal struct {
	r   *request
	err error
}

// flight is a group on its way to the disk.
type flight struct {
	batch         *pdb.Batch
	plain, synced []*request
}

// groupBytes ends a group; what waits beyond it is for the next.
const groupBytes = 4 << 20

func (g *group) forget(jobs []haulier.Job) {
	for i := range jobs {
		delete(g.inserted, jobs[i].ID)
	}
}

func (g *group) reset() {
	g.ops.reset()
	g.plain, g.synced = nil, nil
	clear(g.refused)
	g.refused = g.refused[:0]
	clear(g.inserted)
	clear(g.docs)
	clear(g.lowered)
	g.lowered = g.lowered[:0]
}

// runCommitter is the committer. It ends when the queue is closed, or Pebble ends it.
func (s *Store) runCommitter() {
	defer close(s.flights)
	defer func() {
		if r := recover(); r != nil {
			s.fault.stop(fmt.Errorf("%v", r))
		}
	}()
	g := &group{inserted: map[haulier.ID]struct{}{}, docs: map[string]docFacts{}}
	var list []*request
	for {
		var ok bool
		if list, ok = s.queue.take(list); !ok {
			return
		}
		for rest := list; len(rest) > 0; {
			n := s.build(g, rest)
			if err := s.apply(g); err != nil {
				s.fault.fail(err)
				return // callers that wait learn it from the fault
			}
			for _, x := range g.refused {
				x.r.done <- x.err
			}
			g.reset()
			rest = rest[n:]
		}
		clear(list)
	}
}

// build carries requests out in memory, until the group is large enough, and
// returns how many. It begins with the scans: now disk and memory agree.
func (s *Store) build(g *group, list []*request) int {
	for _, r := range list {
		if r.fill != nil && !r.begun {
			r.begun = true
			s.scan(r.fill)
		}
	}
	for i, r := range list {
		var err error
		switch {
		case r.fill != nil:
			continue
		case r.claim != nil:
			err = s.commitClaim(r, g)
		default:
			err = s.commit(r, g)
		}
		switch {
		case err != nil:
			g.refused = append(g.refused, refusal{r, err})
		case r.sync && s.durability == Sync:
			g.synced = append(g.synced, r)
		default:
			g.plain = append(g.plain, r)
		}
		if g.ops.size() > groupBytes {
			return i + 1
		}
	}
	return len(list)
}

// apply makes the group visible, tells the watchers and sends the group on its way.
func (s *Store) apply(g *group) error {
	if len(g.plain)+len(g.synced) == 0 {
		return nil
	}
	s.mu.Lock()
	s.lanes.write(&g.ops)
	s.mu.Unlock()
	f := flight{plain: g.plain, synced: g.synced}
	if g.ops.n > 0 {
		var err error
		if f.batch, err = g.ops.batch(s.db); err != nil {
			return err
		}
	}
	if err := s.show(g, &f); err != nil {
		return err
	}
	s.tellGroup(&f)
	s.flights <- f
	return nil
}

// show makes the group visible on disk and in memory.
func (s *Store) show(g *group, f *flight) error {
	s.showing.Lock()
	defer s.showing.Unlock()
	if f.batch != nil {
		if err := s.db.ApplyNoSyncWait(f.batch, pdb.Sync); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation++
	for _, w := range g.lowered {
		w.fresh = lastMark
	}
	s.cache.visible()
	s.shrink()
	return nil
}

// shown ends a read: what it saw on disk, who reads next must find in memory, too.
func (s *Store) shown() {
	s.showing.RLock()
	defer s.showing.RUnlock()
}

func (s *Store) tellGroup(f *flight) {
	if !s.watchers.some.Load() {
		return
	}
	for _, list := range [][]*request{f.plain, f.synced} {
		for _, r := range list {
			if len(r.changes) > 0 {
				s.watchers.tell(r.changes)
			}
		}
	}
}

// runWriter is the writer. It ends when the committer has.
func (s *Store) runWriter() {
	defer close(s.unsynced)
	for f := range s.flights {
		if f.batch != nil {
			err := f.batch.SyncWait()
			f.batch.Close()
			if err != nil {
				s.fault.fail(err)
				continue
			}
		}
		if s.fault.check() != nil {
			continue // the callers know
		}
		for _, r := range f.plain {
			r.done <- nil
		}
		if len(f.synced) > 0 {
			s.unsynced <- f.synced
		}
	}
}

// runSyncer is the syncer. It ends when the writer has.
func (s *Store) runSyncer() {
	var lists [][]*request
	for list := range s.unsynced {
		lists = append(lists[:0], list)
		for more := true; more; {
			select {
			case list, ok := <-s.unsynced:
				if more = ok; ok {
					lists = append(lists, list)
				}
			default:
				more = false
			}
		}
		if err := s.wal.sync(); err != nil {
			s.fault.fail(err)
			continue
		}
		for _, list := range lists {
			for _, r := range list {
				r.done <- nil
			}
		}
	}
}
