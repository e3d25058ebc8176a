package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor/docker/dockertest"
)

// TestContainers carries out the example of docs/executors.md, and kills workers of containers.
func TestContainers(t *testing.T) {
	e := dockertest.Start(t)
	defer dockertest.Stop()
	s := newSite(t)
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"policy.json": `{"images": ["haulier/*"], "network": "none", "memory": 268435456}`,
		"limits.json": `{"HostConfig": {"Memory": 33554432, "PidsLimit": 50}}`,
		"data/a.txt":  "given",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	state, err := os.MkdirTemp("/tmp", "hc") // with a short path
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(state)
	killed := s.worker(e.Host, state)
	t.Run("run as the document says", func(t *testing.T) {
		if r := s.do("", "run", "--container", dockertest.Image, "--container-config", "limits.json", "--", "out=hello", "err=oops", "exit=3"); r.code != 3 || r.out != "hello\n" || r.errs != "oops\n" {
			t.Errorf("%+v", r)
		}
		s.must("", "filesets", "push", "./data", "samples")
		s.must("", "run", "--container", dockertest.Image, "--input", "samples=in", "--save", "made=*.out", "--", "read=in/a.txt", "write=b.out:made", "write=c:not kept")
		s.must("", "filesets", "pull", "made", "results")
		if b, err := os.ReadFile("results/b.out"); err != nil || string(b) != "made" {
			t.Errorf("b.out: %q, %v", b, err)
		}
		id := strings.TrimSpace(s.must("", "enqueue", "import", "--container", dockertest.Image, "--payload", "three words here", "--", "cat", "sleep=100ms"))
		s.must("", "jobs", "wait", id)
		s.do("", "jobs", "get", id).expect(t, 0, "haulier/play:1 cat", "succeeded")
		s.do("", "run", "--container", "debian:13", "--", "true").expect(t, 1, "images of its policy file")
	})
	// The container of each phase is looked for at the engine.
	for _, phase := range []string{"created", "running", "exited"} {
		t.Run("of a worker killed when they are "+phase+" the job ends right", func(t *testing.T) {
			id := strings.TrimSpace(s.must("", "enqueue", "step", "--container", dockertest.Image, "--input", "samples=in", "--save", "kept=*.out", "--backoff", "100ms", "--",
				"out=begin", "sleep=700ms", "read=in/a.txt", "write=b.out:made", "out=end"))
			s.awaitContainer(e, phase)
			killed()
			killed = s.worker(e.Host, state)
			s.must("", "jobs", "wait", id)
			parsed, err := haulier.ParseID(id)
			if err != nil {
				t.Fatal(err)
			}
			if j := s.job(parsed); j.State != haulier.Succeeded || j.OutputVersion == 0 || phase == "running" && j.Attempt != 1 {
				t.Errorf("%s after attempt %d, output %d: %s", j.State, j.Attempt, j.OutputVersion, j.Error)
			}
			if got := s.must("", "jobs", "logs", id); got != "begin\ngivenend\n" {
				t.Errorf("output %q", got)
			}
			s.nothingLeft(e, state)
		})
	}
	killed()
}

// worker starts one as another process, and returns what kills it.
func (s *site) worker(host, state string) (kill func()) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), os.Args[0], "worker", "--url", s.url, "--executors", "container", "--container-policy", "policy.json",
		"--state", state, "--name", "tester", "--lease", "6s", "--concurrency", "2")
	cmd.Env = append(os.Environ(), programVariable+"=1", "DOCKER_HOST="+host, "HOME="+s.env["HOME"])
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}
}

// awaitContainer looks until a container is in a phase.
func (s *site) awaitContainer(e *dockertest.Engine, phase string) {
	s.t.Helper()
	s.eventually("no container is "+phase, func() bool {
		list, err := e.API.ContainerList(s.t.Context(), client.ContainerListOptions{All: true})
		if err != nil {
			s.t.Fatal(err)
		}
		return len(list.Items) > 0 && string(list.Items[0].State) == phase
	})
}

// nothingLeft waits until the worker has tidied up.
func (s *site) nothingLeft(e *dockertest.Engine, state string) {
	s.t.Helper()
	left := ""
	s.eventually("something is left behind", func() bool {
		folders, err := filepath.Glob(filepath.Join(state, "containers", "*", "work"))
		if err != nil {
			s.t.Fatal(err)
		}
		now := fmt.Sprint(e.Left(s.t), folders)
		if now != left {
			left = now
			s.t.Log("left:", left)
		}
		return now == "[] []"
	})
}

func (s *site) eventually(what string, ok func() bool) {
	s.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); !ok(); <-tick.C {
		if time.Now().After(end) {
			s.t.Fatal(what)
		}
	}
}
