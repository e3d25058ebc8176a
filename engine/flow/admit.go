package flow

import (
	"context"
	"slices"
	"time"

	"github.com/haulier/haulier"
)

// stop is what keeps a job from starting.
type stop struct {
	key   string    // key at which it waits; "": none
	until time.Time // it starts in spite of it then; zero: only when it is called
}

// Admit decides for each of the jobs, which the session has just claimed, whether it may start.
// Those that may hold their keys from now on; the others go back to wait. extra are keys with a limit
// that a job holds without naming them. It returns those that may, as they stand now.
// frozen tells of a window that keeps a job from starting.
func (t *Tx) Admit(ctx context.Context, jobs []haulier.Job, extra func(*haulier.Job) []string, frozen func(*haulier.Job) (Freeze, bool)) ([]haulier.Job, error) {
	out := jobs[:0:0]
	for i := range jobs {
		j := t.Adopt(&jobs[i])
		if f, ok := frozen(j); ok {
			if err := t.freeze(ctx, j, f); err != nil {
				return nil, err
			}
			continue
		}
		more := extra(j)
		if !j.Flow.Gated() && len(more) == 0 && gateOf(&j.Status) == "" {
			out = append(out, *j)
			continue
		}
		keys := taking(j, more)
		s, waived, err := t.look(ctx, j, keys)
		if err != nil {
			return nil, err
		}
		if s.key != "" {
			if err := t.park(ctx, j, s); err != nil {
				return nil, err
			}
			continue
		}
		if err := t.start(ctx, j, keys, waived); err != nil {
			return nil, err
		}
		out = append(out, *j)
	}
	return out, nil
}

// Obstacle is the key at which a job would wait if it were claimed now; "": none.
func Obstacle(ctx context.Context, store haulier.Store, now time.Time, j *haulier.Job, extra []string) (string, error) {
	t := Begin(store, now)
	s, _, err := t.look(ctx, t.Adopt(j), taking(j, extra))
	return s.key, err
}

// taking lists the keys that a job holds when it starts, each once.
func taking(j *haulier.Job, extra []string) []string {
	keys := slices.Clone(extra)
	if j.Flow != nil {
		keys = append(append(keys, j.Holds...), j.Limits...)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// look finds the first key at which the job must wait, and the keys for which it waits no longer.
func (t *Tx) look(ctx context.Context, j *haulier.Job, keys []string) (s stop, waived []string, err error) {
	var ends map[string]time.Time
	if j.Flow != nil {
		for i := range j.YieldsTo {
			y := &j.YieldsTo[i]
			if y.For > 0 {
				end := t.began(j).Add(time.Duration(y.For))
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
		if free, err := t.lookAt(ctx, j, key); err != nil || !free {
			return stop{key, ends[key]}, nil, err
		}
	}
	return stop{}, waived, nil
}

// began is when the job began to wait for keys.
func (t *Tx) began(j *haulier.Job) time.Time {
	if j.Standing != nil && !j.Since.IsZero() {
		return j.Since
	}
	return t.now
}

// lookAt reports whether the job may start as far as one key is concerned: within its
// bounds, and not before others whose turn it is.
func (t *Tx) lookAt(ctx context.Context, j *haulier.Job, key string) (bool, error) {
	l, err := t.lock(ctx, j.Tenant, key)
	if err != nil {
		return false, err
	}
	lim, err := t.limit(ctx, j.Tenant, key)
	if err != nil {
		return false, err
	}
	me := t.caller(j, key, lim)
	if ok, _ := l.passes(me); !ok {
		return false, nil
	}
	if !me.Holds {
		return true, nil
	}
	if rated(lim) && l.Free.After(t.now) {
		return false, nil
	}
	if l.Waiting == 0 {
		return true, nil
	}
	line, err := t.line(ctx, j.Tenant, key, 1, l)
	return len(line) == 0 || me.Order < order(line[0]), err
}

// park sends a job to the line at a key.
func (t *Tx) park(ctx context.Context, j *haulier.Job, s stop) error {
	ev := haulier.Event{Kind: haulier.EventPark, Session: j.Session, Attempt: j.Attempt, Key: s.key, At: s.until, By: "server"}
	if err := t.change(ctx, j, ev); err != nil {
		return err
	}
	if gateOf(&j.Status) != s.key {
		return nil // a newer job has replaced it
	}
	return t.enqueue(ctx, j, s.key)
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
		if gateOf(&j.Status) == key {
			l.Missed = 0
		}
		if rated(lim) {
			l.Free = t.now.Add(Gap(lim))
			t.promoteLater(j.Tenant, key)
		}
		t.putLock(j.Tenant, key)
	}
	ev := haulier.Event{Kind: haulier.EventAdmit, Session: j.Session, Attempt: j.Attempt, Keys: keys, Waived: waived}
	return t.change(ctx, j, ev)
}

// keep gives a job its keys that runs already, whoever else holds them.
func (t *Tx) keep(ctx context.Context, j *haulier.Job) error {
	var limited []string
	for _, key := range []string{QueueKey(j.Queue), TenantKey} {
		lim, err := t.limit(ctx, j.Tenant, key)
		if err != nil {
			return err
		}
		if lim != nil {
			limited = append(limited, key)
		}
	}
	keys := taking(j, limited)
	if len(keys) == 0 && gateOf(&j.Status) == "" {
		return nil
	}
	return t.start(ctx, j, keys, nil)
}
