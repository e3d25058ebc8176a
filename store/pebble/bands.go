package pebble

import (
	"slices"

	"github.com/haulier/haulier"
)

// A band's ready jobs stand on disk, in order; the first of them stand in memory
// too, in its window. A claim takes from the window, so it never searches for
// the first job among the tombstones of those before it.
//
//	         reserved          window                on disk only
//	───────┬────────────┬─────────────────────┬──────────────────────►
//	 gone  │  being     │ all entries before  │ bound
//	       │  claimed   │ the bound           │
//
// A job that becomes ready before the bound joins the window; one behind it does not.
// When the window runs low, one scan from the bound onwards fills it up.
type band struct {
	lane     *lane
	rank     byte
	sizes    *windowSizes
	n        int64 // pending jobs, the reserved ones among them
	reserved int64 // jobs that claims under way have taken out of the window
	window   []head
	bound    mark // the window has all entries before it; unless whole
	whole    bool // the window has all entries
	filling  *filling
	changed  bool   // n is to be written
	used     uint64 // when it was last claimed from
}

// head is an entry of a window.
type head struct {
	mark
	stored bool // its status has a record of its own
}

// windowSizes bound the windows, in entries. An entry takes 40 bytes.
type windowSizes struct {
	fill  int    // what a scan adds
	low   int    // fewer: a scan begins while there is time
	most  int    // more: the end is cut off
	total int    // of all windows; more: those of idle bands are dropped
	idle  uint64 // after so many claims from others is a band idle
}

func defaultWindows() windowSizes {
	return windowSizes{fill: 2048, low: 512, most: 8192, total: 1 << 18, idle: 1024}
}

// filling is a scan under way from the bound on. What changes there meanwhile is noted.
type filling struct {
	from  mark
	noted []noted
	done  chan struct{} // closed at the end
	err   error         // of the scan; read it after done
}

type noted struct {
	head
	gone bool
}

func compareHeads(h head, m mark) int { return h.compare(m) }

// covers reports whether m stands in the window's range.
func (b *band) covers(m mark) bool { return b.whole || m.before(b.bound) }

// note tells a scan under way of a change.
func (b *band) note(h head, gone bool) {
	if b.filling != nil && !h.before(b.filling.from) {
		b.filling.noted = append(b.filling.noted, noted{h, gone})
	}
}

// add puts an entry where it belongs, and returns by how much the window grew.
func (b *band) add(h head) int {
	if !b.covers(h.mark) {
		b.note(h, false)
		return 0
	}
	if n := len(b.window); n == 0 || b.window[n-1].before(h.mark) {
		b.window = append(b.window, h)
	} else {
		i, _ := slices.BinarySearchFunc(b.window, h.mark, compareHeads)
		b.window = slices.Insert(b.window, i, h)
	}
	if len(b.window) <= b.sizes.most || b.filling != nil {
		return 1
	}
	return 1 - b.cutTo(b.sizes.fill)
}

// cutTo keeps only the first n entries in memory.
func (b *band) cutTo(n int) (cut int) {
	cut = len(b.window) - n
	b.bound, b.whole = b.window[n].mark, false
	b.window = slices.Clone(b.window[:n])
	return cut
}

// remove takes an entry out that was not reserved, and returns by how much the window shrank.
func (b *band) remove(m mark) int {
	if !b.covers(m) {
		b.note(head{mark: m}, true)
		return 0
	}
	i, found := slices.BinarySearchFunc(b.window, m, compareHeads)
	if !found {
		return 0
	}
	b.window = slices.Delete(b.window, i, i+1)
	return 1
}

// take moves up to n entries out of the window: they are reserved.
func (b *band) take(n int) []head {
	n = min(n, len(b.window))
	out := slices.Clone(b.window[:n])
	if b.window = b.window[n:]; len(b.window) == 0 {
		b.window = nil
	}
	b.reserved += int64(n)
	return out
}

// free is how many jobs no claim has taken yet.
func (b *band) free() int64 { return b.n - b.reserved }

// dry reports whether there are jobs behind the window and n are not in it.
func (b *band) dry(n int) bool {
	return len(b.window) < n && !b.whole && b.free() > int64(len(b.window))
}

// filled ends the scan that found the entries, all: up to the end of the band, and
// returns by how much the window grew. Entries that are reserved stay out.
func (b *band) filled(found []head, all bool, reserved func(haulier.ID) bool) (grown int) {
	f := b.filling
	b.filling = nil
	defer close(f.done)
	if b.whole || b.bound != f.from {
		return 0 // cut meanwhile: what was found is no longer next
	}
	if !all && len(found) == 0 {
		return 0
	}
	b.whole = all
	if !all {
		b.bound = found[len(found)-1].mark
		found = found[:len(found)-1] // the bound itself stays out
	}
	before := len(b.window)
	for _, h := range found {
		if !reserved(h.id) {
			b.window = append(b.window, h)
		}
	}
	for _, c := range f.noted {
		switch {
		case c.gone:
			b.remove(c.mark)
		case b.covers(c.mark):
			b.add(c.head)
		}
	}
	return len(b.window) - before
}

// since is the time of the first job, or an earlier bound.
func (b *band) since() mark {
	if len(b.window) > 0 {
		return b.window[0].mark
	}
	return b.bound
}

func (b *band) name() haulier.Band {
	return haulier.Band{Lane: b.lane.name, Priority: priorityOf(b.rank)}
}
