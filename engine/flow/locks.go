package flow

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/haulier/haulier"
)

// Grace is for how long a job that was called has the right of way. When it
// has not started by then, because its queue is paused or no worker runs its type, others may pass.
const Grace = 10 * time.Second

// shown is how many holders a lock's document names.
const shown = 16

// Lock is how a key stands.
type Lock struct {
	Held    int          `json:"held"`
	Holders []haulier.ID `json:"holders,omitempty"` // the first of them, for people
	Waiting int          `json:"waiting,omitempty"`
	Gone    string       `json:"gone,omitempty"`   // up to this place in the line nobody waits: a store need not look among what was removed
	Called  []Call       `json:"called,omitempty"` // jobs for which it was freed, and which have not started
	Free    time.Time    `json:"free,omitzero"`    // when its rate allows the next start
}

// Call is a job for which a key was freed.
type Call struct {
	Job   haulier.ID `json:"job"`
	Order string     `json:"order"`
	At    time.Time  `json:"at"`
	Holds bool       `json:"holds,omitempty"` // it will hold the key
	Below int        `json:"below,omitempty"` // it starts only while fewer hold the key; 0: whatever their number
}

// maxCalled bounds those who have the right of way at a key; further ones are called without it.
const maxCalled = 64

func (l *Lock) empty() bool {
	return l.Held == 0 && l.Waiting == 0 && len(l.Called) == 0 && l.Free.IsZero()
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

func (t *Tx) lock(ctx context.Context, tenant, key string) (*Lock, error) {
	var l Lock
	name := lockKey(tenant, key)
	b, err := t.get(ctx, DocLock, name)
	if err != nil {
		return nil, err
	}
	return &l, decode(DocLock, name, b, &l)
}

func (t *Tx) putLock(tenant, key string, l *Lock) {
	if l.Free.Before(t.now) {
		l.Free = time.Time{}
	}
	if l.empty() {
		t.put(DocLock, lockKey(tenant, key), nil)
		return
	}
	t.put(DocLock, lockKey(tenant, key), encode(l))
}

// release takes a key from a job that held it, and calls the next.
func (t *Tx) release(ctx context.Context, j *haulier.Job, key string) error {
	l, err := t.lock(ctx, j.Tenant, key)
	if err != nil {
		return err
	}
	l.Held = max(l.Held-1, 0)
	l.Holders = slices.DeleteFunc(l.Holders, func(id haulier.ID) bool { return id == j.ID })
	t.putLock(j.Tenant, key, l)
	t.later(Rest{Do: doPromote, Tenant: j.Tenant, Key: key})
	return nil
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
	t.putLock(j.Tenant, key, l)
	t.later(Rest{Do: doPromote, Tenant: j.Tenant, Key: key})
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
	l.Called = slices.DeleteFunc(l.Called, func(c Call) bool { return c.Job == j.ID })
	name := lockKey(j.Tenant, key) + "/" + order(j)
	v, err := t.get(ctx, DocWaiter, name)
	if err != nil {
		return err
	}
	if v == nil {
		t.put(DocWaiter, name, j.ID[:])
		l.Waiting++
		if place := order(j); place <= l.Gone {
			l.Gone = place[:len(place)-1] // just before it
		}
	}
	t.putLock(j.Tenant, key, l)
	return nil
}

// waiter is who waits at a key, in its place.
type waiter struct {
	order string
	job   *haulier.Job
}

// line returns up to n of those who wait at a key after the given place. Entries of jobs that wait no more are removed.
func (t *Tx) line(ctx context.Context, tenant, key, after string, n int, l *Lock) ([]waiter, error) {
	prefix := lockKey(tenant, key) + "/"
	docs, err := t.list(ctx, DocWaiter, prefix, prefix+max(after, l.Gone), n)
	if err != nil {
		return nil, err
	}
	out := make([]waiter, 0, len(docs))
	for _, d := range docs {
		var id haulier.ID
		copy(id[:], d.Value)
		j, err := t.Job(ctx, id)
		if err != nil {
			return nil, err
		}
		if j == nil || gateOf(&j.Status) != key {
			t.put(DocWaiter, d.Key, nil)
			l.Waiting = max(l.Waiting-1, 0)
			continue
		}
		out = append(out, waiter{d.Key[len(prefix):], j})
	}
	return out, nil
}

// passes reports whether a job may start, as far as the key is concerned, without taking the turn of those who
// were called of late and come before it. If that is all that stands in its way, until is when they lose their turn.
func (l *Lock) passes(now time.Time, x Call) (ok bool, until time.Time) {
	better := 0
	for _, c := range l.Called {
		if !c.before(x, now) {
			continue
		}
		if c.Holds {
			better++
		}
		if end := c.At.Add(Grace); until.IsZero() || end.Before(until) {
			until = end
		}
	}
	if x.Below > 0 && l.Held >= x.Below {
		return false, time.Time{}
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
		if c.Below > 0 && c.before(x, now) && l.Held+others+1 >= c.Below {
			return false, until
		}
	}
	return true, time.Time{}
}

// before reports whether c has the right of way before x.
func (c *Call) before(x Call, now time.Time) bool {
	return c.Job != x.Job && c.Order < x.Order && now.Before(c.At.Add(Grace))
}

// caller is j as it would be called at a key.
func (t *Tx) caller(j *haulier.Job, key string, lim *Limit) Call {
	below, _ := bound(lim, j, key)
	return Call{Job: j.ID, Order: order(j), At: t.now, Holds: holds(j, key), Below: below}
}

// promote calls who waits at a key, in order, for as long as it is free for them.
func (t *Tx) promote(ctx context.Context, r Rest) (*Rest, error) {
	l, err := t.lock(ctx, r.Tenant, r.Key)
	if err != nil || l.Waiting == 0 {
		return nil, err
	}
	lim, err := t.limit(ctx, r.Tenant, r.Key)
	if err != nil {
		return nil, err
	}
	called := 0
	line, err := t.line(ctx, r.Tenant, r.Key, "", fewWaiters, l)
	for ; err == nil && len(line) > 0 && called < t.left; called++ {
		w := line[0]
		c := t.caller(w.job, r.Key, lim)
		if !t.free(c, l, lim) {
			break
		}
		if err := t.call(ctx, r, w, c, l); err != nil {
			return nil, err
		}
		if line = line[1:]; len(line) == 0 {
			line, err = t.line(ctx, r.Tenant, r.Key, w.order, manyWaiters, l)
		}
	}
	if err != nil {
		return nil, err
	}
	t.left -= called
	t.putLock(r.Tenant, r.Key, l)
	if called > 0 && len(line) > 0 && t.left <= 0 && t.free(t.caller(line[0].job, r.Key, lim), l, lim) {
		return &r, nil
	}
	return nil, t.standBy(ctx, line, l, lim)
}

// Of those who wait a few are looked at first: mostly one is called.
const (
	fewWaiters  = 3
	manyWaiters = room
)

// free reports whether who stands at the head of the line may go.
func (t *Tx) free(c Call, l *Lock, lim *Limit) bool {
	if rated(lim) && l.Free.After(t.now) {
		return false
	}
	ok, _ := l.passes(t.now, c)
	return ok
}

// call sets the first of those free who wait at a key.
func (t *Tx) call(ctx context.Context, r Rest, w waiter, c Call, l *Lock) error {
	t.put(DocWaiter, lockKey(r.Tenant, r.Key)+"/"+w.order, nil)
	l.Gone = w.order
	l.Waiting = max(l.Waiting-1, 0)
	if len(l.Called) < maxCalled {
		l.Called = append(l.Called, c)
	}
	if w.job.State == haulier.Pending || w.job.State.Owned() {
		return nil // it is on its way already
	}
	// The lock is written by who called this: the change must not read an older one.
	t.putLock(r.Tenant, r.Key, l)
	return t.change(ctx, w.job, haulier.Event{Kind: haulier.EventCall, Key: r.Key, By: "server"})
}

// standBy sees to it that the line moves on by itself when the time of a rate has
// come, or when who was called does not come.
func (t *Tx) standBy(ctx context.Context, line []waiter, l *Lock, lim *Limit) error {
	var at time.Time
	for _, c := range l.Called {
		if end := c.At.Add(Grace); end.After(t.now) && (at.IsZero() || end.Before(at)) {
			at = end
		}
	}
	if rated(lim) && l.Free.After(t.now) {
		at = l.Free
	}
	if at.IsZero() {
		return nil
	}
	for i, w := range line {
		if w.job.State == haulier.Blocked {
			if err := t.change(ctx, w.job, haulier.Event{Kind: haulier.EventStandBy, At: at}); err != nil {
				return err
			}
		}
		if i == 1 || !rated(lim) {
			break
		}
		at = at.Add(Grace) // the second, in case the first does not start
	}
	return nil
}
