//go:build unix && !linux

package process

import (
	"fmt"
	"os"
	"syscall"

	"github.com/haulier/haulier"
)

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func adoptOrphans() error { return nil }

func (s *exitStatus) maxRSS() int64 { return int64(s.usage.Maxrss) }

func ownProgram() (string, error) { return os.Executable() }

func withSocket(dir string, f func(path string) error) error {
	path := socketPath(dir)
	if len(path) > maxSocketPath {
		return fmt.Errorf("state folder %s: %w: its path is too long for a socket; choose one of at most %d bytes", dir, haulier.ErrInvalid, maxSocketPath-len(socketName)-1)
	}
	return f(path)
}
