package flow

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/haulier/haulier"
)

// Grace is for how long a job that was called has the right of way. When it
// has not started by then, because its queue is paused or no worker runs its type, others may pass. Of several
// in a row that do not come, each has half the time of the one before, down to leastGrace.
const (
	Grace      = 10 * time.Second
	leastGrace = time.Second
)

// shown is how many holders a lock's document names.
const shown = 16

// maxCalled bounds those who have the right of way at a key; further ones are called when these have come.
const maxCalled = 32

// Lock is how a key stands.
type Lock struct {
	Held    int          `json:"held"`
	Holders []haulier.ID `json:"holders,omitempty"` // up to shown of them, for people
	Waiting int          `json:"waiting,omitempty"`
	Gone    string       `json:"gone,omitempty"`   // up to this place in the line nobody waits: a store need not look among what was removed
	Called  []Call       `json:"called,omitempty"` // jobs for which it was freed, and which have not started
	Missed  int          `json:"missed,omitempty"` // how many were called in a row and did not come in time
	Free    time.Time    `json:"free,omitzero"`    // when its rate allows the next start
}

// Call is a job for which a key was freed.
type Call struct {
	Job   haulier.ID `json:"job"`
	Order string     `json:"order"`
	Until time.Time  `json:"until"`           // it has the right of way before that
	Holds bool       `json:"holds,omitempty"` // it will hold the key
	Below int        `json:"below,omitempty"` // it starts only while fewer hold the key; 0: whatever their number
}

func lockKey(tenant, key string) string { return tenant + "/" + key }

// order sorts those who wait at a key: by priority, then age, then id.
func order(j *haulier.Job) string {
	since := j.CreatedAt
	if j.Spec.RunAt.After(since) {
		since = j.Spec.RunAt
	}
	return fmt.Sprintf("%02x%016x%s", haulier.MaxPriority-j.Priority, since.UnixMicro(), j.ID)
}

// lock returns how a key stands; what is changed in it is kept by putLock. Who was called and did not come is left out.
func (t *Tx) lock(ctx context.Context, tenant, key string) (*Lock, error) {
	name := lockKey(tenant, key)
	if h, ok := t.locks[name]; ok {
		return &h.Lock, nil
	}
	h := new(held)
	b, err := t.get(ctx, DocLock, name)
	if err != nil {
		return nil, err
	}
	if err := decode(DocLock, name, b, &h.Lock); err != nil {
		return nil, err
	}
	h.Called = slices.DeleteFunc(h.Called, func(c Call) bool {
		late := !t.now.Before(c.Until)
		if late {
			h.Missed++
		}
		return late
	})
	t.locks[name] = h
	return &h.Lock, nil
}

func (t *Tx) putLock(tenant, key string) {
	name := lockKey(tenant, key)
	if h := t.locks[name]; !h.set {
		h.set = true
		t.lines = append(t.lines, name)
	}
}

// encode is the lock's document; nil: it says nothing.
func (l *Lock) encode(now time.Time) []byte {
	if !l.Free.After(now) {
		l.Free = time.Time{}
	}
	if len(l.Called) == 0 && l.Waiting == 0 {
		l.Missed, l.Gone = 0, ""
	}
	if l.Held == 0 && l.Waiting == 0 && len(l.Called) == 0 && l.Free.IsZero() {
		return nil
	}
	return encode(l)
}

// release takes a key from a job that held it, and calls the next.
func (t *Tx) release(ctx context.Context, j *haulier.Job, key string) error {
	l, err := t.lock(ctx, j.Tenant, key)
	if err != nil {
		return err
	}
	l.Held = max(l.Held-1, 0)
	l.Holders = slices.DeleteFunc(l.Holders, func(id haulier.ID) bool { return id == j.ID })
	t.putLock(j.Tenant, key)
	t.promoteLater(j.Tenant, key)
	return nil
}

func (t *Tx) promoteLater(tenant, key string) {
	t.later(Rest{Do: doPromote, Tenant: tenant, Key: key})
}

// leave takes a job out of the line at a key, and from those who were called.
func (t *Tx) leave(ctx context.Context, j *haulier.Job, key string) error {
	l, err := t.lock(ctx, j.Tenant, key)
	if err != nil {
		return err
	}
	if err := t.unqueue(ctx, j, key, l); err != nil {
		return err
	}
	t.putLock(j.Tenant, key)
	t.promoteLater(j.Tenant, key)
	return nil
}

func (t *Tx) unqueue(ctx context.Context, j *haulier.Job, key string, l *Lock) error {
	name := lockKey(j.Tenant, key) + "/" + order(j)
	v, err := t.get(ctx, DocWaiter, name)
	if err != nil {
		return err
	}
	if v != nil {
		t.put(DocWaiter, name, nil)
		l.Waiting = max(l.Waiting-1, 0)
	}
	l.Called = slices.DeleteFunc(l.Called, func(c Call) bool { return c.Job == j.ID })
	return nil
}

// enqueue puts a job into the line at a key.
func (t *Tx) enqueue(ctx context.Context, j *haulier.Job, key string) error {
	l, err := t.lock(ctx, j.Tenant, key)
	if err != nil {
		return err
	}
	if err := t.unqueue(ctx, j, key, l); err != nil {
		return err
	}
	place := order(j)
	t.put(DocWaiter, lockKey(j.Tenant, key)+"/"+place, j.ID[:])
	l.Waiting++
	if place <= l.Gone {
		l.Gone = place[:len(place)-1] // just before it
	}
	t.putLock(j.Tenant, key)
	t.promoteLater(j.Tenant, key) // who is at the head of the line looks after its time
	return nil
}

// line returns up to n of those who wait at a key, from its head on.
func (t *Tx) line(ctx context.Context, tenant, key string, n int, l *Lock) ([]*haulier.Job, error) {
	prefix := lockKey(tenant, key) + "/"
	docs, err := t.list(ctx, DocWaiter, prefix, prefix+l.Gone, n)
	if err != nil {
		return nil, err
	}
	ids := make([]haulier.ID, len(docs))
	for i, d := range docs {
		copy(ids[i][:], d.Value)
	}
	if err := t.fetch(ctx, ids); err != nil {
		return nil, err
	}
	out := make([]*haulier.Job, 0, len(ids))
	for _, id := range ids {
		if e := t.jobs[id]; e != nil && gateOf(&e.job.Status) == key { // or it has left since the line was read: the lock has changed, too
			out = append(out, &e.job)
		}
	}
	return out, nil
}

// passes reports whether a job may start, as far as the key is concerned, without taking the turn of those who
// were called of late and come before it. If that is all that stands in its way, until is when the first of them loses it.
func (l *Lock) passes(x Call) (ok bool, until time.Time) {
	if x.Below > 0 && l.Held >= x.Below {
		return false, time.Time{}
	}
	better := 0 // who come before it and will hold the key
	for _, c := range l.Called {
		if c.before(x) {
			until = earlier(until, c.Until)
			if c.Holds {
				better++
			}
		}
	}
	if x.Below > 0 && l.Held+better >= x.Below {
		return false, until
	}
	if !x.Holds {
		return true, time.Time{}
	}
	for _, c := range l.Called {
		others := better
		if c.Holds {
			others--
		}
		if c.Below > 0 && c.before(x) && l.Held+others+1 >= c.Below {
			return false, until
		}
	}
	return true, time.Time{}
}

// before reports whether c has the right of way before x.
func (c *Call) before(x Call) bool { return c.Job != x.Job && c.Order < x.Order }

// earlier is the earlier of two times, of which the first may be none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// caller is j as it would be called at a key.
func (t *Tx) caller(j *haulier.Job, key string, lim *Limit) Call {
	below, _ := bound(lim, j, key)
	return Call{Job: j.ID, Order: order(j), Holds: holds(j, key), Below: below}
}

// Standing says how a key stands, and its limit, nil when there is none.
func Standing(ctx context.Context, store haulier.Store, tenant, key string) (Lock, *Limit, error) {
	t := Begin(store, time.Time{})
	l, err := t.lock(ctx, tenant, key)
	if err != nil {
		return Lock{}, nil, err
	}
	lim, err := t.limit(ctx, tenant, key)
	return *l, lim, err
}

// maxPlace is how far Place counts.
const maxPlace = 10_000

// Place is how many jobs come before j in the line at a key, up to ten thousand.
func Place(ctx context.Context, store haulier.Store, j *haulier.Job, key string) (int, error) {
	prefix, own := lockKey(j.Tenant, key)+"/", order(j)
	for n, after := 0, prefix; ; {
		docs, err := store.Docs(ctx, DocWaiter, prefix, after, 1000)
		if err != nil {
			return 0, err
		}
		for _, d := range docs {
			if after = d.Key; after[len(prefix):] >= own {
				return n, nil
			}
			n++
		}
		if len(docs) == 0 || n >= maxPlace {
			return n, nil
		}
	}
}
