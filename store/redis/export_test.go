package redis

import (
	"time"

	"github.com/redis/rueidis"

	"github.com/haulier/haulier"
)

// SetClock makes the store take its time from now. It is called before the store is used.
func (s *Store) SetClock(now func() time.Time) { s.clock = now }

// What FuzzTexts looks at.
var (
	LaneText  = laneText
	ParseLane = parseLane
	BandText  = bandText
	ParseBand = parseBand
)

// ReadTexts reads bytes as each thing that Redis or a caller may hand in as text, and returns the errors.
func ReadTexts(a, b string) []error {
	_, _, claimErr := parseClaim(a)
	_, cursorErr := parseCursor(a)
	_, countErr := parseCount(a, b)
	_, docErr := parseDoc("other", "k", a)
	_, jobErr := parseJob(a, b)
	_, entryErr := parseEntry(rueidis.XRangeSlice{ID: a, FieldValues: []rueidis.XRangeFieldValue{{Field: "by", Value: a}, {Field: "n", Value: b}}})
	_, changeErr := decodeDetails([]rueidis.XRangeFieldValue{{Field: "before", Value: a}, {Field: a, Value: b}, {Field: b, Value: a}})
	if previous(a, 1) == a {
		changeErr = haulier.ErrConflict // an entry follows itself
	}
	return []error{claimErr, cursorErr, countErr, docErr, jobErr, entryErr, changeErr}
}
