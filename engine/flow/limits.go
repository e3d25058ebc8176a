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

// Gap is the time between two starts at a rate.
func Gap(l *Limit) time.Duration {
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

// limit is that of a key, nil when there is none.
func (t *Tx) limit(ctx context.Context, tenant, key string) (*Limit, error) {
	name := lockKey(tenant, key)
	if l, ok := t.limits[name]; ok {
		return l, nil
	}
	b, err := t.get(ctx, DocLimit, name)
	if err != nil {
		return nil, err
	}
	var l *Limit
	if b != nil {
		l = new(Limit)
		if err := decode(DocLimit, name, b, l); err != nil {
			return nil, err
		}
	}
	t.limits[name] = l
	return l, nil
}

// SetLimit changes the limit of a key, nil removes it, and calls who may start now.
func (t *Tx) SetLimit(ctx context.Context, tenant, key string, l *Limit) error {
	if _, err := t.limit(ctx, tenant, key); err != nil {
		return err
	}
	k, err := t.lock(ctx, tenant, key)
	if err != nil {
		return err
	}
	var value []byte
	if l != nil {
		value = encode(l)
	}
	t.put(DocLimit, lockKey(tenant, key), value)
	t.limits[lockKey(tenant, key)] = l
	k.Free = time.Time{}
	t.putLock(tenant, key)
	t.promoteLater(tenant, key)
	return nil
}
