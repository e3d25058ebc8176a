// Package calendar computes times by rules: when a schedule fires (Cron) and
// when jobs may start (Window). It keeps no state and reads no clock; the time
// zones come from the standard library. What is compiled here never changes, so any
// number of goroutines may use it at the same time.
//
// docs/calendar.md describes the texts that it reads.
package calendar

import (
	"fmt"
	"math/bits"
	"strings"
	"time"

	"github.com/haulier/haulier"
)

// maxText is the length in bytes of the longest expression or rule.
const maxText = 256

// Options complete an expression.
type Options struct {
	// Zone is whose clock counts where the expression doesn't begin with TZ=; nil is UTC.
	Zone *time.Location
	// Key spreads H: the same key gives the same times. Needed if the expression has an H.
	Key string
	// Anchor is from when @every counts: the first time is one interval later.
	// Zero is 1970-01-01T00:00:00Z.
	Anchor time.Time
}

// Cron is a rule with an endless row of times, by the second.
//
// An expression whose hour field has all hours follows the clock as it goes:
// it fires whenever the clock shows a time that matches, in repeated hours as well,
// so that every hour of real time is alike. Any other names times of the day, and each takes
// place once: when the clock first shows it or, where clocks are put forward, first
// shows a later one.
type Cron struct {
	text   string
	zone   *time.Location
	fields fields
	always bool  // every hour of the day is named
	every  int64 // seconds between two times, of @every; otherwise 0
	anchor time.Time
}

// macros are expressions by name.
var macros = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// Parse reads an expression of five or six fields (seconds first), a name such as
// @daily, or @every with a duration. What is wrong is a haulier.FieldError of the field "cron",
// and so is an expression that would never fire.
func Parse(expr string, o Options) (*Cron, error) {
	c, err := parse(expr, o)
	if err != nil {
		return nil, &haulier.FieldError{Field: "cron", Msg: err.Error()}
	}
	return c, nil
}

func parse(expr string, o Options) (*Cron, error) {
	if len(expr) > maxText {
		return nil, fmt.Errorf("has %d characters: use at most %d", len(expr), maxText)
	}
	words := strings.Fields(expr)
	c := &Cron{text: strings.Join(words, " "), zone: o.Zone, anchor: o.Anchor}
	words, err := c.takeZone(words)
	switch {
	case err != nil:
		return nil, err
	case len(words) == 0:
		return nil, fmt.Errorf("is empty: write minute, hour, day of month, month and day of week, as in 0 9 * * mon-fri")
	case words[0] == "@every":
		return c, c.parseEvery(words[1:])
	case len(words) == 1 && strings.HasPrefix(words[0], "@"):
		plain, ok := macros[words[0]]
		if !ok {
			return nil, fmt.Errorf("%q is not known: use @hourly, @daily, @weekly, @monthly, @yearly or @every 1h30m", words[0])
		}
		words = strings.Fields(plain)
	}
	if err := c.fields.parse(words, newSpread(o.Key)); err != nil {
		return nil, err
	}
	c.always = bits.OnesCount64(c.fields.hour) == 24
	return c, nil
}

// takeZone finds the zone, and returns what follows TZ=.
func (c *Cron) takeZone(words []string) ([]string, error) {
	zone, words, err := leadingZone(words, c.zone)
	if err != nil {
		return nil, err
	}
	c.zone = zone
	if _, offset := time.Unix(0, 0).In(zone).Zone(); max(offset, -offset) >= widest {
		return nil, fmt.Errorf("the zone %v is more than %d hours from UTC: use a real one", zone, widest/3600)
	}
	return words, nil
}

// String returns the expression as it was written, with single spaces. Parse with the
// same Options gives the same times again.
func (c *Cron) String() string { return c.text }

// Next returns the first time after the given one, in the zone of the expression. It
// is zero when there is none before the year 10000.
func (c *Cron) Next(after time.Time) time.Time {
	if c.every > 0 {
		return c.tickAfter(after)
	}
	t := max(after.Unix(), earliest)
	if t >= latest {
		return time.Time{}
	}
	if c.always {
		return c.at(c.fields.nextShown(c.zone, t))
	}
	return c.at(c.fields.nextReached(c.zone, t))
}

// Prev returns the last time that is not after t, in the zone of the expression. It
// is zero when there is none: before the year 1, or the first time of @every.
func (c *Cron) Prev(t time.Time) time.Time {
	if c.every > 0 {
		return c.tickUntil(t)
	}
	u := min(t.Unix(), latest)
	if u < earliest {
		return time.Time{}
	}
	if c.always {
		return c.at(c.fields.prevShown(c.zone, u))
	}
	return c.at(c.fields.prevReached(c.zone, u))
}

func (c *Cron) at(unix int64, ok bool) time.Time {
	if !ok {
		return time.Time{}
	}
	return time.Unix(unix, 0).In(c.zone)
}
