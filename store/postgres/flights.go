package postgres

import (
	"math"
	"slices"
	"sync"

	"github.com/haulier/haulier"
)

// flights are the transactions under way. They bring what they changed to the watchers in the order in which the database carried them
// out, as far as they have jobs in common: their numbers, drawn by each when it holds its rows, say that order.
type flights struct {
	mu   sync.Mutex
	cond sync.Cond
	list []*flight
}

// flight is one transaction.
type flight struct {
	claim bool         // which jobs it changes is known only when it has ended
	fresh bool         // it only adds jobs, which nothing can have changed before
	ids   []haulier.ID // of the jobs that it changes
	seq   int64        // zero: not yet known
	over  bool
}

func newFlights() *flights {
	f := &flights{}
	f.cond.L = &f.mu
	return f
}

func (f *flights) begin(fl *flight) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, fl)
	return fl
}

// turn waits until all that changed the same jobs, ids, before has been told. Each of those ends by itself.
func (f *flights) turn(fl *flight, seq int64, ids []haulier.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl.seq, fl.ids = seq, ids
	f.cond.Broadcast()
	if fl.fresh || len(ids) == 0 {
		return
	}
	mine := make(map[haulier.ID]bool, len(fl.ids))
	for _, id := range fl.ids {
		mine[id] = true
	}
	for _, other := range slices.Clone(f.list) { // what begins now comes after
		for other != fl && !other.over && other.precedes(fl, mine) {
			f.cond.Wait()
		}
	}
}

// settle waits until all that is under way here and may have changed the jobs has been told.
func (f *flights) settle(ids []haulier.ID) { f.turn(&flight{}, math.MaxInt64, ids) }

// precedes says whether o may have changed one of fl's jobs before it.
func (o *flight) precedes(fl *flight, mine map[haulier.ID]bool) bool {
	switch {
	case o.seq > fl.seq:
		return false
	case o.seq == 0 && o.claim:
		return !fl.claim // what two claims have in common, a commit between them gave back
	}
	return slices.ContainsFunc(o.ids, func(id haulier.ID) bool { return mine[id] })
}

func (f *flights) end(fl *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl.over = true
	f.list = slices.DeleteFunc(f.list, func(o *flight) bool { return o == fl })
	f.cond.Broadcast()
}
