package postgres

import (
	"bytes"
	"sync"
	"time"

	"github.com/haulier/haulier"
)

// A line is what orders by time and id: a band of pending jobs, the timers, or the jobs to be removed.
type line struct {
	spot int16 // that of pending, of scheduled, or spotDone
	lane int32 // of a band
	rank int16 // of a band
}

var (
	timerLine = line{spot: spotTimer}
	purgeLine = line{spot: spotDone}
)

// place in a line.
type place struct {
	at time.Time
	id haulier.ID
}

func (p place) before(q place) bool {
	if c := p.at.Compare(q.at); c != 0 {
		return c < 0
	}
	return bytes.Compare(p.id[:], q.id[:]) < 0
}

// endOfTime stands behind all places.
var endOfTime = place{at: time.Date(200000, 1, 1, 0, 0, 0, 0, time.UTC)}

// floors are lower bounds of the first place of each line. Entries of jobs that have gone stay in an index until it is
// vacuumed, and a look for the first that passed over them all would take ever longer; looks begin at the floor.
//
// A look raises the floor to the first place that it saw, be that of a job which somebody else is about to take. What enters a line
// before its floor lowers it: commits of this server before they return, those of others when they are heard of. While
// nobody listens to the others, there are no floors.
type floors struct {
	mu     sync.Mutex
	deaf   bool
	byLine map[line]*floor
}

type floor struct {
	place   place
	known   bool
	lookers []*looker
}

// looker is a look under way. What enters meanwhile it may not have seen.
type looker struct {
	line  line
	floor *floor
	enter place
}

func newFloors() *floors { return &floors{deaf: true, byLine: map[line]*floor{}} }

// look begins a look at a line, and returns where it may begin; false: at the line's begin.
func (f *floors) look(l line) (*looker, place, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl := f.byLine[l]
	if fl == nil {
		fl = &floor{}
		f.byLine[l] = fl
	}
	k := &looker{line: l, floor: fl, enter: endOfTime}
	fl.lookers = append(fl.lookers, k)
	return k, fl.place, fl.known
}

// end ends a look that has seen the first place of its line.
func (f *floors) end(k *looker, first place) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.drop(k) || f.deaf {
		return
	}
	if k.enter.before(first) {
		first = k.enter
	}
	k.floor.place, k.floor.known = first, true
	f.byLine[k.line] = k.floor
}

// abandon ends a look that has seen nothing.
func (f *floors) abandon(k *looker) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop(k)
}

// drop takes a look out of its line's, and says whether it was among them.
func (f *floors) drop(k *looker) bool {
	for i, other := range k.floor.lookers {
		if other == k {
			k.floor.lookers = append(k.floor.lookers[:i], k.floor.lookers[i+1:]...)
			if len(k.floor.lookers) == 0 && !k.floor.known && f.byLine[k.line] == k.floor {
				delete(f.byLine, k.line)
			}
			return true
		}
	}
	return false
}

// entered lowers the floor of a line that a job has entered, or has moved in.
func (f *floors) entered(l line, p place) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl := f.byLine[l]
	if fl == nil {
		return
	}
	if fl.known && p.before(fl.place) {
		fl.place = p
	}
	for _, k := range fl.lookers {
		if p.before(k.enter) {
			k.enter = p
		}
	}
}

// hear says whether others are listened to. Either way it begins without floors.
func (f *floors) hear(others bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deaf = !others
	f.forget()
}

// reset removes all floors.
func (f *floors) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget()
}

func (f *floors) forget() {
	for l, fl := range f.byLine {
		fl.known, fl.lookers = false, nil // looks under way see too little
		delete(f.byLine, l)
	}
}

// bands are the bands that have floors.
func (f *floors) bands() (lines []line) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for l, fl := range f.byLine {
		if l.spot == spotPending && fl.known {
			lines = append(lines, l)
		}
	}
	return lines
}
