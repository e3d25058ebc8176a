package calendar

import (
	"fmt"
	"strings"
	"unicode/utf16"
)

// spread is the number by which H differs from key to key. It is not set
// where there is no key.
type spread struct {
	hash uint32
	set  bool
}

// newSpread hashes a key as the executor queue does: over its UTF-16 units, from the last to the first.
func newSpread(key string) spread {
	units := utf16.Encode([]rune(key))
	h := uint32(5381)
	for i := len(units) - 1; i >= 0; i-- {
		h = h*33 ^ uint32(units[i])
	}
	return spread{hash: h, set: key != ""}
}

// within picks a value from lo to hi.
func (s spread) within(lo, hi int) int { return int(s.hash%uint32(hi-lo+1)) + lo }

// hashed reads H, H(a-b), and either with a step, which then runs through the whole
// range from a first value that the key decides.
func (u *unit) hashed(base, steps string, stepped bool, h spread) (field, error) {
	lo, hi := u.lo, u.hi
	if base != "H" {
		inner, ok := strings.CutPrefix(base, "H(")
		inner, closed := strings.CutSuffix(inner, ")")
		if !ok || !closed || !strings.Contains(inner, "-") {
			return field{}, fmt.Errorf("a spread value is written H, H/%d, H(%d-%d) or H(%d-%d)/%d", 2, lo, hi, lo, hi, 2)
		}
		var err error
		if lo, hi, err = u.bounds(inner, false); err != nil {
			return field{}, err
		}
	}
	if !h.set {
		return field{}, fmt.Errorf("what H stands for is decided by a key, and there is none: give one, or write a number")
	}
	if !stepped {
		v := h.within(lo, hi)
		return field{bits: u.span(v, v, 1)}, nil
	}
	step, err := u.step(steps, true, hi-lo+1)
	if err != nil {
		return field{}, err
	}
	return field{bits: u.span(lo+(h.within(lo, hi)-lo)%step, hi, step)}, nil
}
