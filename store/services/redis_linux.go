package services

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes the system end the process when this one ends, however it does.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
