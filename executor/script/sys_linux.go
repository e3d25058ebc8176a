package script

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// ownGroup puts a context into a process group of its own, and makes the kernel kill it when the worker dies.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// rss is how many bytes of memory a process has; 0 when that can't be told.
func rss(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64) // 0 when it is no number
	return pages * int64(os.Getpagesize())
}
