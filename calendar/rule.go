package calendar

import (
	"fmt"
	"strings"
	"time"
)

// recurring is a set of local minutes: those of the day on each day that matches.
type recurring struct {
	days    fields // only the sets of month, day of month and weekday
	minutes minutes
}

// on reports whether the rule has minutes on a local day, counted from 1970.
func (r *recurring) on(month time.Month, dayOfMonth, weekday int) bool {
	return r.days.month&(1<<month) != 0 && r.days.day&(1<<dayOfMonth) != 0 && r.days.weekday&(1<<weekday) != 0
}

// span is one stretch of time, [from, until).
type span struct{ from, until time.Time }

// rule is what the text of one rule says: spans or recurring minutes.
type rule struct {
	zone      *time.Location
	spans     []span
	recurring []recurring
}

// parseRule reads a rule. Its first letters tell the kinds apart.
func parseRule(text string, zone *time.Location) (rule, error) {
	if len(text) > maxText {
		return rule{}, fmt.Errorf("has %d characters: use at most %d, and several rules", len(text), maxText)
	}
	zone, words, err := leadingZone(strings.Fields(text), zone)
	if err != nil {
		return rule{}, err
	}
	r := rule{zone: zone}
	switch {
	case len(words) == 5:
		err = r.parseMinutes(words)
	case len(words) == 1 && isDate(words[0]):
		err = r.parseDates(words[0])
	case len(words) == 1 || len(words) == 2:
		err = r.parseWeekly(words)
	default:
		err = fmt.Errorf("%q is no rule: write five fields as in * 9-17 ? * mon-fri, days and hours as in mon-fri 09:00-17:00, or a date", clip(text))
	}
	return r, err
}

// parseMinutes reads the executor queue's set of minutes.
func (r *rule) parseMinutes(words []string) error {
	if words[2] != "?" && words[4] != "?" {
		return fmt.Errorf("%q cannot contain both days of month and week: write ? for one of them", strings.Join(words, " "))
	}
	var f fields
	if err := f.parse(words, spread{}); err != nil {
		return err
	}
	if f.last {
		return fmt.Errorf("day of month: L stands in schedules alone: write the days, as in 28-31")
	}
	one := recurring{days: f}
	for h := range 24 {
		for m := range 60 {
			if f.hour&(1<<h) != 0 && f.minute&(1<<m) != 0 {
				one.minutes.addRange(h*60+m, h*60+m+1)
			}
		}
	}
	r.recurring = append(r.recurring, one)
	return nil
}

// parseWeekly reads days of the week, hours of the day, or both.
func (r *rule) parseWeekly(words []string) error {
	days, hours := uint64(0x7f), ""
	if first := words[0]; strings.Contains(first, ":") {
		if len(words) == 2 {
			return fmt.Errorf("%q is no rule: write the days before the hours, as in mon-fri 09:00-17:00", strings.Join(words, " "))
		}
		hours = first
	} else {
		f, err := weekday.parse(first, spread{})
		if err != nil {
			return fmt.Errorf("%w, for a rule such as mon-fri 09:00-17:00, or a date such as 2026-12-24", err)
		}
		days = f.bits
	}
	if len(words) == 2 {
		hours = words[1]
	}
	if hours == "" {
		hours = "00:00-24:00"
	}
	for part := range strings.SplitSeq(hours, ",") {
		if err := r.addHours(days, part); err != nil {
			return err
		}
	}
	return nil
}

// addHours adds hours of some weekdays. Hours that pass midnight belong to the day on which they begin.
func (r *rule) addHours(days uint64, text string) error {
	first, second, ok := strings.Cut(text, "-")
	from, okFrom := clockMinute(first)
	until, okUntil := clockMinute(second)
	if !ok || !okFrom || !okUntil || from == dayMinutes {
		return fmt.Errorf("%q are no hours: write them as 09:00-17:00, from 00:00 to 24:00", clip(text))
	}
	if from == until {
		return fmt.Errorf("%q is empty: write 00:00-24:00 for the whole day", text)
	}
	if until > from {
		r.addWeekly(days, from, until)
		return nil
	}
	r.addWeekly(days, from, dayMinutes)
	r.addWeekly((days<<1|days>>6)&0x7f, 0, until)
	return nil
}

func (r *rule) addWeekly(days uint64, from, until int) {
	if from == until {
		return
	}
	one := recurring{days: fields{month: month.span(month.lo, month.hi, 1), day: day.span(day.lo, day.hi, 1), weekday: days}}
	one.minutes.addRange(from, until)
	r.recurring = append(r.recurring, one)
}

// clockMinute reads hh:mm up to 24:00.
func clockMinute(text string) (int, bool) {
	hh, mm, ok := strings.Cut(text, ":")
	h, okHour := number(hh)
	m, okMinute := number(mm)
	return h*60 + m, ok && okHour && okMinute && len(hh) <= 2 && len(mm) == 2 && m < 60 && h*60+m <= dayMinutes
}

// isDate reports whether a text begins with a year.
func isDate(text string) bool {
	return len(text) > 4 && text[4] == '-' && strings.Trim(text[:4], "0123456789") == ""
}

// parseDates reads a day, the first and the last day of several, or two instants.
func (r *rule) parseDates(text string) error {
	first, last, isRange := strings.Cut(text, "/")
	if !isRange {
		last = first
	}
	from, _, err := r.date(first)
	if err != nil {
		return err
	}
	_, until, err := r.date(last)
	if err != nil {
		return err
	}
	if strings.Contains(first, "T") != strings.Contains(last, "T") {
		return fmt.Errorf("%q goes from a day to an instant: write both in the same way", text)
	}
	if !from.Before(until) {
		return fmt.Errorf("%q has no time in it: write the earlier one first, and two instants with a / between", text)
	}
	r.spans = append(r.spans, span{from, until})
	return nil
}

// date reads a day, and returns when it begins and ends, or an instant, which is both.
func (r *rule) date(text string) (from, until time.Time, err error) {
	if strings.Contains(text, "T") {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil || at.Unix() < earliest || at.Unix() > latest {
			return from, until, fmt.Errorf("%q is no instant: write it as 2026-12-24T12:00:00Z or with an offset such as +01:00", clip(text))
		}
		return at, at, nil
	}
	at, err := time.Parse(time.DateOnly, text)
	if err != nil || at.Year() < 1 {
		return from, until, fmt.Errorf("%q is no day: write it as 2026-12-24, or two with a / between", clip(text))
	}
	begin := reach(r.zone, at.Unix())
	end := reach(r.zone, at.Unix()+daySeconds)
	return time.Unix(begin, 0).UTC(), time.Unix(end, 0).UTC(), nil
}
