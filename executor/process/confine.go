package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/haulier/haulier"
)

// Confine says what the commands of a worker are kept from. All of it is for Linux.
type Confine struct {
	// Limits of each command; a task may ask for less.
	Limits haulier.Limits
	// User that commands run as, by name. The worker must be root. Empty: the worker's own.
	User string
	// Sandbox runs commands under bubblewrap: they see the system read-only, of the rest their own folder alone, and no other processes.
	Sandbox bool
	// PrivateTmp gives each command a temporary folder of its own, which goes with it. User and Sandbox imply it.
	PrivateTmp bool
	// Cgroup is a folder in a hierarchy of control groups of version 2 that is the worker's to use, with no process in it: each command gets a group
	// there, with the limits of memory and processes as far as the controllers are there, and whatever is left in it is killed. Empty: none.
	Cgroup string
}

// errConfine: this worker can't keep what the command is to be kept to, another may.
var errConfine = errors.New("it can't be confined")

// Names in an attempt's folder.
const tmpFolder = "tmp"

// jail is how a worker confines commands. The zero value does not.
type jail struct {
	c        Confine
	uid, gid int
	account  *user.User // nil: the worker's own
	setpriv  string     // path of the program that becomes the user
	bwrap    string     // path of bubblewrap; empty: no sandbox
}

// newJail checks what c.Confine asks for, and takes from c.Env what is not for confined commands.
func newJail(c *Config) (j jail, err error) {
	j.c = c.Confine
	if j.c != (Confine{}) && runtime.GOOS != "linux" {
		return j, fmt.Errorf("%w: limits, user and sandbox are for Linux alone", haulier.ErrInvalid)
	}
	if j.c.User != "" {
		if j.account, err = user.Lookup(j.c.User); err != nil {
			return j, fmt.Errorf("%w: user %s: %w", haulier.ErrInvalid, j.c.User, err)
		}
		uid, err1 := strconv.Atoi(j.account.Uid)
		gid, err2 := strconv.Atoi(j.account.Gid)
		if err := errors.Join(err1, err2); err != nil {
			return j, fmt.Errorf("user %s: %w", j.c.User, err)
		}
		if os.Geteuid() != 0 || uid == 0 {
			return j, fmt.Errorf("%w: only a worker that runs as root can run commands as another user, and not as root", haulier.ErrInvalid)
		}
		j.uid, j.gid = uid, gid
		if j.setpriv, err = exec.LookPath("setpriv"); err != nil {
			return j, fmt.Errorf("%w: there is no setpriv here, which commands of another user are started by: install util-linux", haulier.ErrInvalid)
		}
	}
	if j.c.Sandbox {
		if j.bwrap, err = exec.LookPath("bwrap"); err != nil {
			return j, fmt.Errorf("%w: there is no bwrap here: install bubblewrap, or leave the sandbox out", haulier.ErrInvalid)
		}
	}
	if j.account != nil || j.bwrap != "" {
		j.c.PrivateTmp = true
		c.Env = slices.DeleteFunc(slices.Clone(c.Env), func(v string) bool { return !harmless(envName(v)) })
	}
	return j, nil
}

// harmless reports whether a variable of the worker's environment is for commands in whom it has less trust.
func harmless(name string) bool {
	return slices.Contains([]string{"PATH", "LANG", "LANGUAGE", "TZ", "HAULIER_URL"}, name) || strings.HasPrefix(name, "LC_")
}

// admit lets the user of the commands into the state folder, of which only they will know the names.
func (j *jail) admit(dir string) error {
	if j.account == nil {
		return nil
	}
	for _, d := range []string{dir, filepath.Join(dir, jobsFolder)} {
		if err := os.Chmod(d, 0o711); err != nil { //nolint:gosec // others may pass, and see nothing
			return err
		}
	}
	abs, err := filepath.Abs(dir)
	for d := abs; err == nil && d != filepath.Dir(d); {
		d = filepath.Dir(d)
		st, err := os.Stat(d)
		if err == nil && st.Mode()&0o001 == 0 {
			return fmt.Errorf("%w: user %s can't pass %s to the state folder %s: choose another one, as under /var/lib", haulier.ErrInvalid, j.account.Username, d, abs)
		}
	}
	return err
}

// dress puts limits and environment into what is to be started.
func (j *jail) dress(spec *message) {
	spec.Limits = spec.Limits.Within(j.c.Limits)
	spec.Cgroup = j.c.Cgroup
	spec.UID = int64(j.uid)
	var env []string
	if j.account != nil {
		env = append(env, "HOME="+j.account.HomeDir, "USER="+j.account.Username, "LOGNAME="+j.account.Username)
	}
	if j.bwrap != "" {
		env = append(env, "TMPDIR=/tmp", "HOME=/tmp")
	} else if j.c.PrivateTmp {
		env = append(env, "TMPDIR="+filepath.Join(spec.Folder, tmpFolder))
	}
	spec.Env = mergeEnv(env, spec.Env) // a task may say otherwise
}

// furnish makes the temporary folder in an attempt's folder, which is the user's.
func (j *jail) furnish(spec *message) error {
	if j.c.PrivateTmp {
		if err := os.Mkdir(filepath.Join(spec.Folder, tmpFolder), 0o700); err != nil {
			return err
		}
	}
	return nil
}

// close makes ready what is about to be started: its files are its user's, and its sandbox is around it.
func (j *jail) close(spec *message) error {
	if j.account != nil {
		err := filepath.WalkDir(spec.Folder, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, j.uid, j.gid)
		})
		if err != nil {
			return err
		}
	}
	if j.bwrap != "" {
		spec.Argv = slices.Concat(j.sandbox(spec), []string{"--", spec.Path}, spec.Argv[1:])
		spec.Path, spec.Sandboxed = j.bwrap, 1
	}
	if j.account != nil {
		// The limits are set before: of another user's process only a root with CAP_SYS_RESOURCE may set them.
		spec.Argv = slices.Concat([]string{"setpriv", "--reuid", strconv.Itoa(j.uid), "--regid", strconv.Itoa(j.gid), "--clear-groups", "--no-new-privs",
			"--pdeathsig", "KILL", "--", spec.Path}, spec.Argv[1:])
		spec.Path = j.setpriv
	}
	return nil
}

// keepDescriptors keeps from commands what this process has inherited from whoever started it. What Go opened is kept from them already.
func keepDescriptors() {
	list, err := os.ReadDir("/dev/fd")
	if err != nil {
		return
	}
	for _, e := range list {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

// systemPaths are what a sandbox has of the machine: programs, their libraries, and of /etc what programs need to know, no secrets.
var systemPaths = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/etc/alternatives", "/etc/ca-certificates", "/etc/group", "/etc/hosts", "/etc/ld.so.cache",
	"/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/nsswitch.conf", "/etc/passwd", "/etc/pki", "/etc/protocols", "/etc/resolv.conf",
	"/etc/services", "/etc/ssl",
}

// sandbox is the command line of bubblewrap around a command.
func (j *jail) sandbox(spec *message) []string {
	argv := []string{"bwrap", "--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"}
	for _, p := range systemPaths {
		argv = append(argv, "--ro-bind-try", p, p)
	}
	argv = append(argv, "--proc", "/proc", "--dev", "/dev", "--bind", filepath.Join(spec.Folder, tmpFolder), "/tmp", "--bind", spec.Folder, spec.Folder)
	if !within(spec.Dir, spec.Folder) {
		argv = append(argv, "--bind", spec.Dir, spec.Dir)
	}
	if !slices.ContainsFunc(systemPaths, func(p string) bool { return within(spec.Path, p) }) {
		argv = append(argv, "--ro-bind", spec.Path, spec.Path)
	}
	return append(argv, "--chdir", spec.Dir)
}

// within reports whether the path is the folder, or lies in it.
func within(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// confined reports whether a supervisor has to know of limits and users to run it.
func (m *message) confined() bool {
	return m.Limits != (haulier.Limits{}) || m.UID != 0 || m.Sandboxed != 0 || m.Cgroup != ""
}
