package script_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
	"github.com/haulier/haulier/executor/script"
	"github.com/haulier/haulier/joblog"
)

// folderVariable names the state folder of this program when it is to be a worker that is killed.
const folderVariable = "HAULIER_TEST_STATE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(folderVariable); dir != "" {
		work(dir)
	}
	goleak.VerifyTestMain(m)
}

// work runs a job without end, and tells the id of its process.
func work(dir string) {
	r := &rig{shelf: shelf{kept: map[string]haulier.Handler{}}}
	r.Executor = script.New(script.Config{Source: &r.shelf})
	r.set(haulier.Handler{Type: "a", Lang: "node", Scripts: haulier.Scripts{Body: "module.exports = () => { console.log(`process ${process.pid}.`); for (;;); }"}})
	j := &haulier.Job{Spec: haulier.Spec{Tenant: "default", Queue: "default", Type: "a", Task: haulier.Task{Script: &haulier.ScriptTask{Version: 1}}}}
	j.Task.Script.Digest = r.shelf.kept["default/a"].Digest
	_, err := r.Open(context.Background(), executor.Env{Dir: dir})
	var a executor.Attempt
	if err == nil {
		a, err = r.Prepare(context.Background(), j, nil)
	}
	if err == nil {
		err = a.Start(context.Background(), teller{})
	}
	if err == nil {
		_, err = a.Wait(context.Background())
	}
	fmt.Println(err)
	os.Exit(1)
}

// teller is a sink that prints what a job says.
type teller struct{}

func (teller) Log(_ context.Context, _ int64, frames []byte) error {
	text, err := joblog.Text(frames)
	os.Stdout.Write(text)
	return err
}

func (teller) Progress(float64, string) {}

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
	ids   atomic.Int64
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

func (r *rig) set(h haulier.Handler) haulier.Handler {
	r.shelf.mu.Lock()
	defer r.shelf.mu.Unlock()
	if h.Tenant == "" {
		h.Tenant = "default"
	}
	h.Version = 1
	sum := sha256.Sum256(fmt.Append(nil, h))
	h.Digest = hex.EncodeToString(sum[:])
	r.shelf.kept[h.Tenant+"/"+h.Type] = h
	return h
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
	return r.begin(t, typ, payload, with...)
}

// begin is start from any goroutine.
func (r *rig) begin(t testing.TB, typ, payload string, with ...func(*haulier.Job)) *run {
	n := r.ids.Add(1)
	j := &haulier.Job{Spec: haulier.Spec{Tenant: "default", Queue: "default", Type: typ, Task: haulier.Task{Script: &haulier.ScriptTask{Version: 1}}, MaxAttempts: 3}}
	j.ID, j.Attempt = haulier.ID{byte(n >> 16), byte(n >> 8), byte(n)}, 1
	for _, f := range with {
		f(j)
	}
	h, _ := r.shelf.Handler(t.Context(), j.Tenant, typ, 1)
	j.Task.Script.Digest = h.Digest
	a, err := r.Prepare(t.Context(), j, []byte(payload))
	if err != nil {
		t.Error(err)
		runtime.Goexit()
	}
	out := &run{Attempt: a, seen: make(chan struct{}, 1)}
	if err := a.Start(t.Context(), out); err != nil {
		t.Error(err)
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

// until waits until the job has said the words.
func (r *run) until(t testing.TB, words string) {
	t.Helper()
	for !strings.Contains(r.text(t), words) {
		select {
		case <-r.seen:
		case <-time.After(30 * time.Second):
			t.Fatalf("it never said %q: %q", words, r.text(t))
		}
	}
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
    case 'deaf': require('fs').closeSync(3); return 'deaf';
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
		{"deaf", haulier.OutcomeOK, 200, "deaf", ""},
		{"again", haulier.OutcomeOK, 200, `{"got":"again"}`, ""},
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

func ok(t testing.TB, x *run) string {
	t.Helper()
	res := x.wait(t)
	if res.Outcome != haulier.OutcomeOK {
		t.Errorf("%+v, having said %q", res, x.text(t))
	}
	return string(res.Result)
}

// block starts a job that occupies the one context of a rig until f is called: jobs that are started meanwhile make a batch.
func (r *rig) block(t testing.TB, typ string) (f func()) {
	t.Helper()
	file := t.TempDir() + "/go"
	ok(t, r.start(t, typ, "quick")) // so that how long jobs take is known
	x := r.start(t, typ, "block "+file)
	x.until(t, "blocking")
	return func() {
		t.Helper()
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		ok(t, x)
	}
}

const nodeBatch = `
module.exports = async (payload, job) => {
  const [verb, arg] = payload.split(' ');
  console.log(job.type + ' ' + payload);
  console.error('err ' + payload);
  if (verb === 'block') {
    console.log('blocking');
    while (!require('fs').existsSync(arg)) await new Promise((f) => setTimeout(f, 5));
  }
  if (verb === 'crash') process.abort();
  if (verb === 'refuse') return 400;
  if (verb === 'hang') for (;;);
  if (verb === 'wait') { console.log('waiting'); await new Promise((f) => setTimeout(f, 60000)); }
  return { pid: process.pid, seen: context.seen, batches: context.batches };
};
`

var batchScripts = haulier.Scripts{Body: nodeBatch, Before: "context.seen = 1; context.batches = 0", BeforeEach: "context.batches++"}

func TestBatches(t *testing.T) {
	need(t, "node")
	r := newRig(t, script.Config{Processes: 1, Batch: time.Hour})
	r.set(haulier.Handler{Type: "plain", Lang: "node", Scripts: batchScripts})
	committed := batchScripts
	committed.AfterEach = "console.log('committed'); if (context.broken) throw new Error('no commit')"
	committed.Body = strings.Replace(nodeBatch, "if (verb === 'crash')", "if (verb === 'break') context.broken = true;\n  if (verb === 'crash')", 1)
	r.set(haulier.Handler{Type: "committed", Lang: "node", Scripts: committed})

	many := func(t *testing.T, typ string, payloads ...string) []*run {
		release := r.block(t, typ)
		var all []*run
		for _, p := range payloads {
			all = append(all, r.start(t, typ, p))
		}
		release()
		return all
	}
	t.Run("share a process, and what each says is its own", func(t *testing.T) {
		var results []string
		for i, x := range many(t, "plain", "a", "b", "c") {
			results = append(results, ok(t, x))
			name := string(rune('a' + i))
			if said := x.text(t); !strings.Contains(said, "plain "+name+"\n") || !strings.Contains(said, "err "+name+"\n") || len(said) != len("plain a\nerr a\n") {
				t.Errorf("job %s said %q", name, said)
			}
		}
		if results[0] != results[1] || results[1] != results[2] || !strings.Contains(results[0], `"seen":1`) {
			t.Errorf("results %q: they were to be those of one batch", results)
		}
	})
	t.Run("outlive the crash of one job", func(t *testing.T) {
		all := many(t, "plain", "a", "crash", "c", "refuse", "e")
		first, third := ok(t, all[0]), ok(t, all[2])
		if res := all[1].wait(t); res.Outcome != haulier.OutcomeError || !strings.Contains(res.Error, "signal") {
			t.Errorf("the one that crashed: %+v", res)
		}
		if res := all[3].wait(t); res.Outcome != haulier.OutcomeFailed {
			t.Errorf("the one that refuses: %+v", res)
		}
		if fifth := ok(t, all[4]); first == third || third != fifth {
			t.Errorf("results %s, %s and %s", first, third, fifth)
		}
		if said := all[2].text(t); said != "plain c\nerr c\n" && said != "err c\nplain c\n" {
			t.Errorf("a mate said %q", said)
		}
	})
	t.Run("outlive one that takes too long", func(t *testing.T) {
		release := r.block(t, "plain")
		slow := r.start(t, "plain", "hang", func(j *haulier.Job) { j.Timeout = haulier.Duration(100 * time.Millisecond) })
		mate := r.start(t, "plain", "b")
		release()
		if res := slow.wait(t); !strings.Contains(res.Error, "timed out after 100ms") {
			t.Errorf("%+v", res)
		}
		ok(t, mate)
	})
	t.Run("outlive one that is stopped", func(t *testing.T) {
		release := r.block(t, "plain")
		slow, mate, later := r.start(t, "plain", "wait"), r.start(t, "plain", "b"), r.start(t, "plain", "c")
		release()
		slow.until(t, "waiting")
		later.Stop(-1)
		slow.Stop(time.Second)
		if res := slow.wait(t); !res.Stopped {
			t.Errorf("%+v", res)
		}
		if res := later.wait(t); !res.Stopped {
			t.Errorf("%+v", res)
		}
		ok(t, mate)
	})
	t.Run("are done when after-each is", func(t *testing.T) {
		all := many(t, "committed", "a", "b")
		ok(t, all[0])
		ok(t, all[1])
		if said := all[1].text(t); !strings.Contains(said, "committed\n") {
			t.Errorf("the last job said %q", said)
		}
	})
	t.Run("run again when after-each was not reached", func(t *testing.T) {
		all := many(t, "committed", "a", "crash", "c")
		if res := all[0].wait(t); !res.Released {
			t.Errorf("the first: %+v", res)
		}
		if res := all[1].wait(t); res.Outcome != haulier.OutcomeError {
			t.Errorf("the one that crashed: %+v", res)
		}
		ok(t, all[2])
	})
	t.Run("have failed when after-each has", func(t *testing.T) {
		all := many(t, "committed", "break", "refuse", "c")
		for i, want := range []haulier.Outcome{haulier.OutcomeError, haulier.OutcomeFailed, haulier.OutcomeError} {
			if res := all[i].wait(t); res.Outcome != want || i != 1 && !strings.Contains(res.Error, "after-each: Error: no commit") {
				t.Errorf("job %d: %+v", i, res)
			}
		}
	})
}

func TestContexts(t *testing.T) {
	need(t, "node")
	body := haulier.Scripts{Body: "module.exports = async (p) => { if (p) globalThis.kept = Buffer.alloc(Number(p) << 20, 1); return process.pid }"}
	body.Body = strings.Replace(body.Body, "return process.pid", "return String(process.pid)", 1)
	set := func(r *rig) {
		for _, h := range []haulier.Handler{{Type: "a"}, {Type: "b"}, {Type: "c", Engine: "e"}, {Type: "d", Engine: "e"}, {Type: "c", Engine: "e", Tenant: "other"}} {
			h.Lang, h.Scripts = "node", body
			h.Before = "// " + h.Type
			r.set(h)
		}
	}
	t.Run("are shared by handlers of one engine id and one tenant alone", func(t *testing.T) {
		r := newRig(t, script.Config{Processes: 4})
		set(r)
		other := func(j *haulier.Job) { j.Tenant = "other" }
		a, b, c, d, e := ok(t, r.start(t, "a", "")), ok(t, r.start(t, "b", "")), ok(t, r.start(t, "c", "")), ok(t, r.start(t, "d", "")), ok(t, r.start(t, "c", "", other))
		if a == b || b == c || c != d || e == c || e == a {
			t.Errorf("processes %s %s %s %s %s", a, b, c, d, e)
		}
	})
	t.Run("make room for others", func(t *testing.T) {
		r := newRig(t, script.Config{Processes: 1})
		set(r)
		if a, b := ok(t, r.start(t, "a", "")), ok(t, r.start(t, "b", "")); a == b {
			t.Errorf("process %s runs both", a)
		}
	})
	for _, c := range []struct {
		name, payload string
		with          script.Config
	}{
		{"are replaced after a number of jobs", "", script.Config{Jobs: 1}},
		{"are replaced when they are old", "", script.Config{Age: time.Nanosecond}},
		{"are replaced when they have much memory", "150", script.Config{Memory: 140 << 20}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.with.Processes = 1
			r := newRig(t, c.with)
			set(r)
			if a, b := ok(t, r.start(t, "a", c.payload)), ok(t, r.start(t, "a", "")); a == b {
				t.Errorf("process %s goes on", a)
			}
		})
	}
	t.Run("are ended when they have far too much", func(t *testing.T) {
		r := newRig(t, script.Config{Processes: 1, Memory: 100 << 20})
		r.set(haulier.Handler{Type: "a", Lang: "node", Scripts: haulier.Scripts{
			Body: "module.exports = async () => { globalThis.k = Buffer.alloc(300 << 20, 1); await new Promise((f) => setTimeout(f, 60000)) }"}})
		if res := r.start(t, "a", "").wait(t); !strings.Contains(res.Error, "too much memory") {
			t.Errorf("%+v", res)
		}
	})
	t.Run("have no secret of the worker", func(t *testing.T) {
		t.Setenv("HAULIER_TOKEN", "secret")
		t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
		r := newRig(t, script.Config{Processes: 1})
		r.set(haulier.Handler{Type: "a", Lang: "node", Scripts: haulier.Scripts{
			Body: "module.exports = async () => [Object.keys(process.env).filter((k) => /SECRET|TOKEN/.test(k)), require('fs').readdirSync('/proc/self/fd').length < 30]"}})
		if got := ok(t, r.start(t, "a", "")); got != "[[],true]" {
			t.Errorf("it sees %s", got)
		}
	})
}

func TestPython(t *testing.T) {
	need(t, "python3")
	r := newRig(t, script.Config{Processes: 1})
	r.set(haulier.Handler{Type: "echo", Lang: "python", Scripts: haulier.Scripts{Before: "batches = 0", BeforeEach: "batches += 1", Body: `
import os, sys, subprocess

def handle(payload, job):
    print("job", job.type, payload)
    if payload == "status":
        return 404
    if payload == "end":
        return job.end(503, "later", 2)
    if payload == "raise":
        raise KeyError("no")
    if payload == "exit":
        os._exit(4)
    if payload == "leave":
        sys.exit(4)
    if payload == "child":
        return subprocess.run("echo from a child; ls -l /proc/self/fd | grep -c pipe", shell=True).returncode == 0
    return {"got": payload, "batches": batches > 0}
`}})
	r.set(haulier.Handler{Type: "broken", Lang: "python", Scripts: haulier.Scripts{Body: "def handle(:"}})
	for _, c := range []struct {
		typ, payload string
		outcome      haulier.Outcome
		result, err  string
	}{
		{"echo", "hello", haulier.OutcomeOK, `{"got": "hello", "batches": true}`, ""},
		{"echo", "status", haulier.OutcomeFailed, "", "404"},
		{"echo", "end", haulier.OutcomeError, "", "later"},
		{"echo", "raise", haulier.OutcomeError, "", "KeyError"},
		{"echo", "exit", haulier.OutcomeError, "", "exit status 4"},
		{"echo", "leave", haulier.OutcomeError, "", "SystemExit: 4"},
		{"echo", "child", haulier.OutcomeOK, "true", ""},
		{"broken", "", haulier.OutcomeError, "", "not loaded: SyntaxError"},
	} {
		x := r.start(t, c.typ, c.payload)
		if res := x.wait(t); res.Outcome != c.outcome || string(res.Result) != c.result || !strings.Contains(res.Error, c.err) {
			t.Errorf("%s: %+v with result %q, having said %q", c.payload, res, res.Result, x.text(t))
		}
		if c.payload == "child" && !strings.Contains(x.text(t), "from a child") {
			t.Errorf("log %q", x.text(t))
		}
	}
}

func TestShell(t *testing.T) {
	need(t, "sh")
	r := newRig(t, script.Config{Processes: 1})
	r.set(haulier.Handler{Type: "echo", Lang: "sh", Scripts: haulier.Scripts{Before: "greeting='hello from'; cd /", Body: `
read -r payload
echo "$greeting $HAULIER_TYPE: $payload"
case $payload in
  retry) exit 75 ;;
  fail) exit 65 ;;
  kill) kill -9 $$ ;;
  forge) echo 'done 0 200 0 - -' >&4 ;;
  peek) echo "secret: $__secret$secret" ;;
esac
printf '{"took":"%s"}' "$payload" >"$HAULIER_RESULT"
`}})
	for _, c := range []struct {
		payload     string
		outcome     haulier.Outcome
		result, err string
	}{
		{"a payload with 'quotes' and  spaces", haulier.OutcomeOK, `{"took":"a payload with 'quotes' and  spaces"}`, ""},
		{"retry", haulier.OutcomeRetry, "", "exit status 75"},
		{"fail", haulier.OutcomeFailed, "", "exit status 65"},
		{"kill", haulier.OutcomeError, "", "killed"},
		{"forge", haulier.OutcomeOK, `{"took":"forge"}`, ""},
		{"peek", haulier.OutcomeOK, `{"took":"peek"}`, ""},
	} {
		x := r.start(t, "echo", c.payload+"\n")
		if res := x.wait(t); res.Outcome != c.outcome || string(res.Result) != c.result || !strings.Contains(res.Error, c.err) {
			t.Errorf("%s: %+v with result %q, having said %q", c.payload, res, res.Result, x.text(t))
		}
		if said := x.text(t); !strings.Contains(said, "hello from echo: "+c.payload+"\n") || c.payload == "peek" && !strings.HasSuffix(said, "secret: \n") {
			t.Errorf("log %q", said)
		}
	}
}

func TestLanguages(t *testing.T) {
	r := newRig(t, script.Config{Processes: 1, Languages: map[string][]string{"none": {"no-such-program"}, "false": {"false"}, "sh2": {"sh", "-c", "exit 7"}}})
	have := r.Languages()
	if strings.Contains(strings.Join(have, " "), "none") || !strings.Contains(strings.Join(have, " "), "sh2") {
		t.Errorf("languages %v", have)
	}
	r.set(haulier.Handler{Type: "a", Lang: "sh2", Scripts: haulier.Scripts{Body: "x"}})
	if res := r.start(t, "a", "").wait(t); res.Outcome != haulier.OutcomeError || !strings.Contains(res.Error, "exit status 7") {
		t.Errorf("%+v", res)
	}
	r.set(haulier.Handler{Type: "b", Lang: "sh", Scripts: haulier.Scripts{Body: "x"}})
	gone := func(j *haulier.Job) { j.Task.Script.Version = 0 }
	if res := r.start(t, "b", "", gone).wait(t); !res.Released {
		t.Errorf("without a handler: %+v", res)
	}
}

func BenchmarkNode(b *testing.B) {
	need(b, "node")
	r := newRig(b, script.Config{})
	r.set(haulier.Handler{Type: "noop", Lang: "node", Scripts: haulier.Scripts{Body: "module.exports = async (payload) => ({ got: payload.length })"}})
	r.start(b, "noop", "warm").wait(b)
	var wg sync.WaitGroup
	jobs := make(chan struct{})
	b.ResetTimer()
	for range 200 {
		wg.Go(func() {
			for range jobs {
				x := r.begin(b, "noop", "{}")
				if res, err := x.Wait(context.Background()); err != nil || res.Outcome != haulier.OutcomeOK {
					b.Errorf("%+v, %v", res, err)
				}
				x.Close()
			}
		})
	}
	for range b.N {
		jobs <- struct{}{}
	}
	close(jobs)
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

func TestContextsDieWithTheirWorker(t *testing.T) {
	need(t, "node")
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux does the kernel end them")
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), folderVariable+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscanf(out, "process %d.", &pid); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	process, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(20 * time.Second); process.Signal(syscall.Signal(0)) == nil && !zombie(pid); {
		if time.Now().After(until) {
			t.Fatalf("process %d outlives its worker", pid)
		}
		<-time.After(5 * time.Millisecond)
	}
	r := script.New(script.Config{})
	if _, err := r.Open(t.Context(), executor.Env{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "script", "context-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("the next worker finds %v, %v", left, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// zombie reports whether a process has ended and nobody has asked how.
func zombie(pid int) bool {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return strings.Contains(string(b), ") Z ")
}
