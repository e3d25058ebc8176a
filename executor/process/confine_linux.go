package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/haulier/haulier"
)

// confined puts control group and limits of the command into what it is started with. Limits that only the
// process itself or its tracer can set are for bind, which is called before the program does anything.
func (c *command) confined(sys *syscall.SysProcAttr) (bind func(pid int) error, err error) {
	left := c.spec.Limits
	if c.spec.Cgroup != "" {
		if c.group, err = newCgroup(c.spec.Cgroup, refName(c.spec.Ref), &left); err != nil {
			return nil, fmt.Errorf("%w: control group: %w", errConfine, err)
		}
		sys.UseCgroupFD, sys.CgroupFD = true, int(c.group.dir.Fd())
	}
	if left == (haulier.Limits{}) {
		return nil, nil
	}
	if left.Processes > 0 && c.spec.UID == 0 && os.Geteuid() == 0 {
		c.group.remove()
		return nil, fmt.Errorf("%w: the kernel does not limit the processes of root: give the worker --user, or --cgroup with the controller pids", errConfine)
	}
	sys.Ptrace = true
	return func(pid int) error { return setLimits(pid, &left) }, nil
}

// setLimits sets the limits of a process, which its children inherit.
func setLimits(pid int, l *haulier.Limits) error {
	cpu := uint64(time.Duration(l.CPU) / time.Second)
	for _, r := range []struct {
		what      int
		soft, top uint64
	}{
		{unix.RLIMIT_DATA, uint64(l.Memory), uint64(l.Memory)},
		{unix.RLIMIT_CPU, cpu, cpu + 1}, // SIGXCPU, and a second later KILL
		{unix.RLIMIT_NPROC, uint64(l.Processes), uint64(l.Processes)},
		{unix.RLIMIT_FSIZE, uint64(l.FileSize), uint64(l.FileSize)},
		{unix.RLIMIT_NOFILE, uint64(l.OpenFiles), uint64(l.OpenFiles)},
	} {
		if r.soft == 0 {
			continue
		}
		var old unix.Rlimit
		err := unix.Prlimit(pid, r.what, nil, &old)
		if err == nil { // what is tighter already stays
			err = unix.Prlimit(pid, r.what, &unix.Rlimit{Cur: min(r.soft, old.Max), Max: min(r.top, old.Max)}, nil)
		}
		if err != nil {
			return fmt.Errorf("%w: limit %d: %w", errConfine, r.what, err)
		}
	}
	return nil
}

// confine calls bind on a process that was started to be traced, and has stopped before its first instruction, and lets it go. Only the
// thread that started it may do that. After an error there is no process any more.
func confine(pid int, bind func(int) error) error {
	var st syscall.WaitStatus
	_, err := wait4(pid, &st)
	if err == nil && !st.Stopped() {
		return fmt.Errorf("%w: it ended before it began", errConfine)
	}
	if err == nil {
		err = bind(pid)
	}
	if err == nil {
		err = unix.PtraceDetach(pid)
	}
	if err != nil {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it is there until it is waited for
		_, gone := wait4(pid, &st)
		return errors.Join(err, gone)
	}
	return nil
}

func wait4(pid int, st *syscall.WaitStatus) (int, error) {
	for {
		n, err := syscall.Wait4(pid, st, 0, nil)
		if !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}

// terminate asks all of the command's group to end. A sandbox itself would take everything in it along at once.
func (c *command) terminate(pid int) {
	if c.spec.Sandboxed == 0 {
		signalGroup(pid, syscall.SIGTERM)
		return
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, e := range entries {
		member, err := strconv.Atoi(e.Name())
		if err != nil || member == pid {
			continue
		}
		if group, err := syscall.Getpgid(member); err == nil && group == pid {
			_ = syscall.Kill(member, syscall.SIGTERM) // it may have ended
		}
	}
}

// cgroup is the control group of one command.
type cgroup struct {
	path string
	dir  *os.File
}

// newCgroup makes a group within parent. Limits that its controllers keep are taken out of l.
func newCgroup(parent, name string, l *haulier.Limits) (*cgroup, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(parent, &fs); err != nil {
		return nil, err
	}
	if fs.Type != unix.CGROUP2_SUPER_MAGIC {
		return nil, fmt.Errorf("%w: %s is no folder of control groups of version 2", haulier.ErrInvalid, parent)
	}
	g := &cgroup{path: filepath.Join(parent, "haulier-"+name)}
	controllers, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers"))
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(g.path, 0o755); err != nil && !errors.Is(err, os.ErrExist) { //nolint:gosec // as the kernel makes them
		return nil, err
	}
	for _, has := range strings.Fields(string(controllers)) {
		if err == nil {
			err = g.keep(parent, has, l)
		}
	}
	if err == nil {
		g.dir, err = os.Open(g.path)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(g.path))
	}
	return g, nil
}

// keep has a controller keep those of the limits that are its own.
func (g *cgroup) keep(parent, controller string, l *haulier.Limits) error {
	files := map[string]string{}
	switch {
	case controller == "memory" && l.Memory > 0:
		files["memory.max"], files["memory.swap.max"], files["memory.oom.group"] = strconv.FormatInt(l.Memory, 10), "0", "1"
		l.Memory = 0
	case controller == "pids" && l.Processes > 0:
		files["pids.max"] = strconv.FormatInt(l.Processes, 10)
		l.Processes = 0
	default:
		return nil
	}
	if err := os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+"+controller), 0o644); err != nil {
		return err
	}
	for name, v := range files {
		err := os.WriteFile(filepath.Join(g.path, name), []byte(v), 0o644)
		if err != nil && (name != "memory.swap.max" || !errors.Is(err, os.ErrNotExist)) { // a kernel without swap
			return err
		}
	}
	return nil
}

// groupPoll is how often a group whose processes were killed is looked at.
const groupPoll = 10 * time.Millisecond

// remove kills what is left in the group, also what left the group of processes, and removes it.
func (g *cgroup) remove() {
	if g == nil {
		return
	}
	g.dir.Close()
	_ = os.WriteFile(filepath.Join(g.path, "cgroup.kill"), []byte("1"), 0o644) // kernels before 5.14 lack it
	tick := time.NewTicker(groupPoll)
	defer tick.Stop()
	for range int(closeWait / groupPoll) {
		procs, err := os.ReadFile(filepath.Join(g.path, "cgroup.procs"))
		if err != nil || len(bytes.TrimSpace(procs)) == 0 {
			break
		}
		<-tick.C
	}
	_ = os.Remove(g.path) // what can't be removed has a process that can't be killed; the next start may use it
}
