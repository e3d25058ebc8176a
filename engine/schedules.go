package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/calendar"
)

// DocSchedule is the kind of a schedule's document. Its key is tenant/name.
const DocSchedule haulier.DocKind = "schedule"

const (
	defaultMissed = 10
	maxJitter     = 24 * time.Hour
)

// agenda is the view of when schedules are due, by tenant/name. The documents decide; here stands only when to look at which.
type agenda struct {
	mu   sync.Mutex
	at   map[string]time.Time
	puts int
	poke chan struct{}
	old  bool // other servers have changed schedules
}

func newAgenda() *agenda { return &agenda{at: map[string]time.Time{}, poke: make(chan struct{}, 1)} }

// doubt wakes who keeps the schedules, who is to read them again.
func (a *agenda) doubt() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.old = true
	select {
	case a.poke <- struct{}{}:
	default:
	}
}

// doubted reports whether they are to be read again, once.
func (a *agenda) doubted() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	old := a.old
	a.old = false
	return old
}

// put notes when a schedule is due next; zero: not at all.
func (a *agenda) put(key string, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.puts++
	if at.IsZero() {
		delete(a.at, key)
	} else {
		a.at[key] = at
	}
	select {
	case a.poke <- struct{}{}:
	default:
	}
}

// due lists what is due, and says when the next is, zero: nothing is.
func (a *agenda) due(now time.Time) (keys []string, next time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, at := range a.at {
		switch {
		case !at.After(now):
			keys = append(keys, key)
		case next.IsZero() || at.Before(next):
			next = at
		}
	}
	return keys, next
}

// loaded replaces the view, unless somebody has changed it since the count of puts was read.
func (a *agenda) loaded(at map[string]time.Time, puts int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.puts != puts {
		return false
	}
	a.at = at
	return true
}

func (a *agenda) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.puts
}

// loadSchedules reads when schedules are due: those of other servers, and of those before this one.
func (e *Engine) loadSchedules(ctx context.Context) error {
	for ctx.Err() == nil {
		puts, seen := e.agenda.count(), map[string]time.Time{}
		err := e.eachSchedule(ctx, "", func(key string, s *haulier.Schedule) {
			if !s.Next.IsZero() {
				seen[key] = s.Next
			}
		})
		if err != nil || e.agenda.loaded(seen, puts) {
			return err
		}
	}
	return nil
}

func (e *Engine) eachSchedule(ctx context.Context, prefix string, f func(key string, s *haulier.Schedule)) error {
	for after := prefix; ; {
		docs, err := e.store.Docs(ctx, DocSchedule, prefix, after, 200)
		if err != nil || len(docs) == 0 {
			return err
		}
		for i := range docs {
			after = docs[i].Key
			s, err := parseSchedule(&docs[i])
			if err != nil {
				return err
			}
			f(after, s)
		}
	}
}

func parseSchedule(d *haulier.Doc) (*haulier.Schedule, error) {
	s := new(haulier.Schedule)
	if err := json.Unmarshal(d.Value, s); err != nil {
		return nil, fmt.Errorf("schedule %s: %w: %w", d.Key, haulier.ErrCorrupt, err)
	}
	return s, nil
}

// cronOf compiles when a schedule is due.
func cronOf(s *haulier.Schedule) (*calendar.Cron, error) {
	zone, err := calendar.Zone(s.Zone)
	if err != nil {
		return nil, field("zone", err.Error())
	}
	expr := s.Cron
	if s.Executor {
		if expr, err = calendar.ExecutorCron(expr, s.Name); err != nil {
			return nil, err
		}
	}
	return calendar.Parse(expr, calendar.Options{Zone: zone, Key: s.Name, Anchor: s.CreatedAt})
}

// upcoming is the schedule's first time after t; zero: it has none.
func upcoming(s *haulier.Schedule, c *calendar.Cron, t time.Time) time.Time {
	if s.Paused {
		return time.Time{}
	}
	if before := s.Start.Add(-time.Second); t.Before(before) {
		t = before
	}
	next := c.Next(t)
	if !s.End.IsZero() && next.After(s.End) {
		return time.Time{}
	}
	return next
}

// SetSchedule implements haulier.Planner.
func (e *Engine) SetSchedule(ctx context.Context, s haulier.Schedule) (haulier.Schedule, error) {
	now := time.Now().UTC()
	if err := completeSchedule(&s, now); err != nil {
		return s, err
	}
	return e.changeSchedule(ctx, s.Tenant, s.Name, true, func(old *haulier.Schedule) (*haulier.Schedule, error) {
		v := s
		v.ScheduleStanding = haulier.ScheduleStanding{CreatedAt: now.Truncate(time.Second)}
		if old != nil {
			v.ScheduleStanding = old.ScheduleStanding
		}
		c, err := cronOf(&v)
		if err != nil {
			return nil, err
		}
		same := old != nil && old.Cron == v.Cron && old.Zone == v.Zone && old.Executor == v.Executor && old.Start.Equal(v.Start)
		if v.Paused || !same || old.Paused || old.Next.IsZero() || !v.End.IsZero() && v.Next.After(v.End) {
			v.Next = upcoming(&v, c, now)
		}
		return &v, nil
	})
}

// changeSchedule writes what f makes of a schedule, anew when somebody else was faster.
func (e *Engine) changeSchedule(ctx context.Context, tenant, name string, may bool, f func(*haulier.Schedule) (*haulier.Schedule, error)) (haulier.Schedule, error) {
	key := tenant + "/" + name
	for range conflictTries {
		w := haulier.DocWrite{Kind: DocSchedule, Key: key}
		var old *haulier.Schedule
		d, err := e.store.Doc(ctx, DocSchedule, key)
		switch {
		case err == nil:
			if old, err = parseSchedule(&d); err != nil {
				return haulier.Schedule{}, err
			}
			w.Expect = d.Rev
		case !errors.Is(err, haulier.ErrNotFound):
			return haulier.Schedule{}, fmt.Errorf("schedule %s: %w", name, err)
		case !may:
			return haulier.Schedule{}, fmt.Errorf("schedule %s: %w: `haulier schedules list` shows those of tenant %s", name, haulier.ErrNotFound, tenant)
		}
		v, err := f(old)
		if err != nil {
			return haulier.Schedule{}, err
		}
		if v != nil {
			if w.Value, err = json.Marshal(v); err != nil {
				return *v, fmt.Errorf("schedule %s: %w: %w", name, haulier.ErrInvalid, err)
			}
			if len(w.Value) > haulier.MaxDoc {
				return *v, &haulier.FieldError{Field: "job", Kind: haulier.ErrTooLarge, Msg: "is too large for a schedule: keep what it needs elsewhere, and name it in the payload"}
			}
		}
		err = e.store.Commit(ctx, &haulier.Batch{Docs: []haulier.DocWrite{w}, Sync: true, Tell: true})
		switch {
		case errors.Is(err, haulier.ErrConflict):
			continue
		case err != nil:
			return haulier.Schedule{}, fmt.Errorf("schedule %s: %w", name, err)
		case v == nil:
			e.agenda.put(key, time.Time{})
			return haulier.Schedule{}, nil
		}
		e.agenda.put(key, v.Next)
		return *v, nil
	}
	return haulier.Schedule{}, fmt.Errorf("schedule %s: %w: others keep changing it; try again", name, haulier.ErrConflict)
}

func completeSchedule(s *haulier.Schedule, now time.Time) error {
	if s.Tenant == "" {
		s.Tenant = haulier.DefaultTenant
	}
	if s.Overlap == "" {
		s.Overlap = haulier.OverlapAllow
	}
	if s.Missed == "" {
		s.Missed = haulier.MissedOnce
	}
	if s.Missed == haulier.MissedAll && s.MissedMost == 0 {
		s.MissedMost = defaultMissed
	}
	if err := first(
		func() error { return checkName("tenant", s.Tenant) },
		func() error { return checkName("name", s.Name) },
		func() error { return checkPlan(s) },
	); err != nil {
		return err
	}
	if _, err := cronOf(s); err != nil {
		return err
	}
	if s.Job == nil {
		return field("job", "is missing: say what is started")
	}
	if err := checkTemplate(s.Job); err != nil {
		return err
	}
	spec := occurrence(s, now, now)
	if err := complete(&spec, now); err != nil {
		return inField("job", err)
	}
	if len(spec.Payload) > haulier.MaxPayload {
		return &haulier.FieldError{Field: "job.payload", Kind: haulier.ErrTooLarge, Msg: fmt.Sprintf("is longer than the %d bytes that a schedule keeps", haulier.MaxPayload)}
	}
	return nil
}

func checkTemplate(t *haulier.Template) error {
	switch {
	case t.Payload != nil && t.PayloadBytes != nil:
		return field("job.payload_bytes", "is given besides payload: send one of them")
	case t.RetryFor < 0:
		return field("job.retry_for", "is negative: leave it out for no deadline")
	}
	return nil
}

// checkPlan checks what a schedule says besides its job and its times.
func checkPlan(s *haulier.Schedule) error {
	switch s.Overlap {
	case haulier.OverlapAllow, haulier.OverlapSkip, haulier.OverlapWait, haulier.OverlapCollapse, haulier.OverlapReplace:
	default:
		return field("overlap", fmt.Sprintf("%.20q is none of allow, skip, wait, collapse, replace", s.Overlap))
	}
	switch s.Missed {
	case haulier.MissedNone, haulier.MissedOnce, haulier.MissedAll:
	default:
		return field("missed", fmt.Sprintf("%.20q is none of none, once, all", s.Missed))
	}
	switch {
	case s.Missed == haulier.MissedAll && (s.MissedMost < 1 || s.MissedMost > haulier.MaxMissed):
		return field("missed_most", fmt.Sprintf("must be from 1 to %d", haulier.MaxMissed))
	case s.Jitter < 0 || time.Duration(s.Jitter) > maxJitter:
		return field("jitter", "must be positive, and at most 24h")
	case !s.End.IsZero() && s.End.Before(s.Start):
		return field("end", "is before start")
	case s.Job != nil && s.Job.Flow != nil && s.Job.Collapse != "" && s.Overlap == haulier.OverlapCollapse:
		return field("job.collapse", "can't be combined with overlap collapse, which has a key of its own")
	}
	return nil
}

// inField puts the name of an object before that of its wrong field.
func inField(name string, err error) error {
	var f *haulier.FieldError
	if errors.As(err, &f) {
		return &haulier.FieldError{Field: name + "." + f.Field, Msg: f.Msg, Kind: f.Kind}
	}
	return fmt.Errorf("%s: %w", name, err)
}

// Schedules implements haulier.Planner.
func (e *Engine) Schedules(ctx context.Context, tenant string) ([]haulier.Schedule, error) {
	var out []haulier.Schedule
	err := e.eachSchedule(ctx, tenantOr(tenant)+"/", func(_ string, s *haulier.Schedule) { out = append(out, *s) })
	if err != nil {
		return nil, fmt.Errorf("schedules: %w", err)
	}
	return out, e.lastStates(ctx, out)
}

// Schedule implements haulier.Planner.
func (e *Engine) Schedule(ctx context.Context, tenant, name string) (haulier.Schedule, error) {
	d, err := e.store.Doc(ctx, DocSchedule, tenantOr(tenant)+"/"+name)
	if err != nil {
		return haulier.Schedule{}, fmt.Errorf("schedule %s: %w", name, err)
	}
	s, err := parseSchedule(&d)
	if err != nil {
		return haulier.Schedule{}, err
	}
	one := []haulier.Schedule{*s}
	err = e.lastStates(ctx, one)
	return one[0], err
}

// lastStates looks up how what was started last stands.
func (e *Engine) lastStates(ctx context.Context, list []haulier.Schedule) error {
	var ids []haulier.ID
	var of []int
	for i := range list {
		if list[i].Last != nil {
			ids, of = append(ids, list[i].Last.Job), append(of, i)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	jobs, err := e.store.Jobs(ctx, ids)
	if err != nil {
		return fmt.Errorf("schedules: %w", err)
	}
	for k, j := range jobs {
		if j != nil {
			list[of[k]].Last.State = j.State
		}
	}
	return nil
}

func tenantOr(tenant string) string {
	if tenant == "" {
		return haulier.DefaultTenant
	}
	return tenant
}

// DeleteSchedule implements haulier.Planner.
func (e *Engine) DeleteSchedule(ctx context.Context, tenant, name string) error {
	_, err := e.changeSchedule(ctx, tenantOr(tenant), name, false, func(*haulier.Schedule) (*haulier.Schedule, error) { return nil, nil })
	return err
}

// PauseSchedule implements haulier.Planner.
func (e *Engine) PauseSchedule(ctx context.Context, tenant, name string, paused bool) (haulier.Schedule, error) {
	return e.changeSchedule(ctx, tenantOr(tenant), name, false, func(old *haulier.Schedule) (*haulier.Schedule, error) {
		if old.Paused == paused {
			return old, nil
		}
		c, err := cronOf(old)
		if err != nil {
			return nil, err
		}
		old.Paused = paused
		old.Next = upcoming(old, c, time.Now())
		return old, nil
	})
}
