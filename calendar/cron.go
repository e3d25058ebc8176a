// Package calendar knows the times that rules describe: cron expressions, as schedules use them.
// It is pure: no clock, no I/O.
package calendar

import (
	"fmt"
	"strings"
	"time"

	"github.com/haulier/haulier"
)

// Cron is a rule for recurring times. It is immutable and safe for concurrent use.
//
// An expression has five fields (minute, hour, day of month, month, day of week) or six, with seconds before them: numbers, names of
// months and days, lists, ranges, steps, * and ?. H stands for a number spread by a key, as in Jenkins. When both days are restricted,
// either will do, as in Vixie's cron. Besides there are @hourly, @daily, @weekly, @monthly, @yearly and @every with a duration.
//
// Daylight saving: a time that a day leaves out takes place when the clocks have gone forward; one that comes twice
// takes place the first time. Rules for each hour follow the hours that really pass.
type Cron struct {
	text                   string
	zone                   *time.Location
	sec, min, hour         uint64
	dom, month, dow        uint64
	domAny, dowAny, hourly bool
	every                  time.Duration
}

// Options of a rule.
type Options struct {
	Zone *time.Location // of the fields; nil: UTC
	Key  string         // for H: rules of different keys spread
}

// span is a field's numbers and names.
type span struct {
	name     string
	min, max int
	names    []string // of min and what follows
}

var spans = [6]span{
	{"second", 0, 59, nil},
	{"minute", 0, 59, nil},
	{"hour", 0, 23, nil},
	{"day of month", 1, 31, nil},
	{"month", 1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{"day of week", 0, 7, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

var shorthands = map[string]string{
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
	"@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}

// maxExpression bounds the bytes of an expression.
const maxExpression = 500

// Parse reads an expression. Errors wrap haulier.ErrInvalid and say what is wrong; a
// rule that never comes true, such as the 30th of February, is one.
func Parse(expr string, o Options) (*Cron, error) {
	c := &Cron{text: strings.TrimSpace(expr), zone: o.Zone}
	if c.zone == nil {
		c.zone = time.UTC
	}
	if len(expr) > maxExpression {
		return nil, fmt.Errorf("cron: %w: the expression is longer than %d bytes", haulier.ErrInvalid, maxExpression)
	}
	text := strings.ToLower(c.text)
	if rest, ok := strings.CutPrefix(text, "@every "); ok {
		d, err := time.ParseDuration(strings.TrimSpace(rest))
		if err != nil || d < time.Second {
			return nil, fmt.Errorf("cron %q: %w: @every wants a duration of a second or more, such as 1h30m", c.text, haulier.ErrInvalid)
		}
		c.every = d
		return c, nil
	}
	if long, ok := shorthands[text]; ok {
		text = long
	}
	fields := strings.Fields(text)
	if len(fields) == 5 {
		fields = append([]string{"0"}, fields...)
	}
	if len(fields) != 6 {
		return nil, fmt.Errorf("cron %q: %w: it has %d fields: give five (minute, hour, day of month, month, day of week), or six with seconds first",
			c.text, haulier.ErrInvalid, len(fields))
	}
	var sets [6]uint64
	for i, f := range fields {
		var err error
		if sets[i], err = parseField(f, &spans[i], hashOf(o.Key)); err != nil {
			return nil, fmt.Errorf("cron %q: %w", c.text, err)
		}
	}
	c.sec, c.min, c.hour, c.dom, c.month, c.dow = sets[0], sets[1], sets[2], sets[3], sets[4], sets[5]
	if c.dow&(1<<7) != 0 { // 7 is Sunday too
		c.dow = c.dow&^(1<<7) | 1
	}
	c.domAny, c.dowAny = c.dom == full(&spans[3]), c.dow == full(&span{min: 0, max: 6})
	c.hourly = c.hour == full(&spans[2])
	if c.Next(epoch).IsZero() {
		return nil, fmt.Errorf("cron %q: %w: there is no such day", c.text, haulier.ErrInvalid)
	}
	return c, nil
}

var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// String is the expression as it was given.
func (c *Cron) String() string { return c.text }

// horizon is for how many years a time is looked for: the 29th of February may be eight years off.
const horizon = 9

// Next is the first time after the given one; the zero time when there is none. Rules of @every
// count from the given time.
func (c *Cron) Next(after time.Time) time.Time {
	if c.every > 0 {
		return after.Add(c.every)
	}
	local := after.In(c.zone)
	if c.hourly {
		return c.nextReal(local)
	}
	// By the clock on the wall, as if it never changed; then back to real time.
	wall := naive(local)
	for end := wall.AddDate(horizon, 0, 0); ; {
		wall = c.nextWall(wall.Truncate(time.Second).Add(time.Second), end)
		if wall.IsZero() {
			return time.Time{}
		}
		if t := c.real(wall); t.After(after) {
			return t
		}
	}
}

// naive is the time on the wall, told as if it were UTC.
func naive(t time.Time) time.Time {
	y, m, d := t.Date()
	return time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// nextWall is the first match from t on, before the end, by the clock on the wall.
func (c *Cron) nextWall(t, end time.Time) time.Time {
	for t.Before(end) {
		y, m, d := t.Date()
		switch {
		case c.month&(1<<m) == 0:
			t = time.Date(y, m+1, 1, 0, 0, 0, 0, time.UTC)
		case !c.day(t):
			t = time.Date(y, m, d+1, 0, 0, 0, 0, time.UTC)
		case c.hour&(1<<t.Hour()) == 0:
			t = time.Date(y, m, d, t.Hour()+1, 0, 0, 0, time.UTC)
		case c.min&(1<<t.Minute()) == 0:
			t = time.Date(y, m, d, t.Hour(), t.Minute()+1, 0, 0, time.UTC)
		case c.sec&(1<<t.Second()) == 0:
			t = t.Add(time.Second)
		default:
			return t
		}
	}
	return time.Time{}
}

// nextReal is the first match after t of a rule for each hour, by the time that passes.
func (c *Cron) nextReal(t time.Time) time.Time {
	end := t.AddDate(horizon, 0, 0)
	for t = t.Truncate(time.Second).Add(time.Second); t.Before(end); {
		y, m, d := t.Date()
		before := t
		switch {
		case c.month&(1<<m) == 0:
			t = time.Date(y, m+1, 1, 0, 0, 0, 0, c.zone)
		case !c.day(t):
			t = time.Date(y, m, d+1, 0, 0, 0, 0, c.zone)
		case c.min&(1<<t.Minute()) == 0:
			t = t.Add(time.Minute - time.Duration(t.Second())*time.Second)
		case c.sec&(1<<t.Second()) == 0:
			t = t.Add(time.Second)
		default:
			return t
		}
		if !t.After(before) { // a midnight that the day leaves out
			t = before.Add(time.Hour)
		}
	}
	return time.Time{}
}

// day reports whether the rule holds on the day of t. Of two restricted days either will do.
func (c *Cron) day(t time.Time) bool {
	dom, dow := c.dom&(1<<t.Day()) != 0, c.dow&(1<<t.Weekday()) != 0
	if c.domAny || c.dowAny {
		return dom && dow
	}
	return dom || dow
}

// real is when the clock on the wall first shows the time, or when it has passed over it.
func (c *Cron) real(wall time.Time) time.Time {
	y, m, d := wall.Date()
	t := time.Date(y, m, d, wall.Hour(), wall.Minute(), wall.Second(), 0, c.zone)
	start, end := t.ZoneBounds()
	if shown := naive(t); !shown.Equal(wall) { // left out
		if shown.After(wall) {
			return start
		}
		return end
	}
	if start.IsZero() {
		return t
	}
	_, now := t.Zone()
	_, before := start.Add(-time.Second).Zone()
	if first := t.Add(-time.Duration(before-now) * time.Second); before > now && first.Before(start) && naive(first).Equal(wall) {
		return first
	}
	return t
}

func full(s *span) uint64 {
	return (1<<(s.max-s.min+1) - 1) << s.min
}
