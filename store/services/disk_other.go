//go:build !linux

package services

import "testing"

// SmallDisk skips the test: on this system there is no disk that is made in memory and mounted in one step.
func SmallDisk(tb testing.TB, _, _ string) {
	tb.Helper()
	tb.Skip("small disks are for Linux")
}

// FillDisk is never called where SmallDisk skips.
func FillDisk(tb testing.TB, _ string) (file string) {
	tb.Helper()
	tb.Fatal("small disks are for Linux")
	return ""
}
