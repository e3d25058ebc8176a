package docker_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
	"github.com/haulier/haulier/executor/docker"
	"github.com/haulier/haulier/executor/docker/dockertest"
	"github.com/haulier/haulier/joblog"
)

// sink keeps output, and says when the first of it comes.
type sink struct {
	frames []byte
	first  chan struct{}
}

func (s *sink) Log(_ context.Context, _ int64, frames []byte) error {
	if s.first != nil && len(s.frames) == 0 {
		close(s.first)
	}
	s.frames = append(s.frames, frames...)
	return nil
}

func (*sink) Progress(float64, string) {}

// open is an executor with a policy over the tests' engine.
func open(t *testing.T, p docker.Policy) (*dockertest.Engine, executor.Executor) {
	t.Helper()
	e := dockertest.Start(t)
	x := docker.New(docker.Config{Host: e.Host, Policy: p})
	if _, err := x.Open(t.Context(), executor.Env{Dir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
		if left := e.Left(t); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	})
	return e, x
}

func run(t *testing.T, x executor.Executor, task haulier.Task) (executor.Result, string) {
	t.Helper()
	j := &haulier.Job{Spec: haulier.Spec{ID: haulier.NewID(time.Now()), Task: task}, Status: haulier.Status{Attempt: 1}}
	a, err := x.Prepare(t.Context(), j, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	out := &sink{}
	if err := a.Start(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	r, err := a.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text, err := joblog.Text(out.frames)
	if err != nil {
		t.Fatal(err)
	}
	return r, string(text)
}

func TestWhatAPolicyDenies(t *testing.T) {
	_, x := open(t, docker.Policy{
		Images: []string{"haulier/*", "team/**"}, Mounts: []string{"/srv/data:ro"}, Volumes: []string{"cache-*"}, Networks: []string{"inner"},
		Capabilities: []string{"NET_RAW"}, Memory: 64 << 20, CPUs: 1.5,
	})
	for config, want := range map[string]string{
		`{"Image": "other/play:1"}`:                                                     "images",
		`{"Image": "haulier/deep/play"}`:                                                "images",
		`{"HostConfig": {"Privileged": true}}`:                                          "privileged",
		`{"hostconfig": {"privileged": true}}`:                                          "privileged",
		`{"HostConfig": {"NetworkMode": "host"}}`:                                       "networks",
		`{"HostConfig": {"NetworkMode": "container:other"}}`:                            "networks",
		`{"NetworkingConfig": {"EndpointsConfig": {"other": {}}}}`:                      "networks",
		`{"HostConfig": {"CapAdd": ["SYS_ADMIN"]}}`:                                     "capabilities",
		`{"HostConfig": {"CapAdd": ["ALL"]}}`:                                           "capabilities",
		`{"HostConfig": {"Binds": ["/srv/data:/data"]}}`:                                "for writing",
		`{"HostConfig": {"Binds": ["/srv/data/../../etc:/etc:ro"]}}`:                    "mounts",
		`{"HostConfig": {"Binds": ["/srv/data/link:/etc:ro"]}}`:                         "mounts",
		`{"HostConfig": {"Binds": ["other:/data"]}}`:                                    "volumes",
		`{"HostConfig": {"Mounts": [{"Type": "bind", "Source": "/", "Target": "/m"}]}}`: "mounts",
		`{"HostConfig": {"Mounts": [{"Type": "volume", "Target": "/m", "VolumeOptions": {"DriverConfig": {"Options": {"device": "/"}}}}]}}`: "DriverConfig",
		`{"HostConfig": {"PidMode": "host"}}`:                      "HostConfig.PidMode",
		`{"HostConfig": {"Devices": [{"PathOnHost": "/dev/sd"}]}}`: "HostConfig.Devices",
		`{"HostConfig": {"SecurityOpt": ["seccomp=unconfined"]}}`:  "HostConfig.SecurityOpt",
		`{"HostConfig": {"MaskedPaths": []}}`:                      "HostConfig.MaskedPaths",
		`{"HostConfig": {"VolumesFrom": ["other"]}}`:               "HostConfig.VolumesFrom",
		`{"HostConfig": {"CgroupParent": "/"}}`:                    "HostConfig.CgroupParent",
		`{"HostConfig": {"Memory": 1073741824}}`:                   "memory",
		`{"HostConfig": {"NanoCpus": 2000000000}}`:                 "cpus",
		`{"HostConfig": {"Unheard": 1}}`:                           "Unheard",
		`{"Labels": {"haulier.owner": "other"}}`:                   "haulier.owner",
		`{"Tty": true}`:                                            "Tty",
	} {
		r, _ := run(t, x, play(config, "exit=0"))
		if r.Outcome != haulier.OutcomeFailed || !strings.Contains(r.Error, want) {
			t.Errorf("%s: %+v, want %q", config, r, want)
		}
	}
	_, nothing := open(t, docker.Policy{})
	if r, _ := run(t, nothing, play("", "exit=0")); r.Outcome != haulier.OutcomeFailed || !strings.Contains(r.Error, "images") {
		t.Errorf("without a policy: %+v", r)
	}
}

func TestWhatAPolicyAllows(t *testing.T) {
	data := t.TempDir()
	if err := os.WriteFile(filepath.Join(data, "file"), []byte("of the machine"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, x := open(t, docker.Policy{Images: []string{"*"}, Network: "none", Mounts: []string{data + ":ro"}, Allow: []string{"PidMode"}, Memory: 48 << 20})
	r, out := run(t, x, play(`{"Volumes": {"/scratch": {}}, "HostConfig": {"Binds": ["`+data+`:/data:ro"], "PidMode": "host", "ReadonlyRootfs": true}}`,
		"read=/data/file", "result=written", "out="))
	if r.Outcome != haulier.OutcomeOK || out != "of the machine\n" || string(r.Result) != "written" {
		t.Errorf("got %+v, output %q, result %q", r, out, r.Result)
	}
	if r, _ := run(t, x, play("", "fill=100000000")); r.Outcome != haulier.OutcomeError || !strings.Contains(r.Error, "out of memory, of which it had 50331648 bytes") || r.Code != 137 {
		t.Errorf("with too little memory: %+v", r)
	}
}

func TestAccountOfAContainer(t *testing.T) {
	_, x := open(t, docker.Policy{Images: []string{"*"}, Network: "none"})
	r, _ := run(t, x, play(`{"Env": ["A=b"]}`, "fill=20000000", "sleep=2500ms", "exit=7"))
	a := r.Account
	if r.Code != 7 || a == nil || a.CPU <= 0 || a.MaxMemory < 20_000_000 {
		t.Fatalf("got %+v, %+v", r, a)
	}
	for _, want := range []string{`"ExitCode":7`, `"A=b"`, `"haulier.job"`, `"FinishedAt"`, `"GraphDriver"`} {
		if !strings.Contains(string(a.Container), want) {
			t.Errorf("the inspect object has no %s: %s", want, a.Container)
		}
	}
}

func TestImageThatIsNotThere(t *testing.T) {
	_, x := open(t, docker.Policy{Images: []string{"*"}, Logins: map[string]docker.Login{"ci": {Username: "u", PasswordFile: "/nowhere"}}})
	task := play(`{"Image": "haulier/none"}`)
	task.Container.Pull = haulier.PullNever
	if r, _ := run(t, x, task); r.Outcome != haulier.OutcomeFailed || !strings.Contains(r.Error, "haulier/none") {
		t.Errorf("never fetched: %+v", r)
	}
	for name, want := range map[string]string{"other": "logins", "ci": "/nowhere"} {
		task.Container.Pull, task.Container.Auth = haulier.PullMissing, name
		if r, _ := run(t, x, task); r.Outcome != haulier.OutcomeFailed || !strings.Contains(r.Error, want) {
			t.Errorf("login %s: %+v", name, r)
		}
	}
}

func TestProgramThatIsNotInTheImage(t *testing.T) {
	_, x := open(t, docker.Policy{Images: []string{"*"}, Network: "none"})
	if r, _ := run(t, x, play(`{"Entrypoint": ["/missing"]}`)); r.Outcome != haulier.OutcomeFailed || !strings.Contains(r.Error, "not started") {
		t.Errorf("got %+v", r)
	}
}

func TestContainerThatSomebodyRemoves(t *testing.T) {
	e, x := open(t, docker.Policy{Images: []string{"*"}, Network: "none"})
	j := &haulier.Job{Spec: haulier.Spec{ID: haulier.NewID(time.Now()), Task: play("", "out=ready", "sleep=1m")}, Status: haulier.Status{Attempt: 1}}
	a, err := x.Prepare(t.Context(), j, nil)
	out := &sink{first: make(chan struct{})}
	if err == nil {
		err = a.Start(t.Context(), out)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	<-out.first
	_, err = e.API.ContainerRemove(t.Context(), "haulier-"+j.ID.String()+"-1", client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := a.Wait(t.Context()); err != nil || r.Outcome != haulier.OutcomeError || r.Stopped {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestPolicyFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.json")
	for text, good := range map[string]bool{
		`{"images": ["a/*"], "logins": {"ci": {"registry": "r.example", "username": "u", "password_file": "p"}}}`: true,
		`{"image": ["a"]}`: false, `{"allow": ["Nothing"]}`: false, `images: [a]`: false,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := docker.ReadPolicy(file); (err == nil) != good || err != nil && !errors.Is(err, haulier.ErrInvalid) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestEngineThatIsNotThere(t *testing.T) {
	x := docker.New(docker.Config{Host: "unix:///nowhere/d.sock"})
	if _, err := x.Open(t.Context(), executor.Env{Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "DOCKER_HOST") {
		t.Errorf("got %v", err)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
}
