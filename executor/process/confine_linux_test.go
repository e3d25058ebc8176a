package process_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
	"github.com/haulier/haulier/executor/process"
)

// confined runs a test with an executor of that configuration, whose supervisor is in this process and then one of its own.
func confined(t *testing.T, c process.Confine, f func(t *testing.T, x *process.Executor)) {
	t.Helper()
	for _, mode := range []string{"within the worker", "as a process"} {
		t.Run(mode, func(t *testing.T) {
			env := executor.Env{Patience: 5 * time.Second}
			if mode == "as a process" {
				env.Dir = shortDir(t)
			}
			cfg := config()
			cfg.Confine = c
			x := process.New(cfg)
			if _, err := x.Open(t.Context(), env); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := x.Close(); err != nil {
					t.Error(err)
				}
			}()
			f(t, x)
		})
	}
}

func limited(script string, l haulier.Limits) *haulier.Job {
	j := sh(script)
	j.Task.Exec.Limits = &l
	return j
}

func TestLimits(t *testing.T) {
	modes(t, func(t *testing.T, x *process.Executor) {
		for _, c := range []struct {
			name   string
			limits haulier.Limits
			script string
			says   string // in the error and the output
			ok     bool
		}{
			{"memory", haulier.Limits{Memory: 32 << 20}, `head -c 200m /dev/zero | tail`, "exit status 1", false},
			{"processor time", haulier.Limits{CPU: haulier.Duration(time.Second)}, `exec sh -c 'while :; do :; done'`, "signal 24", false},
			{"size of a file", haulier.Limits{FileSize: 1000}, `exec head -c 100000 /dev/zero >big`, "signal 25", false},
			{"open files", haulier.Limits{OpenFiles: 9}, `ulimit -n`, "9", true},
			{"none", haulier.Limits{}, `echo fine`, "fine", true},
		} {
			t.Run(c.name, func(t *testing.T) {
				r, s := run(t, x, limited(c.script, c.limits), "")
				out := s.text(t)
				if (r.Outcome == haulier.OutcomeOK) != c.ok || !strings.Contains(r.Error+out, c.says) {
					t.Errorf("%+v, output %q", r, out)
				}
				if c.name == "memory" && !strings.Contains(out, "memory exhausted") {
					t.Errorf("200 MiB fit into 32: %q", out)
				}
			})
		}
	})
}

func TestAWorkersLimitsHoldForAll(t *testing.T) {
	confined(t, process.Confine{Limits: haulier.Limits{OpenFiles: 20, FileSize: 512 << 10}}, func(t *testing.T, x *process.Executor) {
		r, s := run(t, x, limited("ulimit -n; ulimit -f", haulier.Limits{OpenFiles: 1000, FileSize: 1 << 10}), "")
		if got := s.text(t); r.Outcome != haulier.OutcomeOK || got != "20\n2\n" {
			t.Errorf("limits are %q, %+v", got, r)
		}
	})
}

// other is an account without rights that every system has and hardly anything uses, and its number.
func other(t *testing.T) (name, uid string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("to run commands as another user the tests must run as root")
	}
	u, err := user.Lookup("games")
	if err != nil {
		t.Fatal(err)
	}
	return u.Username, u.Uid
}

// processesOf counts the processes of a user, with their threads and those that are not reaped yet, as the kernel does for the limit.
func processesOf(t *testing.T, uid string) (n int) {
	t.Helper()
	status, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range status {
		b, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(b, fmt.Appendf(nil, "\nUid:\t%s\t", uid)) {
			continue
		}
		_, threads, _ := strings.Cut(string(b), "\nThreads:\t")
		threads, _, _ = strings.Cut(threads, "\n")
		more, err := strconv.Atoi(threads)
		if err != nil {
			t.Fatal(err)
		}
		n += more
	}
	return n
}

// forkBombs make processes as fast as they can: one whose processes stay, and the well-known one, whose processes end as soon as there is no room.
var forkBombs = []string{
	`exec 2>/dev/null; (while :; do sleep 600 & done) & exec sleep 600`,
	`exec 2>/dev/null; bomb() { bomb | bomb & }; (bomb) & exec sleep 600`,
}

func TestAForkBombIsContained(t *testing.T) {
	c := process.Confine{}
	uid := strconv.Itoa(os.Getuid())
	if uid == "0" {
		c.User, uid = other(t)
	}
	const room = 100 // for what others of this user start meanwhile, too
	before := processesOf(t, uid)
	c.Limits.Processes = int64(before + room)
	confined(t, c, func(t *testing.T, x *process.Executor) {
		for i, script := range forkBombs {
			j := sh(script)
			j.Timeout = haulier.Duration(500 * time.Millisecond)
			j.Task.Exec.Grace = haulier.Duration(100 * time.Millisecond)
			a, _ := start(t, x, j, "")
			r, most := watch(t, a, uid)
			if r.Outcome == haulier.OutcomeOK || most > before+room || i == 0 && most < before+room/2 {
				t.Errorf("%s: %+v, with %d processes at a time", script, r, most-before)
			}
			for began := time.Now(); processesOf(t, uid) > before+room/4; { // they were killed, and are to be reaped
				if time.Since(began) > 20*time.Second {
					t.Fatalf("%s: %d processes are left", script, processesOf(t, uid)-before)
				}
				<-time.After(20 * time.Millisecond)
			}
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// watch waits for the end of an attempt, and counts the processes of a user on the way.
func watch(t *testing.T, a executor.Attempt, uid string) (r executor.Result, most int) {
	done := make(chan executor.Result, 1)
	go func() { done <- wait(t, a) }()
	for {
		select {
		case r := <-done:
			return r, most
		case <-time.After(20 * time.Millisecond):
			most = max(most, processesOf(t, uid))
		}
	}
}

func TestRootHasNoLimitOfProcessesWithoutAGroup(t *testing.T) {
	other(t)
	modes(t, func(t *testing.T, x *process.Executor) {
		r, _ := run(t, x, limited("true", haulier.Limits{Processes: 10}), "")
		if r.Outcome != haulier.OutcomeError || !strings.Contains(r.Error, "give the worker --user") {
			t.Errorf("%+v", r)
		}
	})
}

func TestCommandsRunAsAnotherUser(t *testing.T) {
	name, uid := other(t)
	t.Setenv("HAULIER_TOKEN", "hlr_secret")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	secret := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	confined(t, process.Confine{User: name}, func(t *testing.T, x *process.Executor) {
		r, s := run(t, x, sh(`id -u; id -G; echo result >"$HAULIER_RESULT"; touch made "$TMPDIR/made"; env; cat `+secret+`; ls /proc/self/fd`), "")
		out := s.text(t)
		if r.Outcome != haulier.OutcomeOK || string(r.Result) != "result\n" || !strings.HasPrefix(out, uid+"\n") {
			t.Fatalf("%+v, %q", r, out)
		}
		if strings.Contains(out, "secret") || strings.Contains(out, "USER=root") {
			t.Errorf("it sees %q", out)
		}
		if !strings.HasSuffix(out, "0\n1\n2\n3\n") { // 3 is ls's own
			t.Errorf("it has more than its three descriptors: %q", out)
		}
	})
}

func TestASandboxShowsTheSystemAlone(t *testing.T) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("bubblewrap is not installed")
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	confined(t, process.Confine{Sandbox: true}, func(t *testing.T, x *process.Executor) {
		r, s := run(t, x, sh(`cat; cat `+dir+`/key /etc/shadow; touch /usr/made; env; ls /proc | grep -c '^[0-9]'; touch made /tmp/made; echo result >"$HAULIER_RESULT"`), "input ")
		out := s.text(t)
		if r.Outcome != haulier.OutcomeOK || string(r.Result) != "result\n" || !strings.HasPrefix(out, "input ") {
			t.Fatalf("%+v, %q", r, out)
		}
		if strings.Contains(out, "secret") || strings.Contains(out, "root:") || !strings.Contains(out, "Read-only file system") {
			t.Errorf("it sees %q", out)
		}
		// It is asked to end before it is made to, also when it left the group of processes.
		a, s := start(t, x, sh(`trap 'echo asked; exit 0' TERM; setsid sleep 600 & echo up; wait`), "")
		s.await(t, "up")
		a.Stop(10 * time.Second)
		if r := wait(t, a); !r.Stopped || r.Code != 0 || !strings.Contains(s.text(t), "asked") {
			t.Errorf("%+v, %q", r, s.text(t))
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestAControlGroupLeavesNothingBehind(t *testing.T) {
	parent := ""
	for _, at := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var fs unix.Statfs_t
		if err := unix.Statfs(at, &fs); err == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC {
			parent = filepath.Join(at, "haulier-test-"+strconv.Itoa(os.Getpid()))
			break
		}
	}
	if parent == "" || os.Mkdir(parent, 0o755) != nil {
		t.Skip("there are no control groups of version 2 that these tests may write to")
	}
	defer func() {
		if err := os.Remove(parent); err != nil {
			t.Error(err)
		}
	}()
	confined(t, process.Confine{Cgroup: parent}, func(t *testing.T, x *process.Executor) {
		r, s := run(t, x, sh(`setsid sleep 600 >/dev/null 2>&1 & echo $!`), "")
		pid, err := strconv.Atoi(strings.TrimSpace(s.text(t)))
		if err != nil || r.Outcome != haulier.OutcomeOK {
			t.Fatalf("%+v, %v", r, err)
		}
		if err := syscall.Kill(pid, 0); err == nil && !zombie(pid) {
			t.Errorf("process %d is still there", pid)
		}
	})
}

func zombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && bytes.Contains(b, []byte("State:\tZ"))
}
