package pebble

import (
	"github.com/haulier/haulier"
)

// cache keeps the jobs that changed last, so that a report finds the job of its
// claim without a read. It also settles races: it has every change of the newest
// generations whole, so what was read from disk is still true when the job is
// not in the cache and the reading began after the last change that it dropped.
// Store.mu guards it. Jobs in it are never changed, only replaced.
type cache struct {
	byID    map[haulier.ID]*entry
	newest  entry // ring: newest.next is the newest, newest.prev the oldest
	bytes   int
	limit   int
	dropped uint64   // the newest generation of which a change was dropped
	fresh   []*entry // with changes that are not yet visible
}

// entry is a job as its newest change left it; nil: it was removed.
type entry struct {
	id         haulier.ID
	job        *haulier.Job
	lane       *lane
	generation uint64 // of the change
	// Until the change is visible, readers get the job as it was before, when
	// known; else it was in no session, and stands on disk.
	before     *haulier.Job
	known      bool
	bytes      int
	prev, next *entry
}

func newCache(limit int) cache { return cache{byID: map[haulier.ID]*entry{}, limit: limit} }

// put records a change. before is the job as it was, if that is known.
func (c *cache) put(id haulier.ID, j *haulier.Job, l *lane, generation uint64, before *haulier.Job, known bool) {
	e := c.byID[id]
	switch {
	case e == nil:
		e = &entry{id: id, before: before, known: known}
		c.byID[id] = e
		c.fresh = append(c.fresh, e)
	case e.generation < generation:
		e.before, e.known = e.job, true
		c.fresh = append(c.fresh, e)
		c.unlink(e)
	default:
		c.unlink(e)
	}
	e.job, e.lane, e.generation = j, l, generation
	e.bytes = jobBytes(j)
	c.bytes += e.bytes
	c.link(e)
}

// visible says that all changes are visible on disk. It drops the oldest beyond the limit.
func (c *cache) visible() {
	for _, e := range c.fresh {
		e.before = nil
	}
	clear(c.fresh)
	c.fresh = c.fresh[:0]
	for c.bytes > c.limit && c.newest.prev != nil && c.newest.prev != &c.newest {
		e := c.newest.prev
		c.unlink(e)
		delete(c.byID, e.id)
		c.dropped = max(c.dropped, e.generation)
	}
}

func (c *cache) link(e *entry) {
	if c.newest.next == nil {
		c.newest.next, c.newest.prev = &c.newest, &c.newest
	}
	e.prev, e.next = &c.newest, c.newest.next
	e.next.prev = e
	c.newest.next = e
}

func (c *cache) unlink(e *entry) {
	e.prev.next, e.next.prev = e.next, e.prev
	c.bytes -= e.bytes
}

// jobBytes is roughly the memory that a job takes in the cache.
func jobBytes(j *haulier.Job) int {
	const fixed = 160
	if j == nil {
		return fixed
	}
	return fixed + 832 + len(j.Payload) + len(j.Result) + len(j.Error) + 80*len(j.History) + 64*len(j.Labels)
}
