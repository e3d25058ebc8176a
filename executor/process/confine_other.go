//go:build unix && !linux

package process

import (
	"fmt"
	"syscall"

	"github.com/haulier/haulier"
)

type cgroup struct{}

func (*cgroup) remove() {}

// confined refuses limits: only Linux sets them for another process.
func (c *command) confined(*syscall.SysProcAttr) (func(int) error, error) {
	if c.spec.confined() {
		return nil, fmt.Errorf("%w: %w: limits, user and sandbox are for Linux alone", errConfine, haulier.ErrInvalid)
	}
	return nil, nil
}

func (c *command) terminate(pid int) { signalGroup(pid, syscall.SIGTERM) }

func confine(pid int, bind func(int) error) error { return bind(pid) }
