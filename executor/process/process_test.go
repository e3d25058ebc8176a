package process_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
	"github.com/haulier/haulier/executor/executortest"
	"github.com/haulier/haulier/executor/process"
	"github.com/haulier/haulier/joblog"
)

// TestMain makes the test program its own supervisor, and the worker that is killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "shim" {
		log := slog.New(slog.NewTextHandler(os.Stderr, nil))
		if err := process.RunShim(context.Background(), process.ShimConfig{Dir: os.Args[3], Log: log}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 3 && os.Args[1] == "doomed" {
		doomedWorker(os.Args[2], os.Args[3])
		os.Exit(0)
	}
	executortest.Doomed(func() executor.Executor { return process.New(config()) })
	goleak.VerifyTestMain(m)
}

func TestContract(t *testing.T) {
	program, err := executortest.Program("", "")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(filepath.Dir(program))
	executortest.Run(t, executortest.Setup{
		New: func(*testing.T) executor.Executor { return process.New(config()) },
		Task: func(steps ...string) haulier.Task {
			return haulier.Task{Exec: &haulier.ExecTask{Argv: append([]string{program}, steps...)}}
		},
		Can: executortest.Features{Output: true, Stdin: true, Folder: true, Signals: true, Adopted: true, Command: true},
	})
}

// sink keeps what an attempt says. With ack it acknowledges at once.
type sink struct {
	mu       sync.Mutex
	frames   []byte
	next     int64
	err      error
	attempt  executor.Attempt
	withhold bool
	grew     chan struct{}
}

func newSink() *sink { return &sink{grew: make(chan struct{}, 1)} }

func (s *sink) Log(_ context.Context, from int64, frames []byte) error {
	s.mu.Lock()
	if s.next != 0 && from != s.next {
		s.err = fmt.Errorf("output goes on at %d, not at %d", from, s.next)
	}
	s.frames = append(s.frames, frames...)
	s.next = from + int64(len(frames))
	next, a := s.next, s.attempt
	s.mu.Unlock()
	select {
	case s.grew <- struct{}{}:
	default:
	}
	if a != nil && !s.withhold {
		a.Acked(next)
	}
	return nil
}

func (s *sink) Progress(float64, string) {}

func (s *sink) text(t *testing.T, streams ...joblog.Stream) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := joblog.Text(s.frames, streams...)
	if err = errors.Join(err, s.err); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// await waits until the output holds the text.
func (s *sink) await(t *testing.T, want string) string {
	t.Helper()
	for {
		if got := s.text(t); strings.Contains(got, want) {
			return got
		}
		select {
		case <-s.grew:
		case <-t.Context().Done():
			t.Fatalf("output is %q, want %q", s.text(t), want)
		case <-time.After(20 * time.Second):
			t.Fatalf("output is %q, want %q", s.text(t), want)
		}
	}
}

// modes runs a test with the supervisor in this process and as one of its own.
func modes(t *testing.T, f func(t *testing.T, x *process.Executor)) {
	for _, mode := range []string{"within the worker", "as a process"} {
		t.Run(mode, func(t *testing.T) {
			env := executor.Env{Patience: 5 * time.Second}
			if mode == "as a process" {
				env.Dir = shortDir(t)
			}
			f(t, open(t, env))
		})
	}
}

func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "hp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func open(t *testing.T, env executor.Env) *process.Executor {
	t.Helper()
	x := process.New(config())
	left, err := x.Open(t.Context(), env)
	if err != nil || len(left) != 0 {
		t.Fatalf("open: %d attempts, %v", len(left), err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

func config() process.Config {
	return process.Config{Shim: []string{os.Args[0], "shim"}, Head: 100 << 10, Tail: 100 << 10}
}

func execJob(argv ...string) *haulier.Job {
	j := &haulier.Job{Spec: haulier.Spec{
		ID: haulier.NewID(time.Now()), Tenant: "acme", Queue: "q", Type: "t",
		Task: haulier.Task{Exec: &haulier.ExecTask{Argv: argv}},
	}}
	j.Attempt = 3
	return j
}

func sh(script string) *haulier.Job {
	j := execJob(script)
	j.Task.Exec.Shell = true
	return j
}

func start(t *testing.T, x *process.Executor, j *haulier.Job, payload string) (executor.Attempt, *sink) {
	t.Helper()
	a, err := x.Prepare(t.Context(), j, []byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	s := newSink()
	s.attempt = a
	if err := a.Start(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return a, s
}

func run(t *testing.T, x *process.Executor, j *haulier.Job, payload string) (executor.Result, *sink) {
	t.Helper()
	a, s := start(t, x, j, payload)
	r := wait(t, a)
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	return r, s
}

func wait(t *testing.T, a executor.Attempt) executor.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, err := a.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestOutcomes(t *testing.T) {
	modes(t, func(t *testing.T, x *process.Executor) {
		for _, c := range []struct {
			name    string
			job     *haulier.Job
			outcome haulier.Outcome
			code    int
			why     string
		}{
			{"zero is ok", execJob("true"), haulier.OutcomeOK, 0, ""},
			{"one is an error", execJob("false"), haulier.OutcomeError, 1, "exit status 1"},
			{"75 asks for a retry", sh("exit 75"), haulier.OutcomeRetry, 75, "run again"},
			{"65 is final", sh("exit 65"), haulier.OutcomeFailed, 65, "for good"},
			{"66 is final", sh("exit 66"), haulier.OutcomeFailed, 66, "for good"},
			{"a signal is an error", sh("kill -9 $$"), haulier.OutcomeError, 137, "signal 9"},
			{"an unknown program is final", execJob("no-such-program"), haulier.OutcomeFailed, -1, "not found in PATH"},
			{"a missing path is final", execJob("/no/such/program"), haulier.OutcomeFailed, -1, "/no/such/program"},
			{"a file that is no program is final", execJob("/etc/passwd"), haulier.OutcomeFailed, -1, "not executable"},
			{"a folder is no program", execJob("/etc"), haulier.OutcomeFailed, -1, "folder"},
			{"no command at all is final", execJob(), haulier.OutcomeFailed, -1, "no command"},
			{"a zero byte is final", execJob("echo", "a\x00b"), haulier.OutcomeFailed, -1, "zero byte"},
			{"a missing folder is final", inDir(execJob("true"), "/no/such/folder"), haulier.OutcomeFailed, -1, "/no/such/folder"},
		} {
			t.Run(c.name, func(t *testing.T) {
				r, _ := run(t, x, c.job, "")
				if r.Outcome != c.outcome || r.Code != c.code || !strings.Contains(r.Error, c.why) || c.why == "" && r.Error != "" {
					t.Fatalf("got %s %d %q, want %s %d %q", r.Outcome, r.Code, r.Error, c.outcome, c.code, c.why)
				}
			})
		}
	})
}

func inDir(j *haulier.Job, dir string) *haulier.Job {
	j.Task.Exec.Dir = dir
	return j
}

func TestCommandGetsWhatItNeeds(t *testing.T) {
	modes(t, func(t *testing.T, x *process.Executor) {
		t.Run("small and large payloads are its standard input", func(t *testing.T) {
			for _, n := range []int{0, 1, 4096, 4097, 3 << 20} {
				r, s := run(t, x, execJob("wc", "-c"), strings.Repeat("x", n))
				if got := strings.TrimSpace(s.text(t, joblog.Stdout)); got != strconv.Itoa(n) || r.Outcome != haulier.OutcomeOK {
					t.Fatalf("%d bytes: wc says %q, %+v", n, got, r)
				}
			}
		})
		t.Run("environment names the job, and the task's own variables win", func(t *testing.T) {
			j := sh(`echo $HAULIER_JOB_ID/$HAULIER_ATTEMPT/$HAULIER_TYPE/$HAULIER_QUEUE/$HAULIER_TENANT/$HOME/$A`)
			j.Task.Exec.Env = map[string]string{"HOME": "/elsewhere", "A": "b c"}
			_, s := run(t, x, j, "")
			if got, want := s.text(t), j.ID.String()+"/3/t/q/acme//elsewhere/b c\n"; got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		})
		t.Run("no shell sees the arguments", func(t *testing.T) {
			_, s := run(t, x, execJob("echo", "$HOME", "*", "a  b"), "")
			if got := s.text(t); got != "$HOME * a  b\n" {
				t.Fatalf("got %q", got)
			}
		})
		t.Run("arguments after the script are the shell's", func(t *testing.T) {
			j := execJob(`echo "$0,$1"`, "zero", "one")
			j.Task.Exec.Shell = true
			if _, s := run(t, x, j, ""); s.text(t) != "zero,one\n" {
				t.Fatalf("got %q", s.text(t))
			}
		})
		t.Run("a folder of its own that is gone afterwards", func(t *testing.T) {
			a, s := start(t, x, sh("pwd; touch left behind"), "")
			wait(t, a)
			dir := strings.TrimSpace(s.text(t))
			if st, err := os.Stat(dir); err != nil || !st.IsDir() {
				t.Fatalf("folder %q before Close: %v", dir, err)
			}
			a.Close()
			awaitGone(t, dir)
		})
		t.Run("the folder that it asks for", func(t *testing.T) {
			dir := t.TempDir()
			if _, s := run(t, x, inDir(execJob("pwd"), dir), ""); strings.TrimSpace(s.text(t)) != dir {
				t.Fatalf("got %q, want %q", s.text(t), dir)
			}
		})
		t.Run("both streams, apart", func(t *testing.T) {
			_, s := run(t, x, sh("echo out; echo err >&2"), "")
			if s.text(t, joblog.Stdout) != "out\n" || s.text(t, joblog.Stderr) != "err\n" {
				t.Fatalf("got %q and %q", s.text(t, joblog.Stdout), s.text(t, joblog.Stderr))
			}
		})
	})
}

// awaitGone waits until a path does not exist any more.
func awaitGone(t *testing.T, path string) {
	t.Helper()
	eventually(t, path+" is still there", func() bool {
		_, err := os.Stat(path)
		return errors.Is(err, os.ErrNotExist)
	})
}

// eventually looks at what other processes do; they tell nobody.
func eventually(t *testing.T, otherwise string, f func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(15 * time.Second); !f(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal(otherwise)
		}
	}
}

func TestResult(t *testing.T) {
	x := open(t, executor.Env{})
	for _, c := range []struct{ name, script, want string }{
		{"last line", "echo a; echo b", "b"},
		{"last line that is not blank", "echo a; echo; echo '  '", "a"},
		{"last line without an end", "printf 'a\\nlast'", "last"},
		{"line that comes in pieces", "printf 'a\\nfi'; sleep 0.05; printf 'rst\\n\\n'", "first"},
		{"none", "true", ""},
		{"not of stderr", "echo a; echo b >&2", "a"},
		{"file before line", `echo line; printf '{"n":1}' >$HAULIER_RESULT`, `{"n":1}`},
		{"long line is cut", "yes abcdefg | head -c 100000 | tr -d '\\n'", strings.Repeat("abcdefg", 10000)[:haulier.MaxResult]},
		{"a pipe is no result", "mkfifo $HAULIER_RESULT; echo a", "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if r, _ := run(t, x, sh(c.script), ""); string(r.Result) != c.want {
				t.Fatalf("got %.80q (%d bytes), want %.80q", r.Result, len(r.Result), c.want)
			}
		})
	}
}

func TestOutputIsCapped(t *testing.T) {
	modes(t, func(t *testing.T, x *process.Executor) {
		t.Run("what fits is whole", func(t *testing.T) {
			_, s := run(t, x, execJob("seq", "30000"), "")
			if got, want := s.text(t), seq(30000); got != want {
				t.Fatalf("%d bytes differ from the %d written", len(got), len(want))
			}
		})
		t.Run("of more, head and tail stay and the cut is marked", func(t *testing.T) {
			r, s := run(t, x, execJob("seq", "1000000"), "")
			whole, note := seq(1000000), s.text(t, joblog.Note)
			out := s.text(t, joblog.Stdout)
			var cut int
			if _, err := fmt.Sscanf(note, "%d bytes of output were cut", &cut); err != nil || cut+len(out) != len(whole) {
				t.Fatalf("note %q, %d bytes kept of %d", note, len(out), len(whole))
			}
			head, tail, _ := strings.Cut(s.text(t), note)
			if !strings.HasPrefix(whole, head) || !strings.HasSuffix(whole, tail) || len(head) < 60<<10 || len(tail) < 60<<10 || len(out) > 200<<10 {
				t.Fatalf("head of %d bytes and tail of %d are not those of the output", len(head), len(tail))
			}
			if string(r.Result) != "1000000" {
				t.Fatalf("result %q", r.Result)
			}
		})
	})
}

func seq(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strconv.Itoa(i+1) + "\n")
	}
	return b.String()
}

func TestNobodyReadsTheOutput(t *testing.T) {
	x := process.New(process.Config{})
	if _, err := x.Open(t.Context(), executor.Env{}); err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	a, err := x.Prepare(t.Context(), sh(`head -c 1000000 /dev/zero; touch "$HAULIER_RESULT.done"; sleep 30`), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := newSink()
	if err := a.Start(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	got := func() int64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.next
	}
	eventually(t, "window not used", func() bool { return got() > executor.Window-joblog.MaxFrame*2 })
	if n := got(); n > executor.Window {
		t.Fatalf("%d bytes came without an acknowledgement, at most %d may", n, executor.Window)
	}
	s.mu.Lock()
	s.attempt = a
	s.mu.Unlock()
	a.Acked(got())
	eventually(t, "output does not go on", func() bool { return got() > 1000000 })
	a.Close()
}

func TestStop(t *testing.T) {
	modes(t, func(t *testing.T, x *process.Executor) {
		t.Run("TERM comes first, and ends the group", func(t *testing.T) {
			a, s := start(t, x, sh(`trap 'echo bye; exit 0' TERM; sleep 60 & echo child $!; wait`), "")
			child := childPID(t, s)
			a.Stop(-1)
			r := wait(t, a)
			if !r.Stopped || r.Outcome != haulier.OutcomeError || !strings.Contains(s.text(t), "bye") {
				t.Fatalf("got %+v, output %q", r, s.text(t))
			}
			awaitDead(t, child)
			a.Close()
		})
		t.Run("KILL comes after the grace", func(t *testing.T) {
			a, s := start(t, x, sh(`trap '' TERM; echo ready; while :; do sleep 1; done`), "")
			s.await(t, "ready")
			begin := time.Now()
			a.Stop(300 * time.Millisecond)
			r := wait(t, a)
			if took := time.Since(begin); r.Code != 137 || !r.Stopped || took < 250*time.Millisecond || took > 5*time.Second {
				t.Fatalf("got %+v after %v", r, took)
			}
			a.Close()
		})
		t.Run("a shorter grace overtakes", func(t *testing.T) {
			a, s := start(t, x, sh(`trap '' TERM; echo ready; while :; do sleep 1; done`), "")
			s.await(t, "ready")
			a.Stop(time.Hour)
			a.Stop(0)
			if r := wait(t, a); r.Code != 137 {
				t.Fatalf("got %+v", r)
			}
			a.Close()
		})
		t.Run("a timeout is an error", func(t *testing.T) {
			j := execJob("sleep", "60")
			j.Timeout = haulier.Duration(100 * time.Millisecond)
			r, _ := run(t, x, j, "")
			if r.Outcome != haulier.OutcomeError || r.Stopped || !strings.Contains(r.Error, "timed out") {
				t.Fatalf("got %+v", r)
			}
		})
		t.Run("what a command leaves in its group ends with it", func(t *testing.T) {
			a, s := start(t, x, sh(`sleep 60 >/dev/null 2>&1 & echo child $!`), "")
			if r := wait(t, a); r.Outcome != haulier.OutcomeOK {
				t.Fatalf("got %+v", r)
			}
			awaitDead(t, childPID(t, s))
			a.Close()
		})
		t.Run("closing ends what runs", func(t *testing.T) {
			a, s := start(t, x, sh(`echo child $$; exec sleep 60`), "")
			child := childPID(t, s)
			a.Close()
			awaitDead(t, child)
		})
	})
}

func TestProcessThatLeavesTheGroupDoesNotHoldTheJob(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("no setsid here")
	}
	x := open(t, executor.Env{})
	begin := time.Now()
	r, s := run(t, x, sh(`setsid sleep 20 & echo child $!; sleep 0.1`), "")
	if took := time.Since(begin); r.Outcome != haulier.OutcomeOK || took > 10*time.Second {
		t.Fatalf("got %+v after %v", r, took)
	}
	syscall.Kill(childPID(t, s), syscall.SIGKILL)
}

func childPID(t *testing.T, s *sink) int {
	t.Helper()
	got := s.await(t, "child ")
	var pid int
	_, after, _ := strings.Cut(got, "child ")
	if _, err := fmt.Sscan(after, &pid); err != nil {
		t.Fatalf("no pid in %q", got)
	}
	return pid
}

func awaitDead(t *testing.T, pid int) {
	t.Helper()
	eventually(t, fmt.Sprintf("process %d still runs", pid), func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return syscall.Kill(pid, 0) != nil
		}
		_, rest, _ := bytes.Cut(stat, []byte(") "))
		return len(rest) > 0 && rest[0] == 'Z'
	})
}

func TestManyAtOnce(t *testing.T) {
	modes(t, func(t *testing.T, x *process.Executor) {
		var wg sync.WaitGroup
		for i := range 60 {
			wg.Go(func() {
				want := fmt.Sprintf("line %d\n", i)
				r, s := run(t, x, execJob("cat"), want)
				if r.Outcome != haulier.OutcomeOK || s.text(t) != want {
					t.Errorf("got %+v, %q", r, s.text(t))
				}
			})
		}
		wg.Wait()
	})
}

func TestFoldersAreLeftClean(t *testing.T) {
	dir := shortDir(t)
	x := open(t, executor.Env{Dir: dir})
	for range 5 {
		run(t, x, execJob("seq", "20000"), strings.Repeat("x", 5000))
	}
	a, err := x.Prepare(t.Context(), execJob("true"), nil)
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	eventually(t, "files are left", func() bool {
		left, err := os.ReadDir(filepath.Join(dir, "jobs"))
		return err == nil && len(left) == 0
	})
}
