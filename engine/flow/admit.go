package flow

import (
	"context"
	"slices"
	"time"

	"github.com/haulier/haulier"
)

// Limit is what an operator sets for a key.
type Limit = haulier.Limit

func rated(l *Limit) bool { return l != nil && l.Rate > 0 }

// gap is the time between two starts.
func gap(l *Limit) time.Duration {
	per := time.Duration(l.Per)
	if per <= 0 {
		per = time.Second
	}
	return max(per/time.Duration(l.Rate), time.Microsecond)
}

// bound is how many others may hold the key when j starts.
func bound(l *Limit, j *haulier.Job, key string) (int, bool) {
	n, ok := 0, false
	if j.Flow != nil {
		n, ok = j.Flow.Bound(key)
	}
	if l != nil && l.Running > 0 && (!ok || l.Running < n) && limits(j, key) {
		n, ok = l.Running, true
	}
	return n, ok
}

// QueueKey is the key that all jobs of a queue hold when it has a limit, TenantKey that of a tenant's.
func QueueKey(queue string) string { return "queue:" + queue }

// TenantKey is the key that all jobs of a tenant hold when it has a limit.
const TenantKey = "tenant:"

func limits(j *haulier.Job, key string) bool {
	return key == TenantKey || key == QueueKey(j.Queue) || j.Flow != nil && slices.Contains(j.Limits, key)
}

// holds reports whether j holds the key while it runs.
func holds(j *haulier.Job, key string) bool {
	return limits(j, key) || j.Flow != nil && slices.Contains(j.Holds, key)
}

func (t *Tx) limit(ctx context.Context, tenant, key string) (*Limit, error) {
	name := lockKey(tenant, key)
	b, err := t.get(ctx, DocLimit, name)
	if err != nil || b == nil {
		return nil, err
	}
	var l Limit
	return &l, decode(DocLimit, name, b, &l)
}

// SetLimit changes the limit of a key, nil removes it, and calls who may start now.
func (t *Tx) SetLimit(ctx context.Context, tenant, key string, l *Limit) error {
	if _, err := t.limit(ctx, tenant, key); err != nil {
		return err
	}
	var value []byte
	if l != nil {
		value = encode(l)
	}
	t.put(DocLimit, lockKey(tenant, key), value)
	k, err := t.lock(ctx, tenant, key)
	if err != nil {
		return err
	}
	k.Free = time.Time{}
	t.putLock(tenant, key, k)
	t.later(Rest{Do: doPromote, Tenant: tenant, Key: key})
	return t.settle(ctx)
}

// stop is what keeps a job from starting.
type stop struct {
	key   string    // key at which it waits; "": none
	until time.Time // it looks again then; zero: only when it is called
}

// Admit decides for each of the jobs, which the session has just claimed, whether it may start.
// Those that may hold their keys from now on; the others go back to wait. extra are keys with a limit
// that a job holds without naming them. It returns those that may, as they stand now.
func (t *Tx) Admit(ctx context.Context, jobs []haulier.Job, extra func(*haulier.Job) []string) ([]haulier.Job, error) {
	out := jobs[:0:0]
	for i := range jobs {
		j := t.adopt(&jobs[i])
		more := extra(j)
		if !j.Flow.Gated() && len(more) == 0 && gateOf(&j.Status) == "" {
			out = append(out, *j)
			continue
		}
		keys := more
		if j.Flow != nil {
			keys = append(append(slices.Clone(j.Holds), j.Limits...), more...)
		}
		slices.Sort(keys)
		keys = slices.Compact(keys)
		s, waived, err := t.look(ctx, j, keys)
		if err != nil {
			return nil, err
		}
		if s.key != "" {
			err = t.park(ctx, j, s)
		} else {
			err = t.start(ctx, j, keys, waived)
		}
		if err != nil {
			return nil, err
		}
		if s.key == "" {
			out = append(out, t.jobs[j.ID].job)
		}
	}
	return out, t.settle(ctx)
}

// look finds the first key at which the job must wait, and the keys for which it waits no longer.
func (t *Tx) look(ctx context.Context, j *haulier.Job, keys []string) (s stop, waived []string, err error) {
	var ends map[string]time.Time
	if j.Flow != nil {
		for i := range j.YieldsTo {
			y := &j.YieldsTo[i]
			if y.For > 0 {
				end := since(j).Add(time.Duration(y.For))
				if !t.now.Before(end) {
					waived = append(waived, y.Key)
					continue
				}
				if ends == nil {
					ends = map[string]time.Time{}
				}
				ends[y.Key] = end
			}
			if !slices.Contains(keys, y.Key) {
				keys = append(keys[:len(keys):len(keys)], y.Key)
			}
		}
	}
	for _, key := range keys {
		if slices.Contains(waived, key) {
			continue
		}
		if s, err = t.lookAt(ctx, j, key); err != nil || s.key != "" {
			if end := ends[key]; !end.IsZero() && (s.until.IsZero() || end.Before(s.until)) {
				s.until = end
			}
			return s, nil, err
		}
	}
	return stop{}, waived, nil
}

// lookAt says whether the job may start as far as one key is concerned: within its
// bounds, and not before others whose turn it is.
func (t *Tx) lookAt(ctx context.Context, j *haulier.Job, key string) (stop, error) {
	l, err := t.lock(ctx, j.Tenant, key)
	if err != nil {
		return stop{}, err
	}
	lim, err := t.limit(ctx, j.Tenant, key)
	if err != nil {
		return stop{}, err
	}
	me := t.caller(j, key, lim)
	if ok, until := l.passes(t.now, me); !ok {
		return stop{key, until}, nil
	}
	if !me.Holds {
		return stop{}, nil
	}
	ahead, err := t.ahead(ctx, j, key, l)
	if err != nil || ahead {
		return stop{key: key}, err
	}
	if rated(lim) && l.Free.After(t.now) {
		return stop{key, l.Free}, nil
	}
	return stop{}, nil
}

// ahead reports whether somebody waits at the key whose turn comes before the job's. Who could
// have started for longer than Grace has lost it.
func (t *Tx) ahead(ctx context.Context, j *haulier.Job, key string, l *Lock) (bool, error) {
	if l.Waiting == 0 {
		return false, nil
	}
	mine := order(j)
	line, err := t.line(ctx, j.Tenant, key, "", 4, l)
	if err != nil {
		return false, err
	}
	t.putLock(j.Tenant, key, l)
	for _, w := range line {
		if w.job.ID == j.ID || w.order >= mine {
			return false, nil
		}
		if w.job.State != haulier.Pending || t.now.Before(w.job.Status.RunAt.Add(Grace)) {
			return true, nil
		}
	}
	return false, nil
}

// park sends a job to the line at a key.
func (t *Tx) park(ctx context.Context, j *haulier.Job, s stop) error {
	ev := haulier.Event{Kind: haulier.EventPark, Session: j.Session, Attempt: j.Attempt, Key: s.key, At: s.until, By: "server"}
	if err := t.change(ctx, j, ev); err != nil {
		return err
	}
	if now := &t.jobs[j.ID].job; gateOf(&now.Status) == s.key {
		return t.enqueue(ctx, now, s.key)
	}
	return nil // a newer job has replaced it
}

// start lets a job go, with its keys.
func (t *Tx) start(ctx context.Context, j *haulier.Job, keys, waived []string) error {
	for _, key := range keys {
		l, err := t.lock(ctx, j.Tenant, key)
		if err != nil {
			return err
		}
		lim, err := t.limit(ctx, j.Tenant, key)
		if err != nil {
			return err
		}
		l.Held++
		if len(l.Holders) < shown {
			l.Holders = append(l.Holders, j.ID)
		}
		if rated(lim) {
			l.Free = t.now.Add(gap(lim))
			t.later(Rest{Do: doPromote, Tenant: j.Tenant, Key: key})
		}
		t.putLock(j.Tenant, key, l)
	}
	ev := haulier.Event{Kind: haulier.EventAdmit, Session: j.Session, Attempt: j.Attempt, Keys: keys, Waived: waived}
	return t.change(ctx, j, ev)
}

func since(j *haulier.Job) time.Time {
	if j.Spec.RunAt.After(j.CreatedAt) {
		return j.Spec.RunAt
	}
	return j.CreatedAt
}

// Standing says how a key stands.
func Standing(ctx context.Context, store haulier.Store, tenant, key string) (holders []haulier.ID, held, waiting int, err error) {
	l, err := Begin(store, time.Time{}).lock(ctx, tenant, key)
	if err != nil {
		return nil, 0, 0, err
	}
	return l.Holders, l.Held, l.Waiting, nil
}
