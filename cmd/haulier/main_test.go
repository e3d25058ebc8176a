package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/blob"
	"github.com/haulier/haulier/engine"
	"github.com/haulier/haulier/executor"
	"github.com/haulier/haulier/executor/process"
	"github.com/haulier/haulier/server"
	"github.com/haulier/haulier/store/mem"
	"github.com/haulier/haulier/worker"
)

// programVariable makes the test binary the program, for what starts itself as another process.
const programVariable = "HAULIER_TEST_IS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// site is a server over a store in memory, and a home folder for the commands.
type site struct {
	t     *testing.T
	queue *engine.Engine
	url   string
	env   map[string]string
}

// newSite starts a server to which all are admitted.
func newSite(t *testing.T) *site {
	t.Helper()
	blobs, err := blob.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Config{Store: mem.New(), Blobs: blobs})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(server.Config{Queue: e})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var duties sync.WaitGroup
	duties.Go(func() {
		if err := e.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	web := httptest.NewServer(srv.Handler())
	t.Cleanup(func() {
		e.Close()
		web.CloseClientConnections()
		web.Close()
		cancel()
		duties.Wait()
		blobs.Close()
	})
	return &site{t: t, queue: e, url: web.URL, env: home(t)}
}

// home is an environment with folders of its own.
func home(t *testing.T) map[string]string {
	dir := t.TempDir()
	return map[string]string{"HOME": dir, "XDG_CONFIG_HOME": dir + "/c", "XDG_STATE_HOME": dir + "/s", "XDG_DATA_HOME": dir + "/d"}
}

// work runs a worker for commands until the test ends.
func (s *site) work() {
	s.t.Helper()
	w, err := worker.New(worker.Config{
		Consumer: s.queue, Name: "tester", Concurrency: 4, Executors: []executor.Executor{process.New(process.Config{})},
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.Run(ctx); err != nil {
			s.t.Error(err)
		}
	})
	s.t.Cleanup(func() {
		cancel()
		w.Abort()
		running.Wait()
	})
}

// result is how a command line went.
type result struct {
	code      int
	out, errs string
}

// do runs a command line against the site's server.
func (s *site) do(in string, args ...string) result {
	s.t.Helper()
	s.env["HAULIER_URL"] = s.url
	return do(s.t, s.env, strings.NewReader(in), args...)
}

// must is do for what has to go well.
func (s *site) must(in string, args ...string) string {
	s.t.Helper()
	r := s.do(in, args...)
	if r.code != 0 {
		s.t.Fatalf("haulier %s: code %d\n%s%s", strings.Join(args, " "), r.code, r.out, r.errs)
	}
	return r.out
}

func do(t *testing.T, env map[string]string, in io.Reader, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	p := &program{in: in, out: &out, errs: &errs, env: func(k string) string { return env[k] }, version: "v0-test"}
	code := p.run(t.Context(), args)
	return result{code, out.String(), errs.String()}
}

// background is a command line that runs beside the test.
type background struct {
	t       *testing.T
	signals chan os.Signal
	ended   chan struct{}
	code    int
	mu      sync.Mutex
	text    strings.Builder
	grown   chan struct{}
}

// start runs a command line beside the test, which ends it by a signal when it has not ended by itself.
func start(t *testing.T, env map[string]string, in io.Reader, args ...string) *background {
	t.Helper()
	b := &background{t: t, signals: make(chan os.Signal, 4), ended: make(chan struct{}), grown: make(chan struct{})}
	p := &program{in: in, out: b, errs: b, env: func(k string) string { return env[k] }, signals: b.signals, version: "v0-test"}
	ctx := context.WithoutCancel(t.Context())
	go func() {
		defer close(b.ended)
		b.code = p.run(ctx, args)
	}()
	t.Cleanup(func() {
		b.interrupt()
		b.interrupt()
		<-b.ended
	})
	return b
}

// Write takes what the command prints, on both of its streams.
func (b *background) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Write(p)
	close(b.grown)
	b.grown = make(chan struct{})
	return len(p), nil
}

func (b *background) said() (string, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String(), b.grown
}

// await returns what the command has printed as soon as that contains the words.
func (b *background) await(words string) string {
	b.t.Helper()
	for {
		text, grown := b.said()
		if strings.Contains(text, words) {
			return text
		}
		select {
		case <-grown:
		case <-b.ended:
			if text, _ := b.said(); !strings.Contains(text, words) {
				b.t.Fatalf("it ended with code %d before it said %q:\n%s", b.code, words, text)
			}
		case <-b.t.Context().Done():
			b.t.Fatalf("it never said %q:\n%s", words, text)
		}
	}
}

func (b *background) interrupt() {
	select {
	case b.signals <- syscall.SIGINT:
	default:
	}
}

// exit waits for the end and returns the exit code.
func (b *background) exit() int {
	<-b.ended
	return b.code
}

// expect fails unless the texts contain all of the words.
func (r result) expect(t *testing.T, code int, words ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d", r.code, code)
	}
	for _, w := range words {
		if !strings.Contains(r.out+r.errs, w) {
			t.Errorf("lacks %q", w)
		}
	}
	if t.Failed() {
		t.Fatalf("standard output:\n%s\nstandard error:\n%s", r.out, r.errs)
	}
}

// add enqueues one job straight at the engine.
func (s *site) add(spec haulier.Spec) haulier.ID {
	s.t.Helper()
	results, err := s.queue.Enqueue(s.t.Context(), []haulier.EnqueueRequest{{Jobs: []haulier.Spec{spec}}})
	if err == nil {
		err = results[0].Err
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return results[0].IDs[0]
}

func (s *site) job(id haulier.ID) *haulier.Job {
	s.t.Helper()
	jobs, err := s.queue.Get(s.t.Context(), "", []haulier.ID{id})
	if err != nil || jobs[0] == nil {
		s.t.Fatal("get job: ", fmt.Sprint(jobs, err))
	}
	return jobs[0]
}

// jobs counts all that the site has.
func (s *site) jobs() int {
	s.t.Helper()
	counts, err := s.queue.Counts(s.t.Context(), "")
	if err != nil {
		s.t.Fatal(err)
	}
	n := 0
	for _, c := range counts {
		n += int(c.N)
	}
	return n
}
