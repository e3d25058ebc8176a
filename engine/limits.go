package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/engine/flow"
)

// limits is the view of the keys with a limit that whole queues and tenants hold, by tenant/key.
type limits struct {
	mu   sync.RWMutex
	set  map[string]bool
	puts int // changes by this server
}

func (l *limits) any() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.set) > 0
}

// of lists such keys of a job.
func (l *limits) of(j *haulier.Job) []string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var out []string
	if len(l.set) == 0 {
		return nil
	}
	for _, key := range []string{flow.QueueKey(j.Queue), flow.TenantKey} {
		if l.set[j.Tenant+"/"+key] {
			out = append(out, key)
		}
	}
	return out
}

// wide reports whether a limit is one of a whole queue or tenant.
func wide(name string) bool {
	_, key, _ := strings.Cut(name, "/")
	return key == flow.TenantKey || strings.HasPrefix(key, flow.QueueKey(""))
}

func (l *limits) put(name string, limited bool) {
	if !wide(name) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.puts++
	if limited {
		l.set[name] = true
	} else {
		delete(l.set, name)
	}
}

func (l *limits) count() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.puts
}

// loaded takes what was read since there were so many puts, unless there were more.
func (l *limits) loaded(all map[string]bool, puts int) (taken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.puts == puts {
		l.set = all
	}
	return l.puts == puts
}

// loadLimits reads which queues and tenants have a limit, anew while this server changes one.
func (e *Engine) loadLimits(ctx context.Context) error {
	for ctx.Err() == nil {
		puts, all := e.limits.count(), map[string]bool{}
		for after := ""; ; {
			docs, err := e.store.Docs(ctx, flow.DocLimit, "", after, 500)
			if err != nil {
				return err
			}
			for _, d := range docs {
				if wide(d.Key) {
					all[d.Key] = true
				}
				after = d.Key
			}
			if len(docs) < 500 {
				break
			}
		}
		if e.limits.loaded(all, puts) {
			return nil
		}
	}
	return ctx.Err()
}

// SetLimit implements haulier.Operator.
func (e *Engine) SetLimit(ctx context.Context, tenant, key string, l haulier.Limit) error {
	if tenant == "" {
		tenant = haulier.DefaultTenant
	}
	if err := first(
		func() error { return checkName("tenant", tenant) },
		func() error { return checkName("key", key) },
		func() error { return checkLimit(&l) },
	); err != nil {
		return err
	}
	set := &l
	if l == (haulier.Limit{}) {
		set = nil
	}
	// While it is not known whether it counts, it is looked for.
	e.limits.put(tenant+"/"+key, true)
	err := e.transact(ctx, true, func(t *flow.Tx) error { return t.SetLimit(ctx, tenant, key, set) })
	if err == nil && set == nil {
		e.limits.put(tenant+"/"+key, false)
	}
	return err
}

func checkLimit(l *haulier.Limit) error {
	switch {
	case l.Running < 0 || l.Running > 1_000_000:
		return field("running", "must be from 1 to 1000000, or 0 for any number")
	case l.Rate < 0 || l.Rate > 1_000_000:
		return field("rate", "must be from 1 to 1000000, or 0 for any number")
	case l.Per < 0 || time.Duration(l.Per) > 365*24*time.Hour:
		return field("per", "must be positive, and at most a year")
	}
	return nil
}

// Limits implements haulier.Operator.
func (e *Engine) Limits(ctx context.Context, tenant string) ([]haulier.KeyStanding, error) {
	if tenant == "" {
		tenant = haulier.DefaultTenant
	}
	var out []haulier.KeyStanding
	prefix := tenant + "/"
	for after := prefix; ; {
		docs, err := e.store.Docs(ctx, flow.DocLimit, prefix, after, 500)
		if err != nil {
			return nil, fmt.Errorf("limits: %w", err)
		}
		if len(docs) == 0 {
			return out, nil
		}
		for _, d := range docs {
			after = d.Key
			k := haulier.KeyStanding{Key: d.Key[len(prefix):]}
			if err := json.Unmarshal(d.Value, &k.Limit); err != nil {
				return nil, fmt.Errorf("limit %s: %w: %w", d.Key, haulier.ErrCorrupt, err)
			}
			l, _, err := flow.Standing(ctx, e.store, tenant, k.Key)
			if err != nil {
				return nil, fmt.Errorf("limits: %w", err)
			}
			k.Holders, k.Held, k.Waiting = l.Holders, l.Held, l.Waiting
			out = append(out, k)
		}
	}
}

// transact commits what build puts into a transaction, synced, anew while others are faster. tell: other servers are to hear of it.
func (e *Engine) transact(ctx context.Context, tell bool, build func(*flow.Tx) error) error {
	for range tiedTries {
		now, err := e.now(ctx)
		if err != nil {
			return err
		}
		t := flow.Begin(e.store, now)
		if err := build(t); err != nil {
			return err
		}
		b := haulier.Batch{Sync: true, Tell: tell}
		work, err := t.Flush(ctx, &b)
		if err != nil {
			return err
		}
		err = e.commit(ctx, &b, work)
		if !errors.Is(err, haulier.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("%w: others keep changing the same; try again", haulier.ErrConflict)
}
