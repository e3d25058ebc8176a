package calendar

import "math/bits"

const dayMinutes = 24 * 60

// minutes is a set of the minutes of a day, a bit for each, from midnight.
type minutes [(dayMinutes + 63) / 64]uint64

// addRange adds the minutes [from, to).
func (m *minutes) addRange(from, to int) {
	for from < to {
		n := min(64-from%64, to-from)
		m[from/64] |= ^uint64(0) >> (64 - n) << (from % 64)
		from += n
	}
}

func (m *minutes) has(minute int) bool { return m[minute/64]&(1<<(minute%64)) != 0 }

// add adds all of another set.
func (m *minutes) add(o *minutes) {
	for i := range m {
		m[i] |= o[i]
	}
}

// addShifted adds n minutes of another set that begin at from there, and at to here.
func (m *minutes) addShifted(o *minutes, from, n, to int) {
	for n > 0 {
		// As many as lie in one word on both sides.
		k := min(64-from%64, 64-to%64, n)
		part := o[from/64] >> (from % 64) & (^uint64(0) >> (64 - k))
		m[to/64] |= part << (to % 64)
		from, to, n = from+k, to+k, n-k
	}
}

// invert makes it the set of the other minutes.
func (m *minutes) invert() {
	for i := range m {
		m[i] = ^m[i]
	}
	m[len(m)-1] &= ^uint64(0) >> (64*len(m) - dayMinutes)
}

// first returns the first minute from one on that is in the set, or -1.
func (m *minutes) first(from int) int {
	if from >= dayMinutes {
		return -1
	}
	i := from / 64
	for word := m[i] >> (from % 64) << (from % 64); ; word = m[i] {
		if word != 0 {
			return i*64 + bits.TrailingZeros64(word)
		}
		if i++; i == len(m) {
			return -1
		}
	}
}
