package etcd

import "time"

// SetClock makes the store take its time from the function. No call may be under way.
func (s *Store) SetClock(now func() time.Time) { s.clock = now }

// Small makes options of a store that takes little for large.
func Small(o Options) Options {
	o.sizes = sizes{page: 3, line: 2}
	return o
}
