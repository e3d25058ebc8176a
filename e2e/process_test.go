package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/haulier/haulier/store/services"
)

// process is a program that a test started. Its output is appended to a file.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when it has ended
}

// start runs argv with env added to this process's environment.
func start(t testing.TB, log string, env []string, argv ...string) *process {
	t.Helper()
	return startAt(t, services.Place{}, log, env, argv...)
}

// startAt is start at another place.
func startAt(t testing.TB, at services.Place, log string, env []string, argv ...string) *process {
	t.Helper()
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p := &process{cmd: exec.Command(argv[0], argv[1:]...), log: log, done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	if err := at.Within(p.cmd.Start); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.cmd.Wait()
		close(p.done)
	}()
	return p
}

// kill ends it by SIGKILL and waits for that.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.done
}

func (p *process) signal(sig os.Signal) { p.cmd.Process.Signal(sig) }

// stop ends it by SIGTERM and returns its exit code; one that does not go within a minute is killed and -1 returned.
func (p *process) stop() int {
	p.cmd.Process.Signal(syscall.SIGTERM)
	return p.exit(time.Minute)
}

// exit waits for its end and returns its exit code; one that does not end in time is killed and -1 returned.
func (p *process) exit(within time.Duration) int {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		p.kill()
		return -1
	}
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// output is what it wrote so far, and those before it that wrote to the same file.
func (p *process) output(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile(p.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// mentioning returns the processes, but not this one, whose command line has all of the words, by pid.
func mentioning(t testing.TB, words ...string) map[int]string {
	t.Helper()
	found := map[int]string{}
	for pid, line := range commandLines(t) {
		hit := pid != os.Getpid()
		for _, w := range words {
			hit = hit && strings.Contains(line, w)
		}
		if hit {
			found[pid] = line
		}
	}
	return found
}

// commandLines of all processes, by pid.
func commandLines(t testing.TB) map[int]string {
	t.Helper()
	lines := map[int]string{}
	if files, _ := filepath.Glob("/proc/[0-9]*/cmdline"); len(files) > 0 {
		for _, f := range files {
			if b, err := os.ReadFile(f); err == nil { // else it has just ended
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
				lines[pid] = strings.ReplaceAll(string(b), "\x00", " ")
			}
		}
		return lines
	}
	out, err := exec.Command("ps", "-axww", "-o", "pid=,command=").Output()
	if err != nil {
		t.Fatal("ps, which lists the processes: ", err)
	}
	for line := range strings.Lines(string(out)) {
		if pid, command, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			n, _ := strconv.Atoi(pid)
			lines[n] = command
		}
	}
	return lines
}
