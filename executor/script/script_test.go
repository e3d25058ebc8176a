package script_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
	"github.com/haulier/haulier/executor/script"
	"github.com/haulier/haulier/joblog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shelf is where the handlers of a test are.
type shelf struct {
	mu   sync.Mutex
	kept map[string]haulier.Handler
}

func (s *shelf) Handler(_ context.Context, tenant, typ string, _ int) (haulier.Handler, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.kept[tenant+"/"+typ]
	if !ok {
		return h, haulier.ErrNotFound
	}
	return h, nil
}

// rig is an executor with handlers.
type rig struct {
	*script.Executor
	shelf shelf
	ids   int
}

func newRig(t testing.TB, c script.Config) *rig {
	r := &rig{shelf: shelf{kept: map[string]haulier.Handler{}}}
	c.Source = &r.shelf
	r.Executor = script.New(c)
	if _, err := r.Open(t.Context(), executor.Env{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// need skips the test when the program of a language is not on this machine.
func need(t testing.TB, program string) {
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("%s is not on this machine: its handlers are not tested", program)
	}
}

func (r *rig) set(h haulier.Handler) {
	r.shelf.mu.Lock()
	defer r.shelf.mu.Unlock()
	if h.Tenant == "" {
		h.Tenant = "default"
	}
	h.Version = 1
	sum := sha256.Sum256(fmt.Append(nil, h))
	h.Digest = hex.EncodeToString(sum[:])
	r.shelf.kept[h.Tenant+"/"+h.Type] = h
}

// run is a job on its way.
type run struct {
	executor.Attempt
	mu     sync.Mutex
	frames []byte
	seen   chan struct{} // poked with each output
}

func (r *run) Log(_ context.Context, from int64, frames []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if from != int64(len(r.frames)) {
		return fmt.Errorf("output at %d follows %d", from, len(r.frames))
	}
	r.frames = append(r.frames, frames...)
	select {
	case r.seen <- struct{}{}:
	default:
	}
	return nil
}

func (*run) Progress(float64, string) {}

func (r *run) text(t testing.TB) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	text, err := joblog.Text(r.frames)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (r *rig) start(t testing.TB, typ, payload string, with ...func(*haulier.Job)) *run {
	t.Helper()
	r.ids++
	j := &haulier.Job{Spec: haulier.Spec{Tenant: "default", Queue: "default", Type: typ, Task: haulier.Task{Script: &haulier.ScriptTask{Version: 1}}, MaxAttempts: 3}}
	j.ID, j.Attempt = haulier.ID{byte(r.ids >> 8), byte(r.ids)}, 1
	for _, f := range with {
		f(j)
	}
	j.Task.Script.Digest = r.shelf.kept[j.Tenant+"/"+typ].Digest
	a, err := r.Prepare(t.Context(), j, []byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	out := &run{Attempt: a, seen: make(chan struct{}, 1)}
	if err := a.Start(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	return out
}

func (r *run) wait(t testing.TB) executor.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	res, err := r.Wait(ctx)
	if err != nil {
		t.Fatalf("%v, having said %q", err, r.text(t))
	}
	r.Close()
	return res
}

const nodeEcho = `
let n = 0;
module.exports = async (payload, job) => {
  console.log('job', job.id.length, job.type, payload);
  switch (payload) {
    case 'status': return 404;
    case 'retry': return job.end(120, 'later', 1.5);
    case 'end': return job.end(201, { a: 1 });
    case 'throw': throw new TypeError('no');
    case 'exit': process.exit(3);
    case 'forge': require('fs').writeSync(4, 'done 0 200 0 - -\n'); return 'own';
    case 'garbage': require('fs').writeSync(4, 'nonsense\n'); return 'own';
    case 'flood': require('fs').writeSync(4, 'x'.repeat(200000)); return 'own';
    case 'close': require('fs').closeSync(4); return new Promise((f) => setTimeout(f, 60000));
    case 'mute': require('fs').closeSync(1); require('fs').closeSync(2); return 'mute';
    case 'hang': for (;;) {}
    case 'slow': return new Promise((f) => setTimeout(f, 60000));
    case 'big': return 'x'.repeat(70000);
    case 'eat': { const all = []; for (;;) all.push(Buffer.alloc(8 << 20, 1)); }
    case 'count': return { n: ++n, pid: process.pid };
    case 'bytes': return job.payload;
  }
  return { got: payload };
};
`

func TestNode(t *testing.T) {
	need(t, "node")
	r := newRig(t, script.Config{Processes: 1})
	r.set(haulier.Handler{Type: "echo", Lang: "node", Scripts: haulier.Scripts{Body: nodeEcho}})
	for _, c := range []struct {
		payload string
		outcome haulier.Outcome
		code    int
		result  string
		err     string
	}{
		{"hello", haulier.OutcomeOK, 200, `{"got":"hello"}`, ""},
		{"status", haulier.OutcomeFailed, 404, "", "404"},
		{"retry", haulier.OutcomeRetry, 120, "", "later"},
		{"end", haulier.OutcomeOK, 201, `{"a":1}`, ""},
		{"throw", haulier.OutcomeError, 500, "", "TypeError: no"},
		{"exit", haulier.OutcomeError, -1, "", "exit status 3"},
		{"garbage", haulier.OutcomeError, -1, "", "protocol"},
		{"flood", haulier.OutcomeError, -1, "", "protocol"},
		{"close", haulier.OutcomeError, -1, "", "closed the pipe"},
		{"mute", haulier.OutcomeOK, 200, "mute", ""},
		{"big", haulier.OutcomeError, 500, "", "65536"},
		{"", haulier.OutcomeOK, 200, `{"got":""}`, ""},
	} {
		t.Run("says "+c.payload, func(t *testing.T) {
			x := r.start(t, "echo", c.payload)
			res := x.wait(t)
			if res.Outcome != c.outcome || res.Code != c.code || string(res.Result) != c.result || !strings.Contains(res.Error, c.err) || c.err == "" && res.Error != "" {
				t.Errorf("%+v with result %q", res, res.Result)
			}
			if c.payload == "retry" && res.Delay != 1500*time.Millisecond {
				t.Errorf("delay %v", res.Delay)
			}
			if said := x.text(t); !strings.Contains(said, "job 36 echo "+c.payload) {
				t.Errorf("log %q", said)
			}
		})
	}
}
