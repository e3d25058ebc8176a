//go:build !linux

package services

import "syscall"

// endsWithTests keeps a Ctrl-C of the tests from the server, which their end stops.
func endsWithTests(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as, Setpgid: true}
}
