package etcd

import (
	"bytes"
	"container/list"

	"github.com/haulier/haulier"
)

// cacheSize is how much of jobs is held in memory since this server changed them, in rough bytes.
const cacheSize = 32 << 20

// cache has jobs as the log's last entry left them: those that this server changed. What another changes is dropped.
type cache struct {
	jobs  map[haulier.ID]*list.Element // of *cached
	order *list.List                   // the newest first
	bytes int
}

type cached struct {
	record *record
	id     haulier.ID
	bytes  int
}

func newCache() cache { return cache{jobs: map[haulier.ID]*list.Element{}, order: list.New()} }

// follow notes the changes of an entry; own: they are in full.
func (c *cache) follow(changes []haulier.JobChange, own bool, revision int64) {
	for i := range changes {
		change := &changes[i]
		c.drop(change.Spec.ID)
		if own && change.Status.State != 0 {
			c.add(change, revision)
		}
	}
}

func (c *cache) add(change *haulier.JobChange, revision int64) {
	r := &record{spec: change.Spec, status: change.Status, revision: revision}
	if change.Before == 0 { // payload and result of what is new are the caller's
		spec := *change.Spec
		spec.Payload = bytes.Clone(spec.Payload)
		r.spec = &spec
	}
	r.status.Result = bytes.Clone(r.status.Result)
	e := &cached{record: r, id: r.spec.ID, bytes: 1500 + len(r.spec.Payload) + len(r.status.Result) + 60*len(r.status.History)}
	c.jobs[e.id] = c.order.PushFront(e)
	for c.bytes += e.bytes; c.bytes > cacheSize; {
		c.drop(c.order.Back().Value.(*cached).id)
	}
}

func (c *cache) drop(id haulier.ID) {
	if at := c.jobs[id]; at != nil {
		c.bytes -= c.order.Remove(at).(*cached).bytes
		delete(c.jobs, id)
	}
}

// cached are the jobs that the cache has; others are nil.
func (v *view) cached(ids []haulier.ID) (out []*record, all bool) {
	out, all = make([]*record, len(ids)), true
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, id := range ids {
		if at := v.cache.jobs[id]; at != nil {
			out[i] = at.Value.(*cached).record
		} else {
			all = false
		}
	}
	return out, all
}
