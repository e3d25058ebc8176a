package pebble

import "golang.org/x/sys/unix"

// bootID names the run of the machine since it was started; "" when it can't be told.
func bootID() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}
