package etcd

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/haulier/haulier"
)

// joiner makes one transaction of commits that come while others are under way. A lone commit goes at once.
type joiner struct {
	flights sync.WaitGroup

	mu     sync.Mutex // guards what follows
	flying int
	queue  []*waiting
}

// waiting is a commit on its way.
type waiting struct {
	*change
	ctx  context.Context //nolint:containedctx // of the call: one that has ended before the commit goes is left out
	done bool
	err  error
	over chan struct{} // closed when done and err are known
}

// How many transactions are under way at once; and how much is joined, so that an etcd that
// was not told otherwise takes it.
const (
	maxFlights = 2
	joinOps    = 4096
	joinBytes  = 1 << 20
)

// join is change.commit, maybe together with others.
func (s *Store) join(ctx context.Context, w *change) (bool, error) {
	c := &waiting{change: w, ctx: ctx, over: make(chan struct{})}
	j := &s.joiner
	j.mu.Lock()
	j.queue = append(j.queue, c)
	if j.flying < maxFlights {
		j.flying++
		group := s.take()
		j.flights.Go(func() { s.fly(group) })
	}
	j.mu.Unlock()
	select {
	case <-c.over:
		return c.done, c.err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// take takes commits from the queue that may be one transaction: they touch different things. The caller holds the lock.
func (s *Store) take() (group []*waiting) {
	j := &s.joiner
	named := map[string]struct{}{}
	compares, ops, size := 0, 0, 0
	left := j.queue[:0]
	for _, c := range j.queue {
		compares, ops, size = compares+len(c.compares), ops+len(c.ops), size+c.size
		fits := compares <= int(s.most.Load())-branch && ops <= joinOps && size <= joinBytes
		apart := !slices.ContainsFunc(c.names, func(name string) bool { _, twice := named[name]; return twice })
		if len(group) > 0 && !(fits && apart) {
			left = append(left, c)
		} else {
			group = append(group, c)
		}
		for _, name := range c.names { // of what is left, too: it keeps its turn
			named[name] = struct{}{}
		}
	}
	clear(j.queue[len(left):])
	j.queue = left
	return group
}

// fly carries out a group, and then others until none waits.
func (s *Store) fly(group []*waiting) {
	for len(group) > 0 {
		s.carry(group)
		s.joiner.mu.Lock()
		if group = s.take(); len(group) == 0 {
			s.joiner.flying--
		}
		s.joiner.mu.Unlock()
	}
}

func (s *Store) carry(group []*waiting) {
	group = slices.DeleteFunc(group, func(c *waiting) bool {
		if err := c.ctx.Err(); err != nil {
			c.end(false, err)
			return true
		}
		return false
	})
	if len(group) == 0 {
		return
	}
	w := group[0].change
	if len(group) > 1 {
		w = &change{s: s}
		for _, c := range group {
			w.compares = append(w.compares, c.compares...)
			w.ops = append(w.ops, c.ops...)
			w.entry.changes = append(w.entry.changes, c.entry.changes...)
			w.entry.leases = append(w.entry.leases, c.entry.leases...)
			w.entry.tell = w.entry.tell || c.entry.tell
		}
	}
	done, err := w.commit(context.WithoutCancel(group[0].ctx))
	if len(group) > 1 && (!done && err == nil || errors.Is(err, haulier.ErrTooLarge)) {
		for _, c := range group { // nothing was written; who fails shall fail alone
			s.carry([]*waiting{c})
		}
		return
	}
	for _, c := range group {
		c.end(done, err)
	}
}

func (c *waiting) end(done bool, err error) {
	c.done, c.err = done, err
	close(c.over)
}
