//go:build !linux

package dockertest

import "os/exec"

// dieWithParent is for Linux; there are no engines of the tests' own elsewhere.
func dieWithParent(*exec.Cmd) {}
