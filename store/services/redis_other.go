//go:build !linux

package services

import "os/exec"

// dieWithParent is for Linux; elsewhere a test process that is killed leaves its server behind.
func dieWithParent(*exec.Cmd) {}
