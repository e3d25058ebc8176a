package pebble

import (
	"container/heap"
	"sync"
	"time"

	"github.com/haulier/haulier"
)

// leases are the sessions and when each expires, on the process's monotonic
// clock. They are kept in memory: a store that is opened again gives each its full lease.
type leases struct {
	mu   sync.Mutex
	byID map[haulier.ID]*lease
	next leaseHeap
}

type lease struct {
	id      haulier.ID
	expires time.Time
	place   int // in the heap
}

func newLeases() *leases { return &leases{byID: map[haulier.ID]*lease{}} }

// set begins or renews a lease.
func (l *leases) set(id haulier.ID, expires time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := l.byID[id]; old != nil {
		old.expires = expires
		heap.Fix(&l.next, old.place)
		return
	}
	x := &lease{id: id, expires: expires}
	l.byID[id] = x
	heap.Push(&l.next, x)
}

// renew sets the lease of a session that exists.
func (l *leases) renew(id haulier.ID, expires time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.byID[id]
	if x == nil {
		return false
	}
	x.expires = expires
	heap.Fix(&l.next, x.place)
	return true
}

func (l *leases) drop(id haulier.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x := l.byID[id]; x != nil {
		delete(l.byID, id)
		heap.Remove(&l.next, x.place)
	}
}

func (l *leases) has(id haulier.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byID[id] != nil
}

// expired returns up to limit sessions whose lease has ended, the earliest
// first, and when the next one after them ends; zero when there is none.
func (l *leases) expired(now time.Time, limit int) (ids []haulier.ID, next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*lease
	for len(l.next) > 0 && len(out) < limit && !l.next[0].expires.After(now) {
		out = append(out, heap.Pop(&l.next).(*lease))
	}
	if len(l.next) > 0 {
		next = l.next[0].expires
	}
	for _, x := range out { // they stay until their document is removed
		ids = append(ids, x.id)
		heap.Push(&l.next, x)
	}
	return ids, next
}

// leaseHeap has the lease that ends first at its top.
type leaseHeap []*lease

func (h leaseHeap) Len() int           { return len(h) }
func (h leaseHeap) Less(i, k int) bool { return h[i].expires.Before(h[k].expires) }
func (h leaseHeap) Swap(i, k int) {
	h[i], h[k] = h[k], h[i]
	h[i].place, h[k].place = i, k
}

// Push implements heap.Interface.
func (h *leaseHeap) Push(x any) {
	v := x.(*lease)
	v.place = len(*h)
	*h = append(*h, v)
}

// Pop implements heap.Interface.
func (h *leaseHeap) Pop() any {
	old := *h
	v := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return v
}
