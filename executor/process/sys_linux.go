package process

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownGroup puts a command into a process group of its own, and makes the kernel kill it when the supervisor dies.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// adoptOrphans makes the processes that commands leave behind children of this process.
func adoptOrphans() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// maxRSS is the largest memory that the process used, in bytes.
func (s *exitStatus) maxRSS() int64 {
	return int64(s.usage.Maxrss) << 10 //nolint:unconvert // it is an int32 on machines of 32 bits
}

// ownProgram is the path of the running program, also after the file was replaced.
func ownProgram() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "/proc/self/exe", nil
	}
	return path, nil
}

// withSocket calls f with a path of the socket in dir that is short enough for an address.
func withSocket(dir string, f func(path string) error) error {
	if path := socketPath(dir); len(path) <= maxSocketPath {
		return f(path)
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return f(fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), socketName))
}
