package pebble

import (
	"os"
	"strings"
)

// bootID names the run of the machine since it was started; "" when it can't be told.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
