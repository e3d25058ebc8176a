package etcd

import "time"

// SetClock makes the store take its time from the function. No call may be under way.
func (s *Store) SetClock(now func() time.Time) { s.clock = now }
