package wasi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/blob"
	"github.com/haulier/haulier/engine"
	"github.com/haulier/haulier/executor"
	"github.com/haulier/haulier/executor/wasi"
	"github.com/haulier/haulier/joblog"
	"github.com/haulier/haulier/store/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is an executor with an engine's blobs.
type rig struct {
	t     testing.TB
	x     *wasi.Executor
	blobs haulier.Blobs
	n     byte
}

func newRig(t testing.TB, c wasi.Config) *rig {
	bucket, err := blob.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Config{Store: mem.New(), Blobs: bucket})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, x: wasi.New(c), blobs: e}
	if _, err := r.x.Open(t.Context(), executor.Env{Dir: t.TempDir(), Blobs: e}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.x.Close(); err != nil {
			t.Error(err)
		}
		e.Close()
		bucket.Close()
	})
	return r
}

func (r *rig) put(content []byte) string {
	r.t.Helper()
	addr := haulier.BlobAddress(content)
	if err := r.blobs.PutBlob(r.t.Context(), haulier.DefaultTenant, addr, bytes.NewReader(content)); err != nil {
		r.t.Fatal(err)
	}
	return addr
}

func (r *rig) read(addr string) string {
	r.t.Helper()
	content, _, err := r.blobs.ReadBlob(context.Background(), haulier.DefaultTenant, addr, 0, -1)
	if err != nil {
		r.t.Fatal(err)
	}
	defer content.Close()
	b, err := io.ReadAll(content)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(b)
}

// sink keeps what an attempt writes.
type sink struct {
	mu     sync.Mutex
	frames []byte
}

func (s *sink) Log(_ context.Context, _ int64, frames []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frames = append(s.frames, frames...)
	return nil
}

func (*sink) Progress(float64, string) {}

// job is one that is ready to be prepared.
func (r *rig) job(task haulier.WasiTask) *haulier.Job {
	r.n++
	j := &haulier.Job{Spec: haulier.Spec{ID: haulier.ID{r.n}, Tenant: haulier.DefaultTenant, Type: "probe", Task: haulier.Task{Wasi: &task}, Files: &haulier.Files{}}}
	j.Attempt = 1
	return j
}

func (r *rig) prepare(j *haulier.Job) executor.Attempt {
	r.t.Helper()
	a, err := r.x.Prepare(r.t.Context(), j, j.Payload)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// finish runs what was prepared to its end, and returns also what it wrote to its standard error.
func (r *rig) finish(a executor.Attempt) (executor.Result, string) {
	r.t.Helper()
	out := &sink{}
	if err := a.Start(r.t.Context(), out); err != nil {
		r.t.Fatal(err)
	}
	defer a.Close()
	res, err := a.Wait(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	text, err := joblog.Text(out.frames)
	if err != nil {
		r.t.Fatal(err)
	}
	return res, string(text)
}

func (r *rig) run(task haulier.WasiTask) executor.Result {
	r.t.Helper()
	res, _ := r.finish(r.prepare(r.job(task)))
	return res
}

// probe is the program in testdata/probe, built once.
var probe = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "haulier-probe-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "probe.wasm")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", file, "./testdata/probe")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return os.ReadFile(file)
})

func TestProgram(t *testing.T) {
	code, err := probe()
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, wasi.Config{})
	module := r.put(code)
	task := func(args ...string) haulier.WasiTask { return haulier.WasiTask{Module: module, Args: args} }

	t.Run("standard input is a blob or the payload, standard output becomes a blob", func(t *testing.T) {
		in := task("upper")
		in.Stdin = r.put([]byte("hello"))
		if res := r.run(in); res.Outcome != haulier.OutcomeOK || string(res.Result) != "HELLO" || r.read(res.ResultBlob) != "HELLO" {
			t.Errorf("%+v", res)
		}
		j := r.job(task("upper"))
		j.Payload = []byte("payload")
		if res, _ := r.finish(r.prepare(j)); string(res.Result) != "PAYLOAD" {
			t.Errorf("%+v", res)
		}
	})
	t.Run("the exit code says how it ended, and what it wrote is kept all the same", func(t *testing.T) {
		say := task("say", "a", "b", "c")
		say.Env = map[string]string{"GREETING": "hi"}
		res, log := r.finish(r.prepare(r.job(say)))
		if res.Outcome != haulier.OutcomeError || res.Code != 3 || r.read(res.ResultBlob) != "a b c" || log != "probe hi\n" {
			t.Errorf("%+v %q", res, log)
		}
	})
	t.Run("its folder is the only one that it sees", func(t *testing.T) {
		secret := filepath.Join(t.TempDir(), "secret")
		os.WriteFile(secret, []byte("secret"), 0o600)
		a := r.prepare(r.job(task("escape", "link", "../../../../../../../../../../etc/passwd", "/etc/passwd", secret)))
		if err := os.Symlink(secret, filepath.Join(a.Folder(), "link")); err != nil {
			t.Fatal(err)
		}
		res, log := r.finish(a)
		if text := string(res.Result); strings.Count(text, " 0 bytes, true\n") != 4 || !strings.HasSuffix(text, "false\ntrue\n") {
			t.Errorf("%s %+v %s", text, res, log)
		}
	})
	t.Run("it reads and writes files in its folder", func(t *testing.T) {
		a := r.prepare(r.job(task("files")))
		os.Mkdir(filepath.Join(a.Folder(), "in"), 0o755)
		os.WriteFile(filepath.Join(a.Folder(), "in", "a.txt"), []byte("a"), 0o644)
		out := &sink{}
		a.Start(t.Context(), out)
		res, _ := a.Wait(t.Context())
		got, err := os.ReadFile(filepath.Join(a.Folder(), "out", "c.txt"))
		if string(got) != "a!" || err != nil || string(res.Result) != "c.txt false\ndeep true\n" && string(res.Result) != "deep true\nc.txt false\n" {
			t.Errorf("%q %v %+v %s", got, err, res, out.frames)
		}
		a.Close()
		if _, err := os.Stat(a.Folder()); !os.IsNotExist(err) {
			t.Error("its folder is left behind")
		}
	})
	t.Run("it can't take all file descriptors", func(t *testing.T) {
		if res := r.run(task("open")); string(res.Result) != "true" {
			t.Errorf("%+v", res)
		}
	})
	t.Run("without leave it sees neither the time nor chance, nor the worker's environment", func(t *testing.T) {
		t.Setenv("WORKERS_OWN", "secret")
		one, two := r.run(task("facts")), r.run(task("facts"))
		if string(one.Result[:19]) != string(two.Result[:19]) || strings.Contains(string(one.Result), "WORKERS_OWN") {
			t.Errorf("%s\n%s", one.Result, two.Result)
		}
		may := task("facts")
		may.Clock, may.Random = true, true
		if res := r.run(may); string(res.Result[:19]) == string(one.Result[:19]) {
			t.Errorf("%s", res.Result)
		}
	})
	t.Run("one that sleeps ends when it is stopped", func(t *testing.T) {
		may := task("sleep")
		may.Clock = true
		a := r.prepare(r.job(may))
		defer a.Close()
		a.Start(t.Context(), &sink{})
		a.Stop(-1)
		if res, err := a.Wait(t.Context()); err != nil || !res.Stopped {
			t.Errorf("%+v %v", res, err)
		}
	})
}
