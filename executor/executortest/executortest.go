// Package executortest is the contract of executors as tests: what package executor says of its methods, shown by real runs.
//
// A kind of task joins in by a Setup and a few lines of test; its jobs run the steps of package play, as a program, in a
// container, or behind an address.
package executortest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
	"github.com/haulier/haulier/joblog"
)

// Setup is one kind of executor. What its kind can't do is left out of Can.
type Setup struct {
	// New makes an executor, which is not open.
	New func(t *testing.T) executor.Executor
	// Task makes a task that plays the steps.
	Task func(steps ...string) haulier.Task
	Can  Features
	// Left names what attempts leave behind outside of the worker's state folder, if there is anything. Nil: they can't.
	Left func(t *testing.T) []string
}

// Features say what a kind of executor can do.
type Features struct {
	Output  bool // what the program writes comes as output, standard error apart
	Stdin   bool // a payload of any size is the program's standard input
	Folder  bool // it has a working folder
	Signals bool // it is asked to end before it is ended by force
	Adopted bool // attempts outlive a worker that is killed
	Command bool // exit codes, and the file of the result
}

// patience of the workers of these tests. Their lease is long unless said.
const patience = 3 * time.Second

// soon bounds what should take no time.
const soon = 30 * time.Second

// Program builds the program that plays steps, for the system and processor named, or this one when they are empty. It is linked statically.
func Program(goos, goarch string) (path string, err error) {
	dir, err := os.MkdirTemp("", "haulier-program-")
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "program")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "github.com/haulier/haulier/executor/executortest/program")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if goos != "" {
		cmd.Env = append(cmd.Env, "GOOS="+goos, "GOARCH="+goarch)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program of the suite: %w: %s", err, out)
	}
	return path, nil
}

// Doomed is for TestMain: in the process of a worker that the suite is going to kill it plays that worker and does not return.
func Doomed(newExecutor func() executor.Executor) {
	if len(os.Args) != 5 || os.Args[1] != "doomed-worker" {
		return
	}
	if err := doomed(newExecutor(), os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	select {}
}

// doomed takes an attempt to a phase and says so.
func doomed(x executor.Executor, dir, phase, job string) error {
	var j haulier.Job
	if err := json.Unmarshal([]byte(job), &j); err != nil {
		return err
	}
	ctx := context.Background()
	if _, err := x.Open(ctx, executor.Env{Dir: dir, Patience: patience}); err != nil {
		return err
	}
	x.Lease(time.Now().Add(time.Hour))
	a, err := x.Prepare(ctx, &j, j.Payload)
	if err != nil {
		return err
	}
	out := &sink{attempt: a, grew: make(chan struct{}, 1)}
	switch phase {
	case "started", "writing", "ended":
		if err := a.Start(ctx, out); err != nil {
			return err
		}
	}
	switch phase {
	case "writing":
		<-out.grew
	case "ended":
		if _, err := a.Wait(ctx); err != nil {
			return err
		}
	}
	fmt.Println("reached", phase)
	return nil
}

// kill runs a worker of its own process to a phase of a job, and kills it.
func (f *fixture) kill(phase string, j *haulier.Job) {
	f.t.Helper()
	b, err := json.Marshal(j)
	if err != nil {
		f.t.Fatal(err)
	}
	cmd := exec.CommandContext(f.t.Context(), os.Args[0], "doomed-worker", f.dir, phase, string(b))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		f.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "reached "+phase {
		f.t.Errorf("the worker says %q, %v", line, err)
	}
	cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
}

// sink keeps what an attempt says, and acknowledges it.
type sink struct {
	attempt executor.Attempt
	grew    chan struct{}

	mu     sync.Mutex
	frames []byte
	from   int64 // of the first frame
	gap    error
}

// Log implements executor.Sink.
func (s *sink) Log(_ context.Context, from int64, frames []byte) error {
	s.mu.Lock()
	if len(s.frames) == 0 {
		s.from = from
	}
	if next := s.from + int64(len(s.frames)); from != next {
		s.gap = fmt.Errorf("output goes on at %d, not at %d", from, next)
	}
	s.frames = append(s.frames, frames...)
	end := s.from + int64(len(s.frames))
	s.mu.Unlock()
	s.attempt.Acked(end)
	select {
	case s.grew <- struct{}{}:
	default:
	}
	return nil
}

// Progress implements executor.Sink.
func (*sink) Progress(float64, string) {}

func (s *sink) text(t *testing.T, streams ...joblog.Stream) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gap != nil {
		t.Fatal(s.gap)
	}
	b, err := joblog.Text(s.frames, streams...)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// await waits until the output has a text in it.
func (s *sink) await(t *testing.T, want string) {
	t.Helper()
	late := time.After(soon)
	for !strings.Contains(s.text(t), want) {
		select {
		case <-s.grew:
		case <-late:
			t.Fatalf("output %q, want %q in it", s.text(t), want)
		}
	}
}

// fixture is an open executor with a state folder of its own.
type fixture struct {
	*Setup
	t   *testing.T
	dir string
	x   executor.Executor
}

func (s *Setup) open(t *testing.T, dir string) (*fixture, []executor.Attempt) {
	t.Helper()
	f := &fixture{Setup: s, t: t, dir: dir, x: s.New(t)}
	left, err := f.x.Open(t.Context(), executor.Env{Dir: dir, Patience: patience})
	if err != nil {
		t.Fatal(err)
	}
	f.x.Lease(time.Now().Add(time.Hour))
	return f, left
}

// close ends the executor and looks for what is left behind.
func (f *fixture) close() {
	f.t.Helper()
	if err := f.x.Close(); err != nil {
		f.t.Error(err)
	}
	if f.Left != nil {
		if left := f.Left(f.t); len(left) > 0 {
			f.t.Errorf("left behind: %q", left)
		}
	}
}

// stateDir has a path that is short enough for a socket in it.
func stateDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "hx")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (f *fixture) job(steps ...string) *haulier.Job {
	j := &haulier.Job{Spec: haulier.Spec{ID: haulier.NewID(time.Now()), Tenant: "default", Queue: "default", Type: "test", Task: f.Task(steps...)}}
	j.State, j.Attempt = haulier.Claimed, 3
	return j
}

func (f *fixture) prepare(j *haulier.Job) executor.Attempt {
	f.t.Helper()
	a, err := f.x.Prepare(f.t.Context(), j, j.Payload)
	if err != nil {
		f.t.Fatal(err)
	}
	if want := (haulier.Ref{Job: j.ID, Attempt: j.Attempt}); a.Ref() != want {
		f.t.Fatalf("the attempt is of %v, not of %v", a.Ref(), want)
	}
	return a
}

func (f *fixture) start(a executor.Attempt) *sink {
	f.t.Helper()
	out := &sink{attempt: a, grew: make(chan struct{}, 1)}
	if err := a.Start(f.t.Context(), out); err != nil {
		f.t.Fatal(err)
	}
	return out
}

func (f *fixture) wait(a executor.Attempt) executor.Result {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), soon)
	defer cancel()
	r, err := a.Wait(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

// run takes a job from its preparation to its end, and closes it.
func (f *fixture) run(j *haulier.Job) (executor.Result, *sink) {
	f.t.Helper()
	a := f.prepare(j)
	out := f.start(a)
	r := f.wait(a)
	if err := a.Close(); err != nil {
		f.t.Error(err)
	}
	return r, out
}

// test is one sentence of the contract.
type test struct {
	name string
	need func(Features) bool // nil: all kinds
	run  func(f *fixture)
}

// Run shows that the executor keeps its contract.
func Run(t *testing.T, s Setup) {
	for _, c := range slices.Concat(runs, adoptions) {
		t.Run(c.name, func(t *testing.T) {
			if c.need != nil && !c.need(s.Can) {
				t.Skip("not of this kind")
			}
			f, left := s.open(t, stateDir(t))
			if len(left) > 0 {
				t.Fatalf("a new folder has %d attempts", len(left))
			}
			c.run(f)
			f.close()
		})
	}
}
