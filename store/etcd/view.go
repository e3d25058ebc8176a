package etcd

import (
	"bytes"
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/haulier/haulier"
)

// view is what is derived from the log.
type view struct {
	now func() time.Time

	mu     sync.Mutex // guards what follows
	at     int64      // revision of the last entry of the log that was applied
	counts map[tally]int64
	bands  map[haulier.Band]*line
	timers *line
	purges *line
	cache  cache
	leases map[haulier.ID]time.Time // when each session expires; the clock's monotonic part counts
}

type tally struct {
	lane  haulier.Lane
	state haulier.State
}

// line is what is known of an index that orders by time and id: a band, the timers, the removals.
// Reading it from its begin would pass all that has gone from there since etcd was last compacted, and count all that is there.
type line struct {
	prefix  string        // of its keys, behind that of all
	n       int64         // entries
	head    string        // no entry comes before; it is what follows prefix, "" when nothing is known
	width   time.Duration // how far a read goes at first
	scans   int           // reads under way
	rivals  int           // how often, of late, others were faster to claim from here
	arrived string        // while there are: the first that has come since they began, "" when none has
}

func newLine(prefix string) *line { return &line{prefix: prefix, width: time.Second} }

func newView(s *Store) *view {
	return &view{
		now:    func() time.Time { return s.clock() },
		counts: map[tally]int64{}, bands: map[haulier.Band]*line{}, leases: map[haulier.ID]time.Time{}, cache: newCache(),
		timers: newLine("timer/"), purges: newLine("purge/"),
	}
}

// add notes an entry at a place of the line.
func (l *line) add(at string) {
	if l.n == 0 && l.scans == 0 || at < l.head {
		l.head = at
	}
	l.n++
	if l.scans > 0 && (l.arrived == "" || at < l.arrived) {
		l.arrived = at
	}
}

// begin announces a read; end follows. The caller holds the view's lock.
func (l *line) begin() {
	if l.scans == 0 {
		l.arrived = ""
	}
	l.scans++
}

// end notes that the read found nothing before a place, when it began.
func (l *line) end(first string) {
	l.scans--
	if l.arrived != "" && l.arrived < first {
		first = l.arrived
	}
	l.head = max(l.head, first)
}

// band is the line of a band, made when there is none. The caller holds the lock.
func (v *view) band(b haulier.Band) *line {
	l := v.bands[b]
	if l == nil {
		l = newLine("ready/" + bandText(b) + "/")
		v.bands[b] = l
	}
	return l
}

// forget drops the lines of bands that are empty. The caller holds the lock.
func (v *view) forget(b haulier.Band) {
	if l := v.bands[b]; l != nil && l.n == 0 && l.scans == 0 {
		delete(v.bands, b)
	}
}

// apply follows an entry of the log; own: it is in full.
func (v *view) apply(e *entry, own bool, revision int64) {
	now := v.now()
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range e.changes {
		c := &e.changes[i]
		lane, after := c.Spec.Lane(), c.Status.State
		v.leave(lane, c.Spec.Priority, c.Before)
		switch {
		case after == haulier.Pending:
			v.band(haulier.Band{Lane: lane, Priority: c.Spec.Priority}).add(timed(c.Status.RunAt, c.Spec.ID))
		case after == haulier.Scheduled:
			v.timers.add(timed(c.Status.RunAt, c.Spec.ID))
		case after.Terminal():
			v.purges.add(timed(c.Status.PurgeAt, c.Spec.ID))
		}
		if after != 0 {
			v.count(lane, after, 1)
		}
		if c.Before == haulier.Pending && after != haulier.Pending {
			v.forget(haulier.Band{Lane: lane, Priority: c.Spec.Priority})
		}
	}
	v.at = revision
	v.cache.follow(e.changes, own, revision)
	for _, l := range e.leases {
		if l.gone {
			delete(v.leases, l.session)
		} else {
			v.leases[l.session] = now.Add(l.ttl)
		}
	}
}

// leave takes a job out of the state in which it was.
func (v *view) leave(lane haulier.Lane, priority int, before haulier.State) {
	switch {
	case before == 0:
		return
	case before == haulier.Pending:
		v.band(haulier.Band{Lane: lane, Priority: priority}).n--
	case before == haulier.Scheduled:
		v.timers.n--
	case before.Terminal():
		v.purges.n--
	}
	v.count(lane, before, -1)
}

func (v *view) count(lane haulier.Lane, s haulier.State, n int64) {
	t := tally{lane, s}
	if v.counts[t] += n; v.counts[t] == 0 {
		delete(v.counts, t)
	}
}

// expired returns the sessions whose lease is over, the first first, and how long the next has to go; -1: there is none.
func (v *view) expired(limit int) (ids []haulier.ID, next time.Duration) {
	type lease struct {
		id haulier.ID
		at time.Time
	}
	now := v.now()
	next = -1
	var over []lease
	v.mu.Lock()
	for id, at := range v.leases {
		left := at.Sub(now)
		if left <= 0 {
			over = append(over, lease{id, at})
		} else if next < 0 || left < next {
			next = left
		}
	}
	v.mu.Unlock()
	slices.SortFunc(over, func(a, b lease) int { return cmp.Or(a.at.Compare(b.at), bytes.Compare(a.id[:], b.id[:])) })
	if len(over) > limit {
		over, next = over[:limit], 0
	}
	for _, l := range over {
		ids = append(ids, l.id)
	}
	return ids, next
}

// tenants are those that have jobs, in order.
func (v *view) tenants() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []string
	for t := range v.counts {
		out = append(out, t.lane.Tenant)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
