package wasi

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadClock returns what reads how much processor time this thread has used; false: the thread is gone. Other threads may call it.
func threadClock() func() (time.Duration, bool) {
	// The kernel's number of the clock of a thread: its complement, shifted, with the marks "of a thread" and "by the scheduler".
	clock := int32(^unix.Gettid())<<3 | 4 | 2
	return func() (time.Duration, bool) {
		var t unix.Timespec
		if err := unix.ClockGettime(clock, &t); err != nil {
			return 0, false
		}
		return time.Duration(t.Nano()), true
	}
}
