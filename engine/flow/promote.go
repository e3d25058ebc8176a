package flow

import (
	"context"
	"time"

	"github.com/haulier/haulier"
)

// Of those who wait a few are looked at first: mostly one is called.
const (
	fewWaiters  = 3
	manyWaiters = maxCalled
)

// promote calls who waits at a key, in order, for as long as it is free for them. When it
// will be free at a known time, the head of the line looks again then; its waking calls this again.
//
// So a line always moves on: by the commit that gives the key back, or that takes somebody out of the line; by the time of a
// rate; or when who was called has not come.
func (t *Tx) promote(ctx context.Context, r Rest) (*Rest, error) {
	l, err := t.lock(ctx, r.Tenant, r.Key)
	if err != nil || l.Waiting == 0 {
		return nil, err
	}
	lim, err := t.limit(ctx, r.Tenant, r.Key)
	if err != nil {
		return nil, err
	}
	for n := fewWaiters; ; n = manyWaiters {
		line, err := t.line(ctx, r.Tenant, r.Key, n, l)
		if err != nil || len(line) == 0 {
			return nil, err
		}
		for _, j := range line {
			c := t.caller(j, r.Key, lim)
			ok, until := t.free(c, l, lim)
			if !ok {
				return nil, t.standBy(ctx, j, until)
			}
			if t.left <= 0 {
				return &r, nil
			}
			if err := t.call(ctx, j, r.Key, c, l); err != nil {
				return nil, err
			}
		}
	}
}

// free reports whether a job may be called to a key, or else when that may change by itself; zero: by others only.
func (t *Tx) free(c Call, l *Lock, lim *Limit) (ok bool, until time.Time) {
	if ok, until := l.passes(c); !ok {
		return false, until
	}
	if rated(lim) && l.Free.After(t.now) {
		return false, l.Free
	}
	if len(l.Called) > 0 && rated(lim) || len(l.Called) >= maxCalled {
		for _, c := range l.Called {
			until = earlier(until, c.Until)
		}
		return false, until
	}
	return true, time.Time{}
}

// call sets the first of those free who wait at a key.
func (t *Tx) call(ctx context.Context, j *haulier.Job, key string, c Call, l *Lock) error {
	t.left--
	if err := t.unqueue(ctx, j, key, l); err != nil {
		return err
	}
	l.Gone = c.Order
	t.called(c, l)
	t.putLock(j.Tenant, key)
	return t.change(ctx, j, haulier.Event{Kind: haulier.EventCall, Key: key, By: "server"})
}

// called gives a job the right of way.
func (t *Tx) called(c Call, l *Lock) {
	c.Until = t.now.Add(max(Grace>>min(l.Missed, 16), leastGrace))
	l.Called = append(l.Called, c)
}

// standBy makes the head of a line look again when the time of a rate has come, or when who was called does not come.
func (t *Tx) standBy(ctx context.Context, j *haulier.Job, at time.Time) error {
	if at.IsZero() || j.State == haulier.Scheduled && !at.Before(j.Status.RunAt) {
		return nil
	}
	return t.change(ctx, j, haulier.Event{Kind: haulier.EventStandBy, At: at})
}

// woken takes a job out of the line which has become pending there by itself, and lets the line move on.
// The job is called if the key is free for it; in any case it is looked at when it is claimed.
func (t *Tx) woken(ctx context.Context, j *haulier.Job, key string) error {
	l, err := t.lock(ctx, j.Tenant, key)
	if err != nil {
		return err
	}
	lim, err := t.limit(ctx, j.Tenant, key)
	if err != nil {
		return err
	}
	if err := t.unqueue(ctx, j, key, l); err != nil {
		return err
	}
	c := t.caller(j, key, lim)
	if ok, _ := t.free(c, l, lim); ok {
		t.called(c, l)
	}
	t.putLock(j.Tenant, key)
	t.promoteLater(j.Tenant, key)
	return nil
}
