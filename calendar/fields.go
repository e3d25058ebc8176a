package calendar

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// unit is one field of an expression: what it counts and from where to where.
type unit struct {
	name  string
	lo    int
	hi    int
	names []string // of its values, from lo
	wraps bool     // hi+1 is lo again, and a range may pass it
	mark  bool     // ? stands for any value
	last  bool     // L stands for the last value
}

var (
	seconds = unit{name: "second", hi: 59}
	minute  = unit{name: "minute", hi: 59}
	hour    = unit{name: "hour", hi: 23}
	day     = unit{name: "day of month", lo: 1, hi: 31, mark: true, last: true}
	month   = unit{name: "month", lo: 1, hi: 12, names: strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")}
	weekday = unit{name: "day of week", hi: 6, names: strings.Fields("sun mon tue wed thu fri sat"), wraps: true, mark: true}
)

// field is the set of values that one field names, a bit for each.
type field struct {
	bits uint64
	any  bool // * or ?: not a restriction
	last bool // the last day of the month as well
}

// fields is an expression: a time matches when each of its parts is in its set.
type fields struct {
	second, minute, hour, day, month, weekday uint64

	last   bool // the last day of a month matches as well
	either bool // it suffices that the day of the month or that of the week matches
}

// parse reads five fields, or six with the seconds first.
func (f *fields) parse(words []string, h spread) error {
	if len(words) != 5 && len(words) != 6 {
		return fmt.Errorf("has %d fields: write minute, hour, day of month, month and day of week, with seconds before them if needed", len(words))
	}
	f.second = 1
	if len(words) == 6 {
		s, err := seconds.parse(words[0], h)
		if err != nil {
			return err
		}
		f.second, words = s.bits, words[1:]
	}
	var parsed [5]field
	for i, u := range []*unit{&minute, &hour, &day, &month, &weekday} {
		var err error
		if parsed[i], err = u.parse(words[i], h); err != nil {
			return err
		}
	}
	f.minute, f.hour, f.month = parsed[0].bits, parsed[1].bits, parsed[3].bits
	f.day, f.last, f.weekday = parsed[2].bits, parsed[2].last, parsed[4].bits
	f.either = !parsed[2].any && !parsed[4].any
	if _, ok := f.next(0); !ok {
		return fmt.Errorf("never fires: no such month has a day %d", bits.TrailingZeros64(f.day))
	}
	return nil
}

// parse reads a list of items.
func (u *unit) parse(text string, h spread) (field, error) {
	var f field
	for item := range strings.SplitSeq(text, ",") {
		one, err := u.item(item, h)
		if err != nil {
			return f, fmt.Errorf("%s %q: %w", u.name, clip(item), err)
		}
		f.bits |= one.bits
		f.any = f.any || one.any
		f.last = f.last || one.last
	}
	return f, nil
}

// item reads *, a value, a range, or H, each with an optional step; or ? or L.
func (u *unit) item(text string, h spread) (field, error) {
	base, steps, stepped := strings.Cut(text, "/")
	switch {
	case text == "?" && u.mark:
		return field{bits: u.span(u.lo, u.hi, 1), any: true}, nil
	case text == "L" && u.last:
		return field{last: true}, nil
	case strings.HasPrefix(base, "H"):
		return u.hashed(base, steps, stepped, h)
	}
	lo, hi, err := u.bounds(base, stepped)
	if err != nil {
		return field{}, err
	}
	step, err := u.step(steps, stepped, u.hi-u.lo+1)
	if err != nil {
		return field{}, err
	}
	return field{bits: u.span(lo, hi, step), any: base == "*" && step == 1}, nil
}

// span has every step-th value from lo to hi.
func (u *unit) span(lo, hi, step int) (set uint64) {
	for v := lo; v <= hi; v += step {
		if u.wraps {
			set |= 1 << (v % (u.hi + 1))
		} else {
			set |= 1 << v
		}
	}
	return set
}

// bounds reads *, a value or a range. A value with a step goes on to the end.
func (u *unit) bounds(text string, stepped bool) (lo, hi int, err error) {
	if text == "*" {
		return u.lo, u.hi, nil
	}
	first, second, isRange := strings.Cut(text, "-")
	if lo, err = u.value(first); err != nil {
		return 0, 0, err
	}
	switch {
	case isRange:
		if hi, err = u.value(second); err != nil {
			return 0, 0, err
		}
	case stepped:
		hi = max(lo, u.hi)
	default:
		hi = lo
	}
	if hi < lo {
		if !u.wraps {
			return 0, 0, fmt.Errorf("runs backwards: write %s-%d,%d-%s", first, u.hi, u.lo, second)
		}
		hi += u.hi + 1
	}
	return lo, hi, nil
}

// value reads a number or a name.
func (u *unit) value(text string) (int, error) {
	for i, name := range u.names {
		if strings.EqualFold(text, name) {
			return u.lo + i, nil
		}
	}
	hi := u.hi
	if u.wraps {
		hi++ // cron has two numbers for Sunday
	}
	v, ok := number(text)
	if !ok {
		if u.names != nil {
			return 0, fmt.Errorf("%q is neither a number from %d to %d nor a name such as %s", clip(text), u.lo, hi, u.names[1])
		}
		return 0, fmt.Errorf("%q is not a number from %d to %d", clip(text), u.lo, hi)
	}
	if v < u.lo || v > hi {
		return 0, fmt.Errorf("%d is out of range: use %d to %d", v, u.lo, hi)
	}
	return v, nil
}

// step reads what follows the slash.
func (u *unit) step(text string, stepped bool, most int) (int, error) {
	if !stepped {
		return 1, nil
	}
	n, ok := number(text)
	if !ok || n < 1 || n > most {
		return 0, fmt.Errorf("a step of %q does not fit here: use 1 to %d, or @every for other intervals", clip(text), most)
	}
	return n, nil
}

// number reads a few digits.
func number(text string) (int, bool) {
	if len(text) == 0 || len(text) > 4 || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}
