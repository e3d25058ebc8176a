package calendar

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/haulier/haulier"
)

// parseField reads one field as the set of its numbers.
func parseField(text string, s *span, hash uint32) (uint64, error) {
	var set uint64
	for item := range strings.SplitSeq(text, ",") {
		part, err := parseItem(item, s, hash)
		if err != nil {
			return 0, fmt.Errorf("%w: %s %q: %w", haulier.ErrInvalid, s.name, text, err)
		}
		set |= part
	}
	return set, nil
}

// parseItem reads *, ?, H, a number or a range, each with a step behind it or not.
func parseItem(item string, s *span, hash uint32) (uint64, error) {
	body, stepText, stepped := strings.Cut(item, "/")
	step := 1
	if stepped {
		n, err := strconv.Atoi(stepText)
		if err != nil || n < 1 || n > s.max {
			return 0, fmt.Errorf("the step %q is no number from 1 to %d", stepText, s.max)
		}
		step = n
	}
	from, to := s.min, top(s)
	switch {
	case body == "*" || body == "?":
	case strings.HasPrefix(body, "h"):
		return hashed(body[1:], s, hash, step, stepped)
	default:
		first, last, ranged := strings.Cut(body, "-")
		var err error
		if from, err = number(first, s); err != nil {
			return 0, err
		}
		if ranged {
			if to, err = number(last, s); err != nil {
				return 0, err
			}
		} else if !stepped {
			to = from
		}
	}
	if from > to {
		return 0, fmt.Errorf("the range goes from %d down to %d", from, to)
	}
	return every(from, to, step), nil
}

// top is the last number that * means: Sunday is counted once.
func top(s *span) int {
	if s.max == 7 {
		return 6
	}
	return s.max
}

func every(from, to, step int) uint64 {
	var set uint64
	for n := from; n <= to; n += step {
		set |= 1 << n
	}
	return set
}

func number(text string, s *span) (int, error) {
	for i, name := range s.names {
		if text == name {
			return s.min + i, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < s.min || n > s.max {
		return 0, fmt.Errorf("%q is no number from %d to %d", text, s.min, s.max)
	}
	return n, nil
}

// hashed is H, H(a-b), H/n or H(a-b)/n: one number of the range by the hash, or each nth from one.
func hashed(rest string, s *span, hash uint32, step int, stepped bool) (uint64, error) {
	from, to := s.min, top(s)
	if rest != "" {
		inner, ok := strings.CutPrefix(rest, "(")
		inner, ok2 := strings.CutSuffix(inner, ")")
		first, last, ok3 := strings.Cut(inner, "-")
		if !ok || !ok2 || !ok3 {
			return 0, fmt.Errorf("what follows H is %q: it goes H or H(a-b)", rest)
		}
		var err error
		if from, err = number(first, s); err == nil {
			to, err = number(last, s)
		}
		if err != nil || from > to {
			return 0, fmt.Errorf("the range of H%s is invalid: it lies within %d-%d", rest, s.min, top(s))
		}
	}
	if !stepped {
		return 1 << (int(hash%uint32(to-from+1)) + from), nil //nolint:gosec // at most 60
	}
	// Within the first step, so that as many come as fit the range.
	n := min(step, to-from+1)
	return every(int(hash%uint32(n))+from, to, step), nil //nolint:gosec // at most 60
}

// hashOf is the hash that spreads H: that of the npm package string-hash, which the
// executor queue uses, so that the same key gets the same numbers there and here.
func hashOf(key string) uint32 {
	h := uint32(5381)
	for i := len(key) - 1; i >= 0; i-- {
		h = h*33 ^ uint32(key[i])
	}
	return h
}
