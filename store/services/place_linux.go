package services

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Within calls f in the network namespace of the place; what f starts is there too.
func (p Place) Within(f func() error) error {
	if p.Net == nil {
		return f()
	}
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err == nil {
		err = unix.Setns(int(p.Net.Fd()), unix.CLONE_NEWNET)
	}
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter a network namespace: %w", err)
	}
	defer home.Close()
	err = f()
	if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
		return fmt.Errorf("leave a network namespace: %w", back) // its thread is not used again
	}
	runtime.UnlockOSThread()
	return err
}
