package calendar

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/haulier/haulier"
)

var (
	hashedStep  = regexp.MustCompile(`^H/\d+$`)
	hashedRange = regexp.MustCompile(`^H\(\d+-\d+\)$`)
)

// ExecutorCron returns the plain expression that the executor queue makes of one with H for the
// job of this id: the minute is always one that the hash decides, and H/n counts from the hashed value on, not
// from the beginning. It takes exactly five fields; the rest of them is not looked at.
func ExecutorCron(expr, jobID string) (string, error) {
	words := strings.Fields(expr)
	if len(words) != 5 {
		return "", &haulier.FieldError{Field: "cron", Msg: fmt.Sprintf("%s does not have exactly 5 fields", clip(expr))}
	}
	if words[0] != "H" && !hashedRange.MatchString(words[0]) {
		words[0] = "H"
	}
	h := newSpread(jobID)
	for i, u := range []*unit{&minute, &hour, &day, &month, &weekday} {
		items := strings.Split(words[i], ",")
		for k, item := range items {
			var err error
			if items[k], err = u.executorItem(item, h); err != nil {
				return "", &haulier.FieldError{Field: "cron", Msg: err.Error()}
			}
		}
		words[i] = strings.Join(items, ",")
	}
	return strings.Join(words, " "), nil
}

func (u *unit) executorItem(item string, h spread) (string, error) {
	switch {
	case item == "H":
		return fmt.Sprint(h.within(u.lo, u.hi)), nil
	case hashedStep.MatchString(item):
		return fmt.Sprintf("%d%s", h.within(u.lo, u.hi), item[1:]), nil
	case hashedRange.MatchString(item):
		first, second, _ := strings.Cut(item[2:len(item)-1], "-")
		lo, okLo := number(first)
		hi, okHi := number(second)
		if !okLo || !okHi || lo < u.lo || hi > u.hi || lo > hi {
			return "", fmt.Errorf("%s has an invalid range, expected range %d-%d", clip(item), u.lo, u.hi)
		}
		return fmt.Sprint(h.within(lo, hi)), nil
	}
	return item, nil
}

// ExecutorThaw returns when a build that would start at t starts under the freeze windows of the executor
// queue, each of five fields, in UTC. As there, the second and its fractions stay
// those of t, and a window of nothing but * and ? freezes nothing. Windows without any
// opening are a haulier.FieldError.
func ExecutorThaw(freeze []string, t time.Time) (time.Time, error) {
	windows := make([]*Window, 0, len(freeze))
	for i, text := range freeze {
		field := fmt.Sprintf("windows[%d]", i)
		words := strings.Fields(text)
		if len(words) != 5 {
			return t, &haulier.FieldError{Field: field, Msg: fmt.Sprintf("%s does not have exactly 5 fields", clip(text))}
		}
		r, err := parseRule(text, time.UTC)
		if err != nil {
			return t, &haulier.FieldError{Field: field, Msg: err.Error()}
		}
		if everyMinute(words) {
			continue
		}
		w := &Window{def: Definition{Mode: Freeze}}
		w.include(r)
		windows = append(windows, w)
	}
	at, ok := NextOpen(windows, t)
	if !ok {
		return t, &haulier.FieldError{Field: "windows", Msg: "leave no time at which a build may start: take out or narrow one of them"}
	}
	if at.Equal(t) {
		return t, nil
	}
	return at.Add(t.Sub(t.Truncate(time.Minute))), nil
}

// everyMinute reports whether five fields leave nothing out, as they are written.
func everyMinute(words []string) bool { return strings.Trim(strings.Join(words, ""), "*?") == "" }
