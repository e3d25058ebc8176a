package e2e_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/client"
	"github.com/haulier/haulier/store/services"
)

// site is a folder with all that a test's processes write: the server's data,
// the workers' states, their logs and the ledger. It is kept when the test fails.
type site struct {
	t      testing.TB
	at     services.Place // of what is started
	dir    string
	addr   string
	url    string
	ledger string
	server *process
	client *client.Client
}

// newSite makes the folder and finds a port; nothing runs yet.
func newSite(t testing.TB) *site {
	t.Helper()
	return newSiteAt(t, "", services.Place{})
}

// beside is another server's place in the same folder.
func (s *site) beside() *site {
	s.t.Helper()
	return newSiteAt(s.t, s.dir, services.Place{})
}

// newSiteAt makes a site whose server runs at a place. In the folder that is said another site is already, which owns it; "" for a new one.
func newSiteAt(t testing.TB, dir string, at services.Place) *site {
	t.Helper()
	owner := dir == ""
	if owner {
		var err error
		if dir, err = os.MkdirTemp("", "haulier-e2e-"); err != nil {
			t.Fatal(err)
		}
	}
	s := &site{t: t, at: at, dir: dir, addr: net.JoinHostPort(at.Host, "7480"), ledger: filepath.Join(dir, "ledger")}
	if at.Host == "" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s.addr = l.Addr().String()
		l.Close()
	}
	s.url = "http://" + s.addr
	var err error
	if s.client, err = client.New(client.Config{URL: s.url}); err != nil {
		t.Fatal(err)
	}
	if owner {
		t.Cleanup(s.clear)
	} else {
		t.Cleanup(func() { s.client.Close() })
	}
	return s
}

// clear ends whatever is left of the site's processes.
func (s *site) clear() {
	s.client.Close()
	for pid := range mentioning(s.t, s.dir) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	if s.t.Failed() {
		s.t.Logf("kept for a look: %s", s.dir)
		return
	}
	os.RemoveAll(s.dir)
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

// serve starts the server and returns at once.
func (s *site) serve(args ...string) *process {
	s.t.Helper()
	argv := append([]string{program(s.t), "serve", "--data", s.path("data"), "--listen", s.addr, "--insecure"}, args...)
	s.server = startAt(s.t, s.at, s.path("server.log"), nil, argv...)
	return s.server
}

// ready waits until the server says that it can work.
func (s *site) ready(ctx context.Context) {
	s.t.Helper()
	s.await(ctx, "the server is ready", func() bool {
		if s.server.ended() {
			s.t.Fatalf("the server ended with code %d:\n%s", s.server.cmd.ProcessState.ExitCode(), s.server.output(s.t))
		}
		return s.isReady(ctx)
	})
}

func (s *site) isReady(ctx context.Context) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/readyz", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// work starts a worker for commands. Workers of one name take over from each other.
func (s *site) work(name string, args ...string) *process {
	s.t.Helper()
	argv := append([]string{program(s.t), "worker", "--url", s.url, "--name", name, "--state", s.path(name),
		"--concurrency", "8", "--lease", lease.String()}, args...)
	return startAt(s.t, s.at, s.path(name+".log"), nil, argv...)
}

// lease of the workers of these tests: long enough for a restart on a busy machine.
const lease = 4 * time.Second

// await polls until done, or fails the test when ctx ends: what happens in other
// processes has no channel here.
func (s *site) await(ctx context.Context, what string, done func() bool) {
	s.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.t.Fatalf("waited in vain until %s: %v", what, context.Cause(ctx))
		}
	}
}

// enqueue adds one job and returns its id.
func (s *site) enqueue(ctx context.Context, spec haulier.Spec) haulier.ID {
	s.t.Helper()
	results, err := s.client.Enqueue(ctx, []haulier.EnqueueRequest{{Jobs: []haulier.Spec{spec}}})
	if err == nil {
		err = results[0].Err
	}
	if err != nil {
		s.t.Fatal("enqueue: ", err)
	}
	return results[0].IDs[0]
}

// job as the server has it now.
func (s *site) job(ctx context.Context, id haulier.ID) *haulier.Job {
	s.t.Helper()
	jobs, err := s.client.Get(ctx, haulier.DefaultTenant, []haulier.ID{id})
	if err != nil || jobs[0] == nil {
		s.t.Fatalf("get job %v: %v, %v", id, jobs, err)
	}
	return jobs[0]
}

// checkStore has the program look through a store over which no server works any more.
func (s *site) checkStore(url string) {
	s.t.Helper()
	p := start(s.t, s.path("check.log"), nil, program(s.t), "store", "check", url)
	if code := p.exit(2 * time.Minute); code != 0 {
		s.t.Errorf("store check ended with code %d:\n%s", code, tail(p.output(s.t)))
	}
}

// shell is a job of a command line; $0 is the site's ledger.
func (s *site) shell(script string, args ...string) haulier.Spec {
	argv := append([]string{script, s.ledger}, args...)
	return haulier.Spec{Type: "shell", Task: haulier.Task{Exec: &haulier.ExecTask{Shell: true, Argv: argv, Grace: haulier.Duration(time.Second)}}}
}
