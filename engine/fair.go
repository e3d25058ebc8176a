package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/haulier/haulier"
)

// Policy picks the lanes that a claim is served from; the store orders within
// a lane. The engine calls it under one lock.
type Policy interface {
	// Pick chooses up to n jobs from the bands, of which the session may run all.
	Pick(bands []Candidate, n int, now time.Time) []haulier.Take
	// Started tells that n jobs of the band were claimed.
	Started(b haulier.Band, n int)
	// Stopped tells that n jobs of the lane stopped being claimed or running.
	Stopped(l haulier.Lane, n int)
}

// Candidate is a band that a claim may be served from.
type Candidate struct {
	haulier.BandHead
	// Weight is the share of its queue: the queue's own times that which the worker gives it.
	Weight int
}

// Fair serves the higher priority first; among equals the tenants in turn,
// then each tenant's queues by weight, then the queue's lanes in turn. So that
// nothing starves, a band's priority rises by one for each Ageing that its
// first job has waited.
//
// The turns are stride scheduling (Waldspurger and Weihl, 1995): each tenant,
// queue and lane has a pass, which a served job moves on by one over its weight; the
// lowest pass is next. One that was idle starts at the pass of the last served, so that it
// can't save up turns.
type Fair struct {
	ageing time.Duration
	pass   map[fairKey]float64
	clock  map[fairKey]float64 // pass of the child last served, by parent
}

// fairKey names a tenant, a queue of a tenant (with Type and Kind empty) or a lane.
type fairKey struct {
	level int
	lane  haulier.Lane
}

// DefaultAgeing is how long a job waits to rise by one priority.
const DefaultAgeing = time.Minute

// maxPasses bounds what Fair remembers of lanes that have come and gone.
const maxPasses = 100_000

// NewFair returns the policy; ageing zero stands for DefaultAgeing.
func NewFair(ageing time.Duration) *Fair {
	if ageing <= 0 {
		ageing = DefaultAgeing
	}
	return &Fair{ageing: ageing, pass: map[fairKey]float64{}, clock: map[fairKey]float64{}}
}

// Started implements Policy; turns are counted by Pick.
func (f *Fair) Started(haulier.Band, int) {}

// Stopped implements Policy.
func (f *Fair) Stopped(haulier.Lane, int) {}

// contender is a band within one Pick.
type contender struct {
	Candidate
	effective int
	taken     int
	keys      [3]fairKey // tenant, queue, lane
}

// Pick implements Policy.
func (f *Fair) Pick(bands []Candidate, n int, now time.Time) []haulier.Take {
	if len(bands) == 1 {
		return []haulier.Take{{Band: bands[0].Band, N: int(min(int64(n), bands[0].N))}}
	}
	all := make([]contender, len(bands))
	for i, b := range bands {
		all[i] = f.contender(b, now)
	}
	slices.SortStableFunc(all, func(a, b contender) int { return cmp.Compare(b.effective, a.effective) })
	var takes []haulier.Take
	for lo := 0; lo < len(all) && n > 0; {
		hi := lo
		for hi < len(all) && all[hi].effective == all[lo].effective {
			hi++
		}
		n -= f.share(all[lo:hi], n)
		lo = hi
	}
	for _, c := range all {
		if c.taken > 0 {
			takes = append(takes, haulier.Take{Band: c.Band, N: c.taken})
		}
	}
	return takes
}

func (f *Fair) contender(b Candidate, now time.Time) contender {
	age := max(now.Sub(b.Since), 0)
	if b.Since.IsZero() {
		age = 0
	}
	l := b.Lane
	return contender{
		Candidate: b,
		effective: b.Priority + int(age/f.ageing),
		keys: [3]fairKey{
			{0, haulier.Lane{Tenant: l.Tenant}},
			{1, haulier.Lane{Tenant: l.Tenant, Queue: l.Queue}},
			{2, l},
		},
	}
}

// share deals n jobs out among contenders of equal priority, in turns, and returns how many it dealt.
func (f *Fair) share(equals []contender, n int) int {
	if len(f.pass) > maxPasses {
		clear(f.pass)
		clear(f.clock)
	}
	dealt := 0
	// A turn is one job, or more when many are asked for of few lanes.
	turn := max(1, n/(16*len(equals)))
	for n > dealt {
		next := f.next(equals)
		if next == nil {
			break
		}
		k := int(min(int64(turn), int64(n-dealt), next.N-int64(next.taken)))
		next.taken += k
		dealt += k
		f.served(next, k)
	}
	return dealt
}

// next is the contender whose tenant, then queue, then lane has the lowest pass.
func (f *Fair) next(equals []contender) *contender {
	var best *contender
	for i := range equals {
		c := &equals[i]
		if int64(c.taken) < c.N && (best == nil || f.before(c, best)) {
			best = c
		}
	}
	return best
}

func (f *Fair) before(a, b *contender) bool {
	for level := range a.keys {
		if a.keys[level] != b.keys[level] {
			pa, pb := f.passOf(a, level), f.passOf(b, level)
			if pa != pb {
				return pa < pb
			}
			return laneLess(a.Lane, b.Lane)
		}
	}
	return false
}

func (f *Fair) passOf(c *contender, level int) float64 {
	return max(f.pass[c.keys[level]], f.clock[parentOf(c, level)])
}

// parentOf is the key under which a level's clock runs.
func parentOf(c *contender, level int) fairKey {
	if level == 0 {
		return fairKey{level: -1}
	}
	return c.keys[level-1]
}

func (f *Fair) served(c *contender, n int) {
	for level, key := range c.keys {
		weight := 1
		if level == 1 {
			weight = max(c.Weight, 1)
		}
		at := f.passOf(c, level)
		f.clock[parentOf(c, level)] = at
		f.pass[key] = at + float64(n)/float64(weight)
	}
}

func laneLess(a, b haulier.Lane) bool {
	return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Kind, b.Kind)) < 0
}
