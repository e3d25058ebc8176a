package redis

import "time"

// SetClock makes the store take its time from now. It is called before the store is used.
func (s *Store) SetClock(now func() time.Time) { s.clock = now }
