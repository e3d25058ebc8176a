package postgres

import "time"

// SetClock makes the store take its time from a function.
func (s *Store) SetClock(now func() time.Time) {
	s.clock.mu.Lock()
	defer s.clock.mu.Unlock()
	s.clock.test = now
}
