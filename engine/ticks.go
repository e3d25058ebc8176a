package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/calendar"
	"github.com/haulier/haulier/engine/flow"
)

const (
	// lateAfter is how late a time may be seen without counting as missed.
	lateAfter = time.Minute
	// maxSkew is how far this machine's clock may be from the store's. A server that is further off starts nothing.
	maxSkew = 5 * time.Second
	// reloadEvery is how often the schedules of other servers are looked through.
	reloadEvery = 10 * time.Second
	tickRetry   = time.Second
)

// keepSchedules starts what schedules start. Any number of servers do so: each time is
// taken by the commit that adds the job and moves the schedule on.
func (e *Engine) keepSchedules(ctx context.Context) error {
	reload := time.Time{}
	for ctx.Err() == nil {
		e.duty.await(ctx)
		err := e.skewed(ctx)
		if err == nil && (e.agenda.doubted() || !time.Now().Before(reload)) {
			err = errors.Join(e.loadSchedules(ctx), e.loadWindows(ctx))
			reload = time.Now().Add(reloadEvery)
		}
		wait := time.Until(reload)
		if err == nil {
			var next time.Time
			if next, err = e.tickDue(ctx); !next.IsZero() {
				wait = min(wait, time.Until(next))
			}
		}
		if err != nil && ctx.Err() == nil {
			e.log.Error("schedules are not looked at; they go on by themselves", "err", err)
			wait = tickRetry
		}
		timer := time.NewTimer(max(wait, 0))
		select {
		case <-timer.C:
		case <-e.agenda.poke:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return nil
}

// skewed is an error when this machine's clock is not that of the store.
func (e *Engine) skewed(ctx context.Context) error {
	now, err := e.now(ctx)
	if err != nil {
		return err
	}
	if d := time.Since(now); d > maxSkew || d < -maxSkew {
		return fmt.Errorf("this machine's clock is %v off the store's: set it right (with NTP), other servers start the schedules meanwhile", d.Round(time.Second))
	}
	return nil
}

// tickDue starts all that is due, and says when the next is.
func (e *Engine) tickDue(ctx context.Context) (time.Time, error) {
	keys, _ := e.agenda.due(time.Now())
	slices.Sort(keys)
	for _, key := range keys {
		if err := e.tick(ctx, key); err != nil {
			return time.Time{}, fmt.Errorf("schedule %s: %w", key, err)
		}
	}
	_, next := e.agenda.due(time.Now())
	return next, nil
}

// tick starts what one schedule starts for the times that have come.
func (e *Engine) tick(ctx context.Context, key string) error {
	for range conflictTries {
		d, err := e.store.Doc(ctx, DocSchedule, key)
		if errors.Is(err, haulier.ErrNotFound) {
			e.agenda.put(key, time.Time{})
			return nil
		}
		if err != nil {
			return err
		}
		s, err := parseSchedule(&d)
		if err != nil {
			return err
		}
		c, err := cronOf(s)
		if err != nil { // a zone that this machine does not know
			return err
		}
		now := time.Now().UTC()
		if s.Next.IsZero() || s.Next.After(now) {
			e.agenda.put(key, s.Next)
			return nil
		}
		err = e.start(ctx, &d, s, times(s, c, now), upcoming(s, c, now), "schedule "+s.Name)
		if !errors.Is(err, haulier.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("%w: others keep changing it", haulier.ErrConflict)
}

// times are those from s.Next up to now for which something is to be started, the earliest first.
func times(s *haulier.Schedule, c *calendar.Cron, now time.Time) []time.Time {
	most := map[haulier.Missed]int{haulier.MissedOnce: 1, haulier.MissedAll: s.MissedMost}[s.Missed]
	var out []time.Time
	for t := c.Prev(now); !t.IsZero() && !t.Before(s.Next); t = c.Prev(t.Add(-time.Nanosecond)) {
		if !s.End.IsZero() && t.After(s.End) {
			continue
		}
		if now.Sub(t) > lateAfter {
			if most == 0 {
				break
			}
			most--
		}
		out = append(out, t.UTC())
	}
	slices.Reverse(out)
	return out
}

// start adds the jobs of some times of a schedule and moves it on, in one commit.
func (e *Engine) start(ctx context.Context, d *haulier.Doc, s *haulier.Schedule, ticks []time.Time, next time.Time, by string) error {
	now, err := e.now(ctx)
	if err != nil {
		return err
	}
	t := flow.Begin(e.store, now)
	for _, tick := range ticks {
		if err := e.startOne(ctx, t, s, tick, now, by); err != nil {
			return err
		}
	}
	s.Next = next
	value, err := json.Marshal(s)
	if err != nil {
		return err
	}
	b := haulier.Batch{Sync: true, Docs: []haulier.DocWrite{{Kind: DocSchedule, Key: d.Key, Expect: d.Rev, Value: value}}}
	work, err := t.Flush(ctx, &b)
	if err == nil {
		err = e.commit(ctx, &b, work)
	}
	if err == nil {
		e.agenda.put(d.Key, s.Next)
	}
	return err
}

// startOne adds the job of one time, unless the overlap policy leaves it out.
func (e *Engine) startOne(ctx context.Context, t *flow.Tx, s *haulier.Schedule, tick, now time.Time, by string) error {
	if s.Last != nil && (s.Overlap == haulier.OverlapSkip || s.Overlap == haulier.OverlapReplace) {
		last, err := t.Job(ctx, s.Last.Job)
		if err != nil {
			return err
		}
		if last != nil && !last.State.Terminal() {
			if s.Overlap == haulier.OverlapSkip {
				s.Skipped++
				return nil
			}
			ev := haulier.Event{Kind: haulier.EventCancel, By: by, Error: "replaced by the next run of its schedule"}
			if next, err := last.Next(ev, now); err == nil { // or it is being cancelled already
				if err := t.Set(ctx, last, next); err != nil {
					return err
				}
			}
		}
	}
	spec := occurrence(s, tick, now)
	if err := complete(&spec, now); err != nil {
		return err
	}
	ids, err := t.Add(ctx, []haulier.Job{{Spec: spec, Status: spec.First(now, by)}})
	switch {
	case errors.Is(err, haulier.ErrInvalid), errors.Is(err, haulier.ErrConflict):
		// What it needs has gone, or a unique key is taken: that is so at this time, and the schedule goes on.
		e.log.Warn("a schedule's job was refused", "schedule", s.Name, "tenant", s.Tenant, "tick", tick, "err", err)
		s.Skipped++
		return nil
	case err != nil:
		return err
	}
	s.Started++
	s.Last = &haulier.ScheduleRun{Tick: tick, Job: ids[0]}
	return nil
}

// occurrence is the job of one time.
func occurrence(s *haulier.Schedule, tick, now time.Time) haulier.Spec {
	spec := s.Job.Spec(s.Tenant, now)
	spec.ID, spec.CreatedAt = haulier.NewID(now), now.UTC().Truncate(time.Microsecond)
	if s.Jitter > 0 {
		h := fnv.New64a()
		fmt.Fprintf(h, "%s/%s %d", s.Tenant, s.Name, tick.Unix())
		spec.RunAt = tick.Add(time.Duration(h.Sum64() % uint64(s.Jitter))).Truncate(time.Microsecond)
	}
	spec.Labels = maps.Clone(spec.Labels)
	if spec.Labels == nil {
		spec.Labels = map[string]string{}
	}
	spec.Labels[haulier.LabelSchedule], spec.Labels[haulier.LabelTick] = s.Name, tick.UTC().Format(time.RFC3339)
	if s.Overlap == haulier.OverlapAllow || s.Overlap == haulier.OverlapSkip {
		return spec
	}
	var f haulier.Flow
	if spec.Flow != nil {
		f = *spec.Flow
	}
	key := "schedule:" + s.Name
	f.Holds = append(slices.Clone(f.Holds), key)
	f.YieldsTo = append(slices.Clone(f.YieldsTo), haulier.Yield{Key: key})
	if s.Overlap == haulier.OverlapCollapse {
		f.Collapse = key
	}
	spec.Flow = &f
	return spec
}

// RunSchedule implements haulier.Planner.
func (e *Engine) RunSchedule(ctx context.Context, tenant, name, by string) ([]haulier.ID, error) {
	key := tenantOr(tenant) + "/" + name
	for range conflictTries {
		d, err := e.store.Doc(ctx, DocSchedule, key)
		if err != nil {
			return nil, fmt.Errorf("schedule %s: %w", name, err)
		}
		s, err := parseSchedule(&d)
		if err != nil {
			return nil, err
		}
		if s.Overlap == haulier.OverlapSkip {
			s.Last = nil // it was asked for
		}
		before := s.Started
		err = e.start(ctx, &d, s, []time.Time{time.Now().UTC().Truncate(time.Second)}, s.Next, by)
		switch {
		case errors.Is(err, haulier.ErrConflict):
			continue
		case err != nil:
			return nil, fmt.Errorf("schedule %s: %w", name, err)
		case s.Started == before:
			return nil, fmt.Errorf("schedule %s: %w: its job was refused, as the server's log says; `haulier schedules get` shows the job", name, haulier.ErrConflict)
		}
		return []haulier.ID{s.Last.Job}, nil
	}
	return nil, fmt.Errorf("schedule %s: %w: others keep changing it; try again", name, haulier.ErrConflict)
}
