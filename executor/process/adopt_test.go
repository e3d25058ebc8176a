package process_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
	"github.com/haulier/haulier/executor/process"
)

// doomedWorker is another process that starts one command, says so, and waits to be killed.
func doomedWorker(dir, script string) {
	x := process.New(config())
	ctx := context.Background()
	if _, err := x.Open(ctx, executor.Env{Dir: dir, Patience: patience}); err != nil {
		fmt.Println("error", err)
		return
	}
	x.Lease(time.Now().Add(lease))
	a, err := x.Prepare(ctx, sh(script), nil)
	if err != nil {
		fmt.Println("error", err)
		return
	}
	s := newSink()
	s.attempt = a
	if err := a.Start(ctx, s); err != nil {
		fmt.Println("error", err)
		return
	}
	<-s.grew
	fmt.Println("started", a.Ref().Job)
	select {}
}

const (
	patience = 2 * time.Second
	lease    = 3 * patience
)

// killedWorker leaves a command behind under a supervisor, and returns the job's id.
func killedWorker(t *testing.T, dir, script string) haulier.ID {
	t.Helper()
	cmd := exec.Command(os.Args[0], "doomed", dir, script)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	line, err := bufio.NewReader(out).ReadString('\n')
	id, ok := strings.CutPrefix(strings.TrimSpace(line), "started ")
	if err != nil || !ok {
		t.Fatalf("worker says %q, %v", line, err)
	}
	job, err := haulier.ParseID(id)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

func adopt(t *testing.T, dir string) (*process.Executor, []executor.Attempt) {
	t.Helper()
	x := process.New(config())
	left, err := x.Open(t.Context(), executor.Env{Dir: dir, Patience: patience})
	if err != nil {
		t.Fatal(err)
	}
	return x, left
}

// adoptOne goes on with the job of a killed worker; a lease of zero is none.
func adoptOne(t *testing.T, dir string, job haulier.ID, lease time.Duration) (executor.Attempt, *sink, func()) {
	t.Helper()
	x, left := adopt(t, dir)
	if lease > 0 {
		x.Lease(time.Now().Add(lease))
	}
	if len(left) != 1 || left[0].Ref() != (haulier.Ref{Job: job, Attempt: 3}) {
		t.Fatalf("adopted %v, want job %v", left, job)
	}
	s := newSink()
	s.attempt = left[0]
	if err := left[0].Start(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return left[0], s, func() {
		left[0].Close()
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestNextWorkerAdoptsWhatRuns(t *testing.T) {
	dir := shortDir(t)
	job := killedWorker(t, dir, `echo one; while [ ! -e `+dir+`/go ]; do sleep 0.02; done; echo two; exit 75`)
	a, s, end := adoptOne(t, dir, job, time.Minute)
	defer end()
	if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := wait(t, a); r.Outcome != haulier.OutcomeRetry {
		t.Fatalf("got %+v", r)
	}
	if got := s.text(t); got != "one\ntwo\n" && got != "two\n" {
		t.Fatalf("output goes on with %q", got)
	}
}

func TestNextWorkerLearnsWhatEndedMeanwhile(t *testing.T) {
	dir := shortDir(t)
	job := killedWorker(t, dir, `echo begin; while kill -0 $PPID && [ ! -e `+dir+`/go ]; do sleep 0.02; done; seq 20000; echo end >`+dir+`/ended; exit 66`)
	if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	awaitFile(t, dir+"/ended")
	a, s, end := adoptOne(t, dir, job, time.Minute)
	defer end()
	if r := wait(t, a); r.Outcome != haulier.OutcomeFailed || r.Code != 66 || string(r.Result) != "20000" {
		t.Fatalf("got %+v", r)
	}
	if got := strings.TrimPrefix(s.text(t), "begin\n"); got != seq(20000) {
		t.Fatalf("output of the absence has %d bytes, want %d", len(got), len(seq(20000)))
	}
}

func awaitFile(t *testing.T, path string) {
	t.Helper()
	eventually(t, path+" does not appear", func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
}

func TestNobodyComesInTime(t *testing.T) {
	dir := shortDir(t)
	job := killedWorker(t, dir, `echo $$ >`+dir+`/pid; echo begin; exec sleep 60`)
	var pid int
	b, err := os.ReadFile(dir + "/pid")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Sscan(string(b), &pid)
	begin := time.Now()
	awaitDead(t, pid)
	if alone := time.Since(begin); alone < patience/2 {
		t.Fatalf("killed after %v, before the patience of %v ended", alone, patience)
	}
	a, _, end := adoptOne(t, dir, job, time.Minute)
	defer end()
	if r := wait(t, a); r.Outcome != haulier.OutcomeError || !strings.Contains(r.Error, "did not come back") {
		t.Fatalf("got %+v", r)
	}
}

func TestLeaseOfAStandingWorkerRunsOut(t *testing.T) {
	dir := shortDir(t)
	x, _ := adopt(t, dir)
	defer x.Close()
	x.Lease(time.Now().Add(time.Second))
	a, s := start(t, x, sh(`echo pid $$; exec sleep 60`), "")
	s.await(t, "pid ")
	x.Lease(time.Now().Add(patience)) // and no more
	begin := time.Now()
	r := wait(t, a)
	if alone := time.Since(begin); alone < patience*9/10 {
		t.Errorf("ended after %v, before the lease of %v", alone, patience)
	}
	if !r.Lapsed || r.Outcome != haulier.OutcomeError {
		t.Errorf("got %+v, want it lapsed", r)
	}
	a.Close()
	if r, _ := run(t, x, sh(`echo >`+dir+`/ran`), ""); !r.Lapsed {
		t.Errorf("without a lease a command ends with %+v, want it lapsed", r)
	}
	if _, err := os.Stat(dir + "/ran"); err == nil {
		t.Error("without a lease a command ran")
	}
	x.Lease(time.Now().Add(lease))
	if r, _ := run(t, x, execJob("true"), ""); r.Outcome != haulier.OutcomeOK {
		t.Errorf("with a lease again a command ends with %+v", r)
	}
}

func TestNextWorkerHasNoLeaseYet(t *testing.T) {
	dir := shortDir(t)
	job := killedWorker(t, dir, `echo $$ >`+dir+`/pid; echo begin; exec sleep 60`)
	a, _, end := adoptOne(t, dir, job, 0) // which can't reach the server
	defer end()
	if r := wait(t, a); r.Outcome != haulier.OutcomeError || !strings.Contains(r.Error, "did not come back") {
		t.Fatalf("got %+v", r)
	}
}

func TestSupervisorEndsWhenNothingIsLeft(t *testing.T) {
	dir := shortDir(t)
	x, _ := adopt(t, dir)
	run(t, x, execJob("true"), "")
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, dir+"/shim.sock")
}

func TestLossOfTheSupervisorEndsItsCommands(t *testing.T) {
	dir := shortDir(t)
	x, _ := adopt(t, dir)
	defer x.Close()
	a, s := start(t, x, sh(`echo child $$; echo shim $PPID; sleep 60`), "")
	s.await(t, "shim ")
	var child, shim int
	fmt.Sscanf(s.text(t), "child %d\nshim %d", &child, &shim)
	syscall.Kill(shim, syscall.SIGKILL)
	if r := wait(t, a); r.Outcome != haulier.OutcomeError || !strings.Contains(r.Error, "lost") {
		t.Fatalf("got %+v", r)
	}
	awaitDead(t, child)
	a.Close()
	if r, _ := run(t, x, execJob("true"), ""); r.Outcome != haulier.OutcomeOK {
		t.Fatalf("with the next supervisor: %+v", r)
	}
}

func TestSecondSupervisorIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a lock")
	}
	dir := shortDir(t)
	x, _ := adopt(t, dir)
	defer x.Close()
	run(t, x, execJob("true"), "")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	out, err := exec.CommandContext(ctx, os.Args[0], "shim", "--dir", dir).CombinedOutput()
	if err == nil {
		t.Fatalf("a second supervisor came up: %s", out)
	}
	if r, _ := run(t, x, execJob("true"), ""); r.Outcome != haulier.OutcomeOK {
		t.Fatalf("the first one is disturbed: %+v", r)
	}
}

func TestLongPathOfTheStateFolder(t *testing.T) {
	dir := shortDir(t) + "/" + strings.Repeat("long", 40)
	x, _ := adopt(t, dir)
	defer x.Close()
	if r, _ := run(t, x, execJob("true"), ""); r.Outcome != haulier.OutcomeOK {
		t.Fatalf("got %+v", r)
	}
}

// TestSupervisorThatIsEndingIsNone has one that is killed between a new worker's connection and its greeting.
func TestSupervisorThatIsEndingIsNone(t *testing.T) {
	dir := shortDir(t)
	l, err := net.Listen("unix", dir+"/shim.sock")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			err = errors.Join(l.Close(), c.Close())
		}
		done <- err
	}()
	x := process.New(config())
	defer x.Close()
	left, err := x.Open(t.Context(), executor.Env{Dir: dir, Patience: patience})
	if err != nil || len(left) != 0 {
		t.Errorf("it found %d attempts, %v; want none and no error", len(left), err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestSupervisorThatNobodyComesToEnds starts one as a worker does that is killed at once.
func TestSupervisorThatNobodyComesToEnds(t *testing.T) {
	dir := shortDir(t)
	cmd := exec.Command(os.Args[0], "shim", "--dir", dir)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		cmd.Process.Kill()
		t.Errorf("it still waits: %v", <-done)
	}
}
