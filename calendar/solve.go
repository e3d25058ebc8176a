package calendar

import (
	"math/bits"
	"time"
)

const daySeconds = 24 * 3600

// searched is how many months a search looks at: 29 February is at most eight years away.
const searched = 12*8 + 2

// The methods in this file know no zones: their times are local, in seconds since 1970.

// next returns the first time from t on that matches.
func (f *fields) next(t int64) (int64, bool) {
	u := time.Unix(t, 0).UTC()
	year, month, day := u.Date()
	clock, ok := f.clockFrom(int(t - floorDiv(t, daySeconds)*daySeconds))
	if !ok {
		day++
		clock, _ = f.clockFrom(0)
	}
	for range searched {
		if f.month&(1<<month) != 0 {
			if days := f.days(year, month) >> day << day; days != 0 {
				first := bits.TrailingZeros64(days)
				if first != day {
					clock, _ = f.clockFrom(0)
				}
				return midnight(year, month, first) + int64(clock), true
			}
		}
		day = 1
		clock, _ = f.clockFrom(0)
		if month++; month > time.December {
			year, month = year+1, time.January
		}
	}
	return 0, false
}

// prev returns the last time before t that matches.
func (f *fields) prev(t int64) (int64, bool) {
	t--
	u := time.Unix(t, 0).UTC()
	year, month, day := u.Date()
	clock, ok := f.clockUntil(int(t - floorDiv(t, daySeconds)*daySeconds))
	if !ok {
		day--
		clock, _ = f.clockUntil(daySeconds - 1)
	}
	for range searched {
		if f.month&(1<<month) != 0 {
			if days := f.days(year, month) & (2<<day - 1); days != 0 {
				last := bits.Len64(days) - 1
				if last != day {
					clock, _ = f.clockUntil(daySeconds - 1)
				}
				return midnight(year, month, last) + int64(clock), true
			}
		}
		day = 31
		clock, _ = f.clockUntil(daySeconds - 1)
		if month--; month < time.January {
			year, month = year-1, time.December
		}
	}
	return 0, false
}

// days returns the days of a month that match, as bits 1 to 31.
func (f *fields) days(year int, month time.Month) uint64 {
	first := floorDiv(midnight(year, month, 1), daySeconds)
	length := floorDiv(midnight(year, month+1, 1), daySeconds) - first
	ofMonth := f.day
	if f.last {
		ofMonth |= 1 << length
	}
	on := weekdayOf(first)
	week := (f.weekday>>on | f.weekday<<(7-on)) & 0x7f // from the weekday of the first
	ofWeek := (week | week<<7 | week<<14 | week<<21 | week<<28) << 1
	within := uint64(2)<<length - 2
	if f.either {
		return (ofMonth | ofWeek) & within
	}
	return ofMonth & ofWeek & within
}

// clockFrom returns the first time of day that matches, from a second of the day on.
func (f *fields) clockFrom(second int) (int, bool) {
	h, m, s := second/3600, second/60%60, second%60
	if f.hour&(1<<h) != 0 {
		if f.minute&(1<<m) != 0 {
			if rest := f.second >> s << s; rest != 0 {
				return h*3600 + m*60 + bits.TrailingZeros64(rest), true
			}
		}
		if rest := f.minute >> (m + 1) << (m + 1); rest != 0 {
			return h*3600 + bits.TrailingZeros64(rest)*60 + bits.TrailingZeros64(f.second), true
		}
	}
	rest := f.hour >> (h + 1) << (h + 1)
	if rest == 0 {
		return 0, false
	}
	return bits.TrailingZeros64(rest)*3600 + bits.TrailingZeros64(f.minute)*60 + bits.TrailingZeros64(f.second), true
}

// clockUntil returns the last time of day that matches, up to and including a second of the day.
func (f *fields) clockUntil(second int) (int, bool) {
	h, m, s := second/3600, second/60%60, second%60
	if f.hour&(1<<h) != 0 {
		if f.minute&(1<<m) != 0 {
			if rest := f.second & (2<<s - 1); rest != 0 {
				return h*3600 + m*60 + highest(rest), true
			}
		}
		if rest := f.minute & (1<<m - 1); rest != 0 {
			return h*3600 + highest(rest)*60 + highest(f.second), true
		}
	}
	if rest := f.hour & (1<<h - 1); rest != 0 {
		return highest(rest)*3600 + highest(f.minute)*60 + highest(f.second), true
	}
	return 0, false
}

func highest(set uint64) int { return bits.Len64(set) - 1 }

func midnight(year int, month time.Month, day int) int64 {
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix()
}

// weekdayOf returns the weekday, from Sunday, of a day that is counted from 1970.
func weekdayOf(day int64) int {
	const thursday = 4 // 1 January 1970
	return int(day + thursday - floorDiv(day+thursday, 7)*7)
}
