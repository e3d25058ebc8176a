package calendar

import (
	"slices"
	"time"
)

// outlook is how far ahead a search looks, beyond the last date that a rule names, in seconds: fifty
// years. The rarest day that rules can name, a 29 February on one weekday, is at most forty away.
const outlook = 50 * 366 * daySeconds

// Closed reports whether no job may start at t.
func (w *Window) Closed(t time.Time) bool {
	return w.matches(t) == (w.def.Mode == Freeze)
}

// NextOpen returns the first instant from t on at which jobs may start, t itself if
// they may. There is none after the last date of a window that opens by dates alone.
func (w *Window) NextOpen(t time.Time) (time.Time, bool) { return NextOpen([]*Window{w}, t) }

// NextClose returns the first instant from t on at which no job may start, t itself if it is
// such. There is none after the last date of a window that freezes by dates alone.
func (w *Window) NextClose(t time.Time) (time.Time, bool) { return NextClose([]*Window{w}, t) }

// NextOpen returns the first instant from t on at which all windows allow jobs to start, t itself
// if they do, and whether there is one: the windows may have no opening in common. It is
// in the location of t, and exact: just before it, a window was closed.
func NextOpen(windows []*Window, t time.Time) (time.Time, bool) { return search(windows, t, true) }

// NextClose returns the first instant from t on at which any of the windows keeps
// jobs from starting, t itself if one does, and whether there is one.
func NextClose(windows []*Window, t time.Time) (time.Time, bool) { return search(windows, t, false) }

// matches reports whether a rule has the instant.
func (w *Window) matches(t time.Time) bool {
	if w.dated(t) {
		return true
	}
	at := floorDiv(t.Unix(), 60)
	for _, z := range w.zones {
		_, offset := time.Unix(at*60, 0).In(z.zone).Zone()
		local := at + floorDiv(int64(offset), 60)
		day := floorDiv(local, dayMinutes)
		if set := z.on(day); set.has(int(local - day*dayMinutes)) {
			return true
		}
	}
	return false
}

// dated reports whether a date of the window has the instant.
func (w *Window) dated(t time.Time) bool {
	return slices.ContainsFunc(w.spans, func(s span) bool { return !t.Before(s.from) && t.Before(s.until) })
}

// on returns the minutes at which the rules match on a local day, counted from 1970.
func (z *zoned) on(day int64) (set minutes) {
	_, month, dayOfMonth := time.Unix(day*daySeconds, 0).UTC().Date()
	weekday := weekdayOf(day)
	for i := range z.rules {
		if z.rules[i].on(month, dayOfMonth, weekday) {
			set.add(&z.rules[i].minutes)
		}
	}
	return set
}

// recurs returns the minutes of a day in UTC at which a recurring rule matches.
func (w *Window) recurs(day int64) (set minutes) {
	for i := range w.zones {
		z := &w.zones[i]
		if z.zone == time.UTC {
			here := z.on(day)
			set.add(&here)
			continue
		}
		begin := day * daySeconds
		for p := range pieces(z.zone, begin, begin+daySeconds-1) {
			z.translate(&set, day, minuteFrom(p.start-begin), minuteFrom(p.end-begin), floorDiv(p.offset, 60))
		}
	}
	return set
}

// minuteFrom is the first whole minute that begins at a second or after it.
func minuteFrom(second int64) int { return int((second + 59) / 60) }

// translate adds what the rules say of the minutes [from, until) of a UTC day, while the local
// clock is ahead by a number of minutes.
func (z *zoned) translate(set *minutes, day int64, from, until int, ahead int64) {
	for from < until {
		local := day*dayMinutes + int64(from) + ahead
		localDay := floorDiv(local, dayMinutes)
		minute := int(local - localDay*dayMinutes)
		n := min(until-from, dayMinutes-minute)
		on := z.on(localDay)
		set.addShifted(&on, minute, n, from)
		from += n
	}
}

// search finds the first instant from t on at which the windows are as wanted. Between the dates that
// rules name it goes by days, of which each is a set of minutes.
func search(windows []*Window, t time.Time, open bool) (time.Time, bool) {
	where := t.Location()
	end := lastDate(windows, t).Add(outlook * time.Second)
	for t.Before(end) {
		next := nextDate(windows, t, end)
		if at, ok := searchDays(windows, t, next, open); ok {
			return at.In(where), true
		}
		t = next
	}
	return time.Time{}, false
}

// lastDate is the last instant that a rule names, or t if that is later.
func lastDate(windows []*Window, t time.Time) time.Time {
	for _, w := range windows {
		for _, s := range w.spans {
			if s.until.After(t) {
				t = s.until
			}
		}
	}
	return t
}

// nextDate is the first instant after t that a rule names, and at most end.
func nextDate(windows []*Window, t, end time.Time) time.Time {
	for _, w := range windows {
		for _, s := range w.spans {
			for _, at := range [...]time.Time{s.from, s.until} {
				if at.After(t) && at.Before(end) {
					end = at
				}
			}
		}
	}
	return end
}

// searchDays searches [t, end), in which no span begins or ends.
func searchDays(windows []*Window, t, end time.Time, open bool) (time.Time, bool) {
	live, closed := undecided(windows, t)
	if closed != open && (closed || len(live) == 0) {
		return t, true
	}
	if closed || len(live) == 0 {
		return time.Time{}, false
	}
	minute := floorDiv(t.Unix(), 60)
	day := floorDiv(minute, dayMinutes)
	from := int(minute - day*dayMinutes)
	for last := floorDiv(end.Unix(), daySeconds); day <= last; day++ {
		set := closedOn(live, day)
		if open {
			set.invert()
		}
		if i := set.first(from); i >= 0 {
			at := time.Unix(day*daySeconds+int64(i)*60, 0)
			if at.Before(t) {
				at = t
			}
			return at, at.Before(end)
		}
		from = 0
	}
	return time.Time{}, false
}

// undecided returns the windows of which minutes decide while the dates are as they are at t, and
// whether a date, or the lack of one, closes another.
func undecided(windows []*Window, t time.Time) (live []*Window, closed bool) {
	for _, w := range windows {
		switch dated := w.dated(t); {
		case dated && w.def.Mode == Open:
		case dated:
			return nil, true
		case len(w.zones) > 0:
			live = append(live, w)
		case w.def.Mode == Open:
			return nil, true
		}
	}
	return live, false
}

// closedOn returns the minutes of a UTC day at which any window is closed by its recurring rules.
func closedOn(windows []*Window, day int64) (closed minutes) {
	for _, w := range windows {
		set := w.recurs(day)
		if w.def.Mode == Open {
			set.invert()
		}
		closed.add(&set)
	}
	return closed
}
