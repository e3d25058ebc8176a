package http_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
	"github.com/haulier/haulier/executor/http"
	"github.com/haulier/haulier/joblog"
)

// call is one that a receiver has got and not answered yet.
type call struct {
	body, jobs string
	answer     chan string
}

// receiver hands each call to the test, which answers it. Without one it waits until the call is given up.
func receiver(t *testing.T) (*httptest.Server, chan call) {
	calls := make(chan call, 10)
	s := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		b, _ := io.ReadAll(r.Body)
		c := call{string(b), r.Header.Get("Haulier-Jobs"), make(chan string, 1)}
		calls <- c
		select {
		case a := <-c.answer:
			io.WriteString(w, a)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(s.Close)
	return s, calls
}

// one is an attempt and what it writes.
type one struct {
	executor.Attempt
	out *sink
}

// begin starts jobs with the payloads.
func begin(t *testing.T, x *http.Executor, task haulier.HTTPTask, payloads ...string) (out []one) {
	t.Helper()
	for i, p := range payloads {
		j := &haulier.Job{Spec: haulier.Spec{ID: haulier.ID{byte(i)}, Type: "t", Task: haulier.Task{HTTP: &task}}}
		j.Attempt = 1
		a, err := x.Prepare(t.Context(), j, []byte(p))
		if err != nil {
			t.Fatal(err)
		}
		o := one{a, &sink{}}
		if err := a.Start(t.Context(), o.out); err != nil {
			t.Fatal(err)
		}
		out = append(out, o)
	}
	return out
}

func (o one) end(t *testing.T) (executor.Result, string) {
	t.Helper()
	defer o.Close()
	r, err := o.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text, err := joblog.Text(o.out.frames)
	if err != nil {
		t.Fatal(err)
	}
	return r, string(text)
}

func TestJobsShareACall(t *testing.T) {
	s, calls := receiver(t)
	task := haulier.HTTPTask{URL: s.URL, Batch: 3}
	t.Run("those that begin while one is under way, each with its line", func(t *testing.T) {
		x := newExecutor(t, true)
		alone := begin(t, x, task, "a")[0]
		first := <-calls
		if first.body != "a\n" {
			t.Fatalf("%q", first.body)
		}
		b := begin(t, x, task, "b")[0]
		c := begin(t, x, task, "c")[0]
		first.answer <- "200\n"
		next := <-calls
		if next.body != "b\nc\n" || strings.Count(next.jobs, ",") != 1 {
			t.Fatalf("%q %q", next.body, next.jobs)
		}
		next.answer <- "# looked\n#J: log|{\"a\":1}\n201 made it\nJ: later|x\n418 no\n"
		if r, _ := alone.end(t); r.Outcome != haulier.OutcomeOK || r.Code != 200 {
			t.Errorf("%+v", r)
		}
		if r, log := b.end(t); r.Outcome != haulier.OutcomeOK || r.Code != 201 || string(r.Result) != "made it" || !strings.HasPrefix(log, "# looked\nJ: log|{\"a\":1}\nPOST ") {
			t.Errorf("%+v %q", r, log)
		}
		if r, log := c.end(t); r.Outcome != haulier.OutcomeFailed || r.Code != 418 || r.Error != "answered 418 no" || !strings.HasPrefix(log, "J: later|x\n") {
			t.Errorf("%+v %q", r, log)
		}
	})
	t.Run("a full batch does not wait for the call before", func(t *testing.T) {
		x := newExecutor(t, true)
		all := begin(t, x, task, "a")
		stuck := <-calls
		all = append(all, begin(t, x, task, "b", "c", "d")...)
		full := <-calls
		if strings.Count(full.body, "\n") != 3 {
			t.Errorf("%q", full.body)
		}
		full.answer <- "200\n200\n200"
		stuck.answer <- "200"
		for _, o := range all {
			if r, _ := o.end(t); r.Outcome != haulier.OutcomeOK {
				t.Errorf("%+v", r)
			}
		}
	})
	t.Run("one that is stopped leaves the others alone", func(t *testing.T) {
		x := newExecutor(t, true)
		all := begin(t, x, task, "a")
		first := <-calls
		waiting := begin(t, x, task, "b")[0]
		waiting.Stop(-1)
		if r, _ := waiting.end(t); !r.Stopped {
			t.Errorf("%+v", r)
		}
		all[0].Stop(-1)
		if r, _ := all[0].end(t); !r.Stopped {
			t.Errorf("%+v", r)
		}
		_ = first // its call is given up
		last := begin(t, x, task, "c")[0]
		c := <-calls
		c.answer <- "200"
		if r, _ := last.end(t); r.Outcome != haulier.OutcomeOK || c.body != "c\n" {
			t.Errorf("%+v %q", r, c.body)
		}
	})
	t.Run("a payload of several lines does not go", func(t *testing.T) {
		if r, _ := begin(t, newExecutor(t, true), task, "a\nb")[0].end(t); r.Outcome != haulier.OutcomeFailed {
			t.Errorf("%+v", r)
		}
	})
	t.Run("an answer that is of all of them decides for each", func(t *testing.T) {
		s := server(t)
		if r, _ := begin(t, newExecutor(t, true), haulier.HTTPTask{URL: s.URL + "/many", Batch: 5}, "a")[0].end(t); r.Outcome != haulier.OutcomeRetry || r.Delay != 9*time.Second {
			t.Errorf("%+v", r)
		}
	})
}

func TestLinesOfAnswers(t *testing.T) {
	x := newExecutor(t, true)
	const ok, retry, failed, bad = haulier.OutcomeOK, haulier.OutcomeRetry, haulier.OutcomeFailed, haulier.OutcomeError
	for answer, want := range map[string][]haulier.Outcome{
		"200\n100\n400\n":                {ok, retry, failed},
		"200\r\n# 500\r\n503 x\r\n299":   {ok, bad, ok},
		"":                               {bad, bad, bad},
		"200\n":                          {ok, bad, bad},
		"200\nTraceback\n200\n200\n":     {ok, bad, bad}, // whose line is which can't be told
		"200\n\n200\n":                   {ok, bad, bad},
		"0\n302\n99999999999999999999\n": {bad, bad, bad},
		"200\n200\n200\n500\n":           {ok, ok, ok},
		"-1\n200\n200":                   {bad, bad, bad},
	} {
		s, calls := receiver(t)
		task := haulier.HTTPTask{URL: s.URL, Batch: 3}
		hold := begin(t, x, task, "first")
		first := <-calls
		all := begin(t, x, task, "a", "b", "c")
		c := <-calls
		c.answer <- answer
		first.answer <- "200"
		var got []haulier.Outcome
		for _, o := range all {
			r, _ := o.end(t)
			got = append(got, r.Outcome)
		}
		hold[0].end(t)
		if !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", answer, got, want)
		}
	}
}

func TestCallsInLines(t *testing.T) {
	s, calls := receiver(t)
	o := begin(t, newExecutor(t, true), haulier.HTTPTask{URL: s.URL, Lines: true}, `{"a":1}`)[0]
	c := <-calls
	c.answer <- "done\n#J: mail|ann\nJ: mail|bob\n"
	if r, log := o.end(t); c.body != "{\"a\":1}\n" || r.Outcome != haulier.OutcomeOK || !strings.HasPrefix(log, "J: mail|ann\nJ: mail|bob\nPOST ") || !strings.HasPrefix(string(r.Result), "done\n") {
		t.Errorf("%q %+v %q", c.body, r, log)
	}
}

func TestHostileServers(t *testing.T) {
	s := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		text := strings.Repeat("200 ok\n", 1000)
		switch r.URL.Path {
		case "/endless":
			for {
				if _, err := io.WriteString(w, text); err != nil {
					return
				}
			}
		case "/stalled/slow":
			io.WriteString(w, "20")
			nethttp.NewResponseController(w).Flush()
			<-r.Context().Done()
		case "/line":
			for range 10_000 {
				io.WriteString(w, "##############################################################################################")
			}
		}
	}))
	defer s.Close()
	x := newExecutor(t, true)
	if r, _ := run(t, x, haulier.HTTPTask{URL: s.URL + "/endless"}, ""); r.Outcome != haulier.OutcomeOK || len(r.Result) != haulier.MaxResult {
		t.Errorf("an endless body: %v %d", r.Outcome, len(r.Result))
	}
	if r, _ := run(t, x, haulier.HTTPTask{URL: s.URL + "/endless", Batch: 2}, ""); r.Outcome != haulier.OutcomeOK || string(r.Result) != "ok" {
		t.Errorf("endless lines: %+v", r)
	}
	if r, _ := run(t, x, haulier.HTTPTask{URL: s.URL + "/line", Batch: 2}, ""); r.Outcome != haulier.OutcomeError {
		t.Errorf("a long comment: %v", r.Outcome)
	}
	for _, batch := range []int{0, 5} {
		if r, _ := run(t, x, haulier.HTTPTask{URL: s.URL + "/stalled/slow", Batch: batch}, ""); r.Outcome != haulier.OutcomeError || !strings.Contains(r.Error, "timed out after 50ms") {
			t.Errorf("a body that stalls: %+v", r)
		}
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	var opened atomic.Int32
	s := httptest.NewUnstartedServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, _ *nethttp.Request) { fmt.Fprint(w, "200") }))
	s.Config.ConnState = func(_ net.Conn, st nethttp.ConnState) {
		if st == nethttp.StateNew {
			opened.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	x := newExecutor(t, true)
	for i := range 20 {
		if r, _ := run(t, x, haulier.HTTPTask{URL: s.URL, Batch: i % 2}, "x"); r.Outcome != haulier.OutcomeOK {
			t.Fatal(errors.New(r.Error))
		}
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("%d connections for 20 calls, one after the other", n)
	}
}
