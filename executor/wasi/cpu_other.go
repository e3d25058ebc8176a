//go:build !linux

package wasi

import "time"

// threadClock returns the time that has passed: this system does not tell that of a thread to others.
func threadClock() func() (time.Duration, bool) {
	begin := time.Now()
	return func() (time.Duration, bool) { return time.Since(begin), true }
}
