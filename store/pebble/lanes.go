package pebble

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/haulier/haulier"
)

// lane is a lane that has or had jobs: its number in keys, its counters and its bands.
type lane struct {
	id      uint32
	name    haulier.Lane
	saved   bool // its names are on disk
	counts  [len(states)]int64
	changed uint16 // bits of the states whose count is to be written
	bands   map[byte]*band
	done    [haulier.Collapsed - haulier.Succeeded + 1]lowWater // of its terminal jobs; see shelf
}

// shelf is the low water of the lane's jobs in a terminal state.
func (l *lane) shelf(s haulier.State) *lowWater { return &l.done[s-haulier.Succeeded] }

// empty reports whether the lane has no jobs.
func (l *lane) empty() bool { return l.counts == [len(states)]int64{} }

// states only lends its length: one more than the last state.
var states [haulier.Collapsed + 1]struct{}

// lanes are all lanes by name and number. Store.mu guards them.
type lanes struct {
	byName  map[haulier.Lane]*lane
	byID    map[uint32]*lane
	last    uint32
	changed []*lane // with counters or names to be written
}

func newLanes() lanes {
	return lanes{byName: map[haulier.Lane]*lane{}, byID: map[uint32]*lane{}}
}

// of returns the lane with the name, which is new if need be.
func (ls *lanes) of(name haulier.Lane) *lane {
	if l := ls.byName[name]; l != nil {
		return l
	}
	ls.last++
	return ls.add(ls.last, name)
}

func (ls *lanes) add(id uint32, name haulier.Lane) *lane {
	l := &lane{id: id, name: name, bands: map[byte]*band{}}
	for i := range l.done {
		l.done[i] = newLowWater()
	}
	ls.byName[name], ls.byID[id] = l, l
	ls.last = max(ls.last, id)
	return l
}

// drop forgets a lane.
func (ls *lanes) drop(l *lane) {
	delete(ls.byName, l.name)
	delete(ls.byID, l.id)
}

// count changes the number of jobs in a state.
func (ls *lanes) count(l *lane, s haulier.State, delta int64) {
	if l.changed == 0 {
		ls.changed = append(ls.changed, l)
	}
	l.counts[s] += delta
	l.changed |= 1 << s
}

// write appends the names and counters that changed since the last time. The
// counters are absolute, so that one write a group of commits keeps them.
func (ls *lanes) write(o *ops) {
	var room [16]byte
	var value [binary.MaxVarintLen64]byte
	for _, l := range ls.changed {
		if !l.saved {
			o.set(binary.BigEndian.AppendUint32(append(room[:0], spaceLane), l.id), appendLane(nil, l.name))
			l.saved = true
		}
		for left := l.changed; left != 0; left &= left - 1 {
			s := bits.TrailingZeros16(left)
			key := append(binary.BigEndian.AppendUint32(append(room[:0], spaceCount), l.id), byte(s))
			o.set(key, binary.AppendUvarint(value[:0], uint64(l.counts[s])))
		}
		l.changed = 0
		for rank, b := range l.bands {
			if !b.changed {
				continue
			}
			b.changed = false
			key := append(binary.BigEndian.AppendUint32(append(room[:0], spaceBand), l.id), rank)
			o.set(key, binary.AppendUvarint(value[:0], uint64(b.n)))
		}
	}
	ls.changed = ls.changed[:0]
}

// A lane's record is its four names, each with its length before it, and at the end what its jobs ask of a worker, if anything.

func appendLane(b []byte, l haulier.Lane) []byte {
	for _, s := range []string{l.Tenant, l.Queue, l.Type, string(l.Kind)} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	return append(b, l.RunsOn...)
}

func parseLane(b []byte) (haulier.Lane, error) {
	var names [4]string
	for i := range names {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return haulier.Lane{}, fmt.Errorf("lane: %w", haulier.ErrCorrupt)
		}
		names[i] = string(b[n : n+int(size)])
		b = b[n+int(size):]
	}
	return haulier.Lane{Tenant: names[0], Queue: names[1], Type: names[2], Kind: haulier.Kind(names[3]), RunsOn: string(b)}, nil
}

// lowWater remembers below which mark an index has no entries, so that a scan
// need not walk over the tombstones of all that was there. Store.mu guards it.
type lowWater struct {
	low   mark // nothing stands before it
	added mark // the least that was added since the scan that is under way began
	fresh mark // the least that was added and is not yet visible to a scan
}

func newLowWater() lowWater {
	return lowWater{low: firstMark, added: lastMark, fresh: lastMark}
}

func (w *lowWater) add(m mark) {
	for _, at := range []*mark{&w.low, &w.added, &w.fresh} {
		if m.before(*at) {
			*at = m
		}
	}
}

// begin starts a scan at the returned mark. One scan runs at a time.
func (w *lowWater) begin() mark {
	w.added = w.fresh
	return w.low
}

// end says what stood first.
func (w *lowWater) end(first mark) {
	w.low = first
	if w.added.before(first) {
		w.low = w.added
	}
}
