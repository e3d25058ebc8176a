package postgres

import (
	"context"
	"sync"
	"time"
)

// clock is that of the database, as this machine counts on from where it was measured. It never goes back: where the
// database's clock did, it stands still until that has caught up.
type clock struct {
	mu   sync.Mutex
	at   time.Time // of the database, when it was here
	here time.Time // with its monotonic part
	last time.Time
	test func() time.Time // instead of all this; nil: none
}

// clockAge is after how long the clock is measured again.
const clockAge = 5 * time.Second

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.test != nil {
		return c.test().UTC()
	}
	now := c.at.Add(time.Since(c.here))
	if now.Before(c.last) {
		return c.last
	}
	c.last = now
	return now
}

func (c *clock) set(at, here time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.here = at.UTC(), here
}

func (c *clock) old() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.test == nil && time.Since(c.here) > clockAge
}

// measureClock asks for the time as often as said, and believes the fastest answer.
func (s *Store) measureClock(ctx context.Context, times int) error {
	var best time.Duration
	for i := range times {
		asked := time.Now()
		var at time.Time
		if err := s.pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&at); err != nil {
			return translate(err)
		}
		if took := time.Since(asked); i == 0 || took < best {
			best = took
			s.clock.set(at, asked.Add(took/2))
		}
	}
	return nil
}

// Now implements haulier.Store. When the clock was not compared with the database's for a while, it is, so that
// asking also tells whether the database can be reached.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	if err := s.enter(); err != nil {
		return time.Time{}, err
	}
	defer s.leave()
	if s.clock.old() {
		if err := s.measureClock(ctx, 1); err != nil {
			return time.Time{}, err
		}
	}
	return s.clock.now(), nil
}
