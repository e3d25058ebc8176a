package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/haulier/haulier"
)

// queueDoc is a queue's document: what was set by hand.
type queueDoc struct {
	Paused   bool      `json:"paused,omitempty"`
	PausedAt time.Time `json:"paused_at,omitzero"`
	PausedBy string    `json:"paused_by,omitempty"`
	Weight   int       `json:"weight,omitempty"`
}

// queues is the view of the queues' settings, by tenant/queue.
type queues struct {
	mu   sync.Mutex
	set  map[string]queueDoc
	puts int // changes by this server
}

func newQueues() *queues { return &queues{set: map[string]queueDoc{}} }

// setting is whether a queue is paused, and its share.
func (q *queues) setting(tenant, queue string) (paused bool, weight int) {
	d := q.get(tenant, queue)
	return d.Paused, max(d.Weight, 1)
}

func (q *queues) get(tenant, queue string) queueDoc {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.set) == 0 {
		return queueDoc{}
	}
	return q.set[tenant+"/"+queue]
}

func (q *queues) put(key string, d queueDoc) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.set[key] = d
	q.puts++
}

// loaded takes what was read since there were so many puts, unless there were more; it reports whether it did, and whether anything is new.
func (q *queues) loaded(all map[string]queueDoc, puts int) (taken, changed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.puts != puts {
		return false, false
	}
	changed = !maps.Equal(q.set, all)
	q.set = all
	return true, changed
}

func (q *queues) count() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.puts
}

// loadQueues reads the settings of all queues, anew while this server changes one.
func (e *Engine) loadQueues(ctx context.Context) error {
	for ctx.Err() == nil {
		puts, all := e.queues.count(), map[string]queueDoc{}
		for after := ""; ; {
			docs, err := e.store.Docs(ctx, haulier.DocQueue, "", after, 500)
			if err != nil {
				return err
			}
			for _, d := range docs {
				var v queueDoc
				if err := json.Unmarshal(d.Value, &v); err != nil {
					return fmt.Errorf("queue %s: %w: %w", d.Key, haulier.ErrCorrupt, err)
				}
				all[d.Key] = v
				after = d.Key
			}
			if len(docs) < 500 {
				break
			}
		}
		if taken, changed := e.queues.loaded(all, puts); taken {
			if changed {
				e.sched.wakeAll()
			}
			return nil
		}
	}
	return ctx.Err()
}

// PauseQueue implements haulier.Operator.
func (e *Engine) PauseQueue(ctx context.Context, tenant, queue string, paused bool, by string) error {
	now, err := e.now(ctx)
	if err != nil {
		return err
	}
	return e.setQueue(ctx, tenant, queue, func(d *queueDoc) {
		if d.Paused == paused {
			return
		}
		d.Paused, d.PausedAt, d.PausedBy = paused, time.Time{}, ""
		if paused {
			d.PausedAt, d.PausedBy = now, by
		}
	})
}

// WeighQueue implements haulier.Operator.
func (e *Engine) WeighQueue(ctx context.Context, tenant, queue string, weight int, _ string) error {
	if weight < 1 || weight > 100 {
		return field("weight", fmt.Sprintf("is %d: it goes from 1 to 100", weight))
	}
	return e.setQueue(ctx, tenant, queue, func(d *queueDoc) { d.Weight = weight })
}

func (e *Engine) setQueue(ctx context.Context, tenant, queue string, change func(*queueDoc)) error {
	if err := first(func() error { return checkName("tenant", tenant) }, func() error { return checkName("queue", queue) }); err != nil {
		return err
	}
	key := tenant + "/" + queue
	for range conflictTries {
		var v queueDoc
		d, err := e.store.Doc(ctx, haulier.DocQueue, key)
		if err == nil {
			err = json.Unmarshal(d.Value, &v)
		} else if errors.Is(err, haulier.ErrNotFound) {
			err = nil
		}
		if err != nil {
			return fmt.Errorf("queue %s: %w", key, err)
		}
		change(&v)
		value, err := json.Marshal(v)
		if err != nil {
			return err
		}
		err = e.store.Commit(ctx, &haulier.Batch{Sync: true, Tell: true, Docs: []haulier.DocWrite{{Kind: haulier.DocQueue, Key: key, Expect: d.Rev, Value: value}}})
		if errors.Is(err, haulier.ErrConflict) {
			continue
		}
		if err != nil {
			return fmt.Errorf("queue %s: %w", key, err)
		}
		e.queues.put(key, v)
		e.sched.wakeAll()
		return nil
	}
	return fmt.Errorf("queue %s: %w: others keep changing it; try again", key, haulier.ErrConflict)
}

// Queues implements haulier.Operator.
func (e *Engine) Queues(ctx context.Context, tenant string) ([]haulier.QueueStatus, error) {
	counts, err := e.store.Counts(ctx)
	if err != nil {
		return nil, fmt.Errorf("queues: %w", err)
	}
	bands, err := e.store.Bands(ctx)
	if err != nil {
		return nil, fmt.Errorf("queues: %w", err)
	}
	byKey := map[string]*haulier.QueueStatus{}
	at := func(tenant, queue string) *haulier.QueueStatus {
		key := tenant + "/" + queue
		if byKey[key] == nil {
			d := e.queues.get(tenant, queue)
			byKey[key] = &haulier.QueueStatus{
				Tenant: tenant, Queue: queue, Paused: d.Paused, PausedAt: d.PausedAt, PausedBy: d.PausedBy,
				Weight: max(d.Weight, 1), Counts: map[string]int64{},
			}
		}
		return byKey[key]
	}
	e.queues.each(at)
	for _, c := range counts {
		if c.N != 0 {
			at(c.Tenant, c.Queue).Counts[c.State.String()] += c.N
		}
	}
	for _, b := range bands {
		if q := at(b.Lane.Tenant, b.Lane.Queue); b.N > 0 && (q.Oldest.IsZero() || b.Since.Before(q.Oldest)) {
			q.Oldest = b.Since
		}
	}
	var out []haulier.QueueStatus
	for _, q := range byKey {
		if tenant == "" || q.Tenant == tenant {
			out = append(out, *q)
		}
	}
	slices.SortFunc(out, func(a, b haulier.QueueStatus) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Queue, b.Queue))
	})
	return out, nil
}

// each calls f for each queue with settings.
func (q *queues) each(f func(tenant, queue string) *haulier.QueueStatus) {
	q.mu.Lock()
	var keys []string
	for k := range q.set {
		keys = append(keys, k)
	}
	q.mu.Unlock()
	for _, k := range keys {
		for i := range k {
			if k[i] == '/' {
				f(k[:i], k[i+1:])
				break
			}
		}
	}
}
