package worker_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/client"
	"github.com/haulier/haulier/server"
	"github.com/haulier/haulier/worker"
)

// doomedWorker is another process, which works until it is killed.
func doomedWorker(url, dir string) {
	c, err := client.New(client.Config{URL: url})
	if err == nil {
		var w *worker.Worker
		if w, err = worker.New(adoptable(c, dir)); err == nil {
			err = w.Run(context.Background())
		}
	}
	fmt.Fprintln(os.Stderr, err)
}

func adoptable(c haulier.Consumer, dir string) worker.Config {
	return worker.Config{Consumer: c, Executors: commands(), Concurrency: 2, Lease: 6 * time.Second, Dir: dir, Name: "w"}
}

// site is a server that workers in other processes reach.
func site(t *testing.T) (haulier.Queue, string) {
	t.Helper()
	q := queue(t)
	s, err := server.New(server.Config{Queue: q})
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s.Handler())
	t.Cleanup(h.Close)
	return q, h.URL
}

func startDoomed(t *testing.T, url, dir string) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "doomed", url, dir)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	kill = func() {
		if !killed {
			killed = true
			cmd.Process.Kill()
			cmd.Wait()
		}
	}
	t.Cleanup(kill)
	return kill
}

// shortDir is a state folder. Supervisors of a test that fails end by themselves.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "hw")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// slow says begin, waits for a file and says end; each run leaves a line in runs.
func slow(dir, name string) haulier.Spec {
	return sh(strings.NewReplacer("DIR", dir, "NAME", name).Replace(
		`echo NAME >>DIR/runs; echo begin; while [ ! -e DIR/go ]; do sleep 0.02; done; echo end; echo NAME >>DIR/ends; echo result NAME`))
}

func TestNextWorkerAdopts(t *testing.T) {
	for _, c := range []struct {
		name  string
		while bool // the commands end while there is no worker
	}{
		{"commands that run on", false},
		{"commands that have ended meanwhile", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			q, url := site(t)
			dir := shortDir(t)
			kill := startDoomed(t, url, dir)
			ids := enqueue(t, q, slow(dir, "a"), slow(dir, "b"))
			output(t, q, ids[0], "begin")
			output(t, q, ids[1], "begin")
			kill()
			if c.while {
				write(t, dir+"/go")
				eventually(t, "commands do not end without a worker", func() bool {
					b, _ := os.ReadFile(dir + "/ends")
					return strings.Count(string(b), "\n") == 2
				})
			}
			w := start(t, adoptable(q, dir))
			if !c.while {
				write(t, dir+"/go")
			}
			for i, j := range end(t, q, ids...) {
				if want := "result " + string(rune('a'+i)); j.State != haulier.Succeeded || j.Attempt != 1 || string(j.Result) != want {
					t.Errorf("got %+v, result %s, want %s", j.Status, j.Result, want)
				}
				if got := output(t, q, j.ID, ""); got != "begin\nend\nresult "+string(rune('a'+i))+"\n" {
					t.Errorf("output %q", got)
				}
			}
			if runs, _ := os.ReadFile(dir + "/runs"); len(runs) != 4 {
				t.Errorf("runs: %q", runs)
			}
			w.stop()
			w.wait(t)
		})
	}
}

func TestNextWorkerComesTooLate(t *testing.T) {
	q, url := site(t)
	dir := shortDir(t)
	kill := startDoomed(t, url, dir)
	id := enqueue(t, q, sh(`echo $$ >`+dir+`/pid.$HAULIER_ATTEMPT; echo begin; [ $HAULIER_ATTEMPT != 1 ] || exec sleep 60`))[0]
	output(t, q, id, "begin")
	kill()
	until(t, q, id, "taken from the dead worker", inState(haulier.Pending))
	start(t, adoptable(q, dir))
	awaitDead(t, readPID(t, dir+"/pid.1"))
	if j := end(t, q, id)[0]; j.State != haulier.Succeeded || j.Attempt != 2 {
		t.Fatalf("got %+v", j.Status)
	}
}

func TestWhatTheKilledWorkerHadNotStarted(t *testing.T) {
	q, url := site(t)
	dir := shortDir(t)
	kill := startDoomed(t, url, dir)
	first := enqueue(t, q, slow(dir, "a"))[0]
	output(t, q, first, "begin")
	sessions, err := q.Sessions(t.Context(), "")
	if err != nil || len(sessions) != 1 {
		t.Fatalf("sessions %v, %v", sessions, err)
	}
	kill()
	// What the worker claimed in its last moment, it can't have told anybody.
	lost := enqueue(t, q, sh("true"))[0]
	if jobs, err := q.Claim(t.Context(), haulier.ClaimRequest{Session: sessions[0].ID, N: 1}); err != nil || len(jobs) != 1 {
		t.Fatalf("claimed %v, %v", jobs, err)
	}
	start(t, adoptable(q, dir))
	if j := end(t, q, lost)[0]; j.State != haulier.Succeeded || j.Attempt != 2 {
		t.Fatalf("got %+v", j.Status)
	}
	write(t, dir+"/go")
	if j := end(t, q, first)[0]; j.State != haulier.Succeeded || j.Attempt != 1 {
		t.Fatalf("got %+v", j.Status)
	}
}
