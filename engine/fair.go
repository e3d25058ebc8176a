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
}

// Pick implements Policy.
func (f *Fair) Pick(bands []Candidate, n int, now time.Time) []haulier.Take {
	if len(bands) == 1 {
		return []haulier.Take{{Band: bands[0].Band, N: int(min(int64(n), bands[0].N))}}
	}
	all := make([]contender, len(bands))
	for i, b := range bands {
		all[i] = contender{Candidate: b, effective: b.Priority + f.risen(b.Since, now)}
	}
	slices.SortFunc(all, func(a, b contender) int {
		return cmp.Or(cmp.Compare(b.effective, a.effective), a.Lane.Compare(b.Lane), cmp.Compare(b.Priority, a.Priority))
	})
	for lo := 0; lo < len(all) && n > 0; {
		hi := lo
		for hi < len(all) && all[hi].effective == all[lo].effective {
			hi++
		}
		n -= f.share(all[lo:hi], n)
		lo = hi
	}
	var takes []haulier.Take
	for _, c := range all {
		if c.taken > 0 {
			takes = append(takes, haulier.Take{Band: c.Band, N: c.taken})
		}
	}
	return takes
}

// risen is by how much a band's priority has risen with the wait of its first job.
func (f *Fair) risen(since, now time.Time) int {
	if since.IsZero() {
		return 0
	}
	return int(max(now.Sub(since), 0) / f.ageing)
}

// share deals up to n jobs out among contenders of equal priority, in turns, and returns how many it dealt.
func (f *Fair) share(equals []contender, n int) int {
	if len(f.pass) > maxPasses {
		clear(f.pass)
		clear(f.clock)
	}
	root := f.tree(equals)
	dealt := 0
	turn := max(1, n/(16*len(equals))) // more than one job at a time when many are asked for of few lanes
	for n > dealt && root.left > 0 {
		dealt += root.deal(min(turn, n-dealt))
	}
	f.remember(root)
	return dealt
}

// fairNode is a tenant, queue or lane in one share, or the root of them.
type fairNode struct {
	key      fairKey
	weight   int
	pass     float64
	clock    float64 // pass of the child last served
	left     int64   // jobs that can still be taken
	children []*fairNode
	bands    []*contender // of a lane, the higher priority first
}

// tree puts contenders, which are sorted by lane, under their lanes, queues and tenants.
func (f *Fair) tree(equals []contender) *fairNode {
	root := &fairNode{key: fairKey{level: -1}, weight: 1}
	root.clock = f.clock[root.key]
	for i := range equals {
		c := &equals[i]
		at := root
		at.left += c.N
		l := c.Lane
		for level, lane := range [3]haulier.Lane{{Tenant: l.Tenant}, {Tenant: l.Tenant, Queue: l.Queue}, l} {
			at = f.child(at, fairKey{level, lane})
			at.left += c.N
			if level == 1 {
				at.weight = max(c.Weight, 1)
			}
		}
		at.bands = append(at.bands, c)
	}
	return root
}

func (f *Fair) child(parent *fairNode, key fairKey) *fairNode {
	if n := len(parent.children); n > 0 && parent.children[n-1].key == key {
		return parent.children[n-1]
	}
	c := &fairNode{key: key, weight: 1, pass: max(f.pass[key], parent.clock), clock: f.clock[key]}
	parent.children = append(parent.children, c)
	return c
}

// deal takes up to n jobs from the child with the lowest pass, and moves its pass on.
func (n *fairNode) deal(want int) int {
	if len(n.children) == 0 {
		return n.take(want)
	}
	var next *fairNode
	for _, c := range n.children {
		if c.left > 0 && (next == nil || c.pass < next.pass) {
			next = c
		}
	}
	got := next.deal(want)
	n.clock = next.pass
	next.pass += float64(got) / float64(next.weight)
	n.left -= int64(got)
	return got
}

func (n *fairNode) take(want int) int {
	for _, c := range n.bands {
		if k := int(min(int64(want), c.N-int64(c.taken))); k > 0 {
			c.taken += k
			n.left -= int64(k)
			return k
		}
	}
	return 0
}

// remember keeps the passes for the next Pick.
func (f *Fair) remember(n *fairNode) {
	if n.clock != 0 {
		f.clock[n.key] = n.clock
	}
	for _, c := range n.children {
		f.pass[c.key] = c.pass
		f.remember(c)
	}
}
