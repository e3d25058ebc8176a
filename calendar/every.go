package calendar

import (
	"fmt"
	"time"
)

// parseEvery reads what follows @every.
func (c *Cron) parseEvery(words []string) error {
	if len(words) != 1 {
		return fmt.Errorf("@every needs one duration, as in @every 1h30m")
	}
	d, err := time.ParseDuration(words[0])
	if err != nil {
		return fmt.Errorf("@every: %q is not a duration: write it as 90s, 15m or 1h30m", words[0])
	}
	if d < time.Second || d%time.Second != 0 {
		return fmt.Errorf("@every: %v is not a number of whole seconds: use at least 1s", d)
	}
	c.every = int64(d / time.Second)
	if c.anchor.IsZero() {
		c.anchor = time.Unix(0, 0)
	}
	if u := c.anchor.Unix(); u < earliest || u > latest {
		return fmt.Errorf("@every: the time from which it counts lies outside the years 1 to 9999")
	}
	return nil
}

// ticks is how many intervals of @every have passed at t, and negative before the anchor.
func (c *Cron) ticks(t time.Time) int64 {
	passed := min(max(t.Unix(), earliest-1), latest+1) - c.anchor.Unix()
	if t.Nanosecond() < c.anchor.Nanosecond() {
		passed--
	}
	return floorDiv(passed, c.every)
}

func (c *Cron) tickAfter(t time.Time) time.Time { return c.tick(max(c.ticks(t), 0) + 1) }

func (c *Cron) tickUntil(t time.Time) time.Time { return c.tick(c.ticks(t)) }

// tick returns the nth time, from 1; zero when there is none.
func (c *Cron) tick(n int64) time.Time {
	if n < 1 || n > (latest-c.anchor.Unix())/c.every {
		return time.Time{}
	}
	return time.Unix(c.anchor.Unix()+n*c.every, int64(c.anchor.Nanosecond())).In(c.zone)
}
