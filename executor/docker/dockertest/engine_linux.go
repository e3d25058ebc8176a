package dockertest

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes the system end the engine when the tests end, however they do.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
