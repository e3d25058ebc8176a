package calendar

import (
	"fmt"
	"iter"
	"math"
	"strings"
	"time"
)

const (
	// widest is more than any zone differs from UTC, in seconds.
	widest = 26 * 3600
	// earliest and latest are the first and the last second of the years 1 to 9999, in Unix time.
	earliest, latest = -62135596800, 253402300799
)

// Zone finds a time zone by its name in the IANA database, as in Europe/Berlin. An
// empty name is UTC. A program that is to know zones on a machine without the
// database imports time/tzdata.
func Zone(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	// A clock that depends on where the server stands would differ from server to server.
	if zone, err := time.LoadLocation(name); err == nil && name != "Local" && len(name) <= maxText {
		return zone, nil
	}
	return nil, fmt.Errorf("the time zone %q is not known: use a name such as Europe/Berlin or UTC", clip(name))
}

// leadingZone reads an optional TZ=Zone before other words, and returns those. Without
// it the zone is otherwise or, if that is nil, UTC.
func leadingZone(words []string, otherwise *time.Location) (*time.Location, []string, error) {
	if len(words) > 0 {
		if name, ok := strings.CutPrefix(words[0], "TZ="); ok {
			if name == "" {
				return nil, nil, fmt.Errorf("TZ= needs the name of a time zone, as in TZ=Europe/Berlin")
			}
			zone, err := Zone(name)
			return zone, words[1:], err
		}
	}
	if otherwise == nil {
		otherwise = time.UTC
	}
	return otherwise, words, nil
}

// piece is a stretch of time, [start, end) in Unix seconds, in which a zone keeps its offset from UTC.
type piece struct{ start, end, offset int64 }

// pieces cuts the time from one second up to and including another where the offset changes. The last
// piece ends with it.
func pieces(zone *time.Location, from, to int64) iter.Seq[piece] {
	return func(yield func(piece) bool) {
		for from <= to {
			t := time.Unix(from, 0).In(zone)
			_, offset := t.Zone()
			end := offsetEnd(t)
			if !yield(piece{from, min(end, to+1), int64(offset)}) {
				return
			}
			from = end
		}
	}
}

// offsetEnd is a second after t up to which the offset surely stays, mostly the one at which it changes.
func offsetEnd(t time.Time) int64 {
	_, end := t.ZoneBounds()
	if end.IsZero() {
		return math.MaxInt64
	}
	if end.After(t) {
		return end.Unix()
	}
	// The library takes each year that follows the zone's standing rule for one of 365
	// days: on the 366th what it calls the end is past.
	return (floorDiv(t.Unix(), daySeconds) + 1) * daySeconds
}

// reach returns the first second at which the clock shows the local time or a later one. Local
// times are seconds since 1970 by the clock on the wall, as though it were UTC.
func reach(zone *time.Location, local int64) int64 {
	for p := range pieces(zone, local-widest, local+widest) {
		if p.end+p.offset > local {
			return max(p.start, local-p.offset)
		}
	}
	return local + widest // no zone differs that much
}

// reached returns the local time up to which, and without which, the clock has come at t at the latest: what
// it ever showed lies before.
func reached(zone *time.Location, t int64) int64 {
	top := int64(math.MinInt64)
	for p := range pieces(zone, t-2*widest, t) {
		top = max(top, p.end+p.offset)
	}
	return top
}

// upcoming returns the earliest local time that the clock shows at t or later.
func upcoming(zone *time.Location, t int64) int64 {
	low := int64(math.MaxInt64)
	for p := range pieces(zone, t, t+2*widest) {
		low = min(low, p.start+p.offset)
	}
	return low
}

// clip shortens what others wrote for a message.
func clip(s string) string {
	const most = 60
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// floorDiv rounds down, also below zero.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
