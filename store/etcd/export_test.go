package etcd

import (
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/haulier/haulier"
)

// SetClock makes the store take its time from the function. No call may be under way.
func (s *Store) SetClock(now func() time.Time) { s.clock = now }

// Small makes options of a store that takes little for large.
func Small(o Options) Options {
	o.sizes = sizes{page: 3, line: 2}
	return o
}

// What FuzzTexts looks at.
var (
	LaneText  = laneText
	ParseLane = parseLane
	BandText  = bandText
	ParseBand = parseBand
)

// ReadTexts reads bytes as each thing that etcd or a caller may hand in, and returns the errors.
func ReadTexts(a, b string) []error {
	s := &Store{clock: time.Now}
	v := newView(s)
	kv := &mvccpb.KeyValue{Key: []byte(a), Value: []byte(b)}
	_, cursorErr := parseCursor(a)
	_, idErr := lastID(a)
	c := cutter{rest: []byte(a)}
	c.by()
	e, entryErr := c.entry()
	if entryErr == nil {
		v.apply(&e, false, 1)
	}
	_, addressErr := parseAddress(a)
	return []error{
		cursorErr, idErr, entryErr, addressErr,
		v.loadReady(kv, a), v.loadTimer(kv, a), v.loadOwned(kv, a), v.loadBlocked(kv, a), v.loadDone(kv, a), v.loadLease(kv, a),
	}
}

// Entry writes changes as an entry of the log, and reads them.
func Entry(changes []haulier.JobChange) ([]haulier.JobChange, error) {
	c := cutter{rest: (&entry{changes: changes}).append(nil, "origin", 7)}
	c.by()
	e, err := c.entry()
	return e.changes, err
}
