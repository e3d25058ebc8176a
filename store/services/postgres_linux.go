package services

import "syscall"

// endsWithTests makes the server end when the tests do, however they end.
func endsWithTests(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as, Pdeathsig: syscall.SIGQUIT}
}
