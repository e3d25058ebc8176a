package calendar

import "time"

// nextReached returns the second after t at which the clock first reaches a time that matches: once for
// each such time, whether the clock shows it once, twice or never.
func (f *fields) nextReached(zone *time.Location, t int64) (int64, bool) {
	local, ok := f.next(reached(zone, t))
	if !ok {
		return 0, false
	}
	at := reach(zone, local)
	return at, at <= latest
}

// prevReached is nextReached backwards, up to and including t.
func (f *fields) prevReached(zone *time.Location, t int64) (int64, bool) {
	local, ok := f.prev(reached(zone, t))
	if !ok {
		return 0, false
	}
	at := reach(zone, local)
	return at, at >= earliest
}

// nextShown returns the first second after t at which the clock shows a time that matches.
func (f *fields) nextShown(zone *time.Location, t int64) (int64, bool) {
	for t < latest {
		local, ok := f.next(upcoming(zone, t+1))
		if !ok {
			return 0, false
		}
		// Nothing that matches comes sooner than this local time could, anywhere.
		from, to := max(t+1, local-widest), local+widest
		for p := range pieces(zone, from, to) {
			if m, ok := f.next(p.start + p.offset); ok && m < p.end+p.offset {
				return m - p.offset, m-p.offset <= latest
			}
		}
		t = to
	}
	return 0, false
}

// prevShown is nextShown backwards, up to and including t.
func (f *fields) prevShown(zone *time.Location, t int64) (int64, bool) {
	for t >= earliest {
		local, ok := f.prev(reached(zone, t))
		if !ok {
			return 0, false
		}
		from, to := local-widest, min(t, local+widest)
		found, at := false, int64(0)
		for p := range pieces(zone, from, to) {
			if m, ok := f.prev(p.end + p.offset); ok && m >= p.start+p.offset {
				found, at = true, m-p.offset
			}
		}
		if found {
			return at, at >= earliest
		}
		t = from - 1
	}
	return 0, false
}
