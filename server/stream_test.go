package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/engine"
	"github.com/haulier/haulier/joblog"
	"github.com/haulier/haulier/server"
)

// running is an engine with a job that a session runs.
type running struct {
	*engine.Engine
	t       *testing.T
	session haulier.ID
	ref     haulier.Ref
	sent    int64 // bytes of output
}

func newRunning(t *testing.T) *running {
	t.Helper()
	e := newEngine(t)
	ctx := t.Context()
	res, err := e.Enqueue(ctx, []haulier.EnqueueRequest{{Jobs: []haulier.Spec{{Type: "mail"}}}})
	if err != nil || res[0].Err != nil {
		t.Fatal(err, res)
	}
	s, err := e.OpenSession(ctx, haulier.Session{Worker: "w", Tenants: []string{"default"}, Queues: map[string]int{"*": 1},
		Kinds: []haulier.Kind{haulier.KindGo}, Types: []string{"mail"}, Concurrency: 1})
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := e.Claim(ctx, haulier.ClaimRequest{Session: s.ID, N: 1})
	if err != nil || len(jobs) != 1 {
		t.Fatal(jobs, err)
	}
	r := &running{Engine: e, t: t, session: s.ID, ref: haulier.Ref{Job: jobs[0].ID, Attempt: jobs[0].Attempt}}
	r.report(haulier.Report{Kind: haulier.ReportStart})
	return r
}

func (r *running) report(rep haulier.Report) {
	r.t.Helper()
	rep.Ref, rep.LogFrom = r.ref, r.sent
	r.sent += int64(len(rep.Log))
	errs, err := r.Report(r.t.Context(), r.session, []haulier.Report{rep})
	if err != nil || errs[0] != nil {
		r.t.Fatal(errs, err)
	}
}

func (r *running) write(stream joblog.Stream, text string) {
	r.t.Helper()
	r.report(haulier.Report{Kind: haulier.ReportLog, Log: joblog.Append(nil, stream, someTime, []byte(text))})
}

func (r *running) finish() {
	r.t.Helper()
	r.report(haulier.Report{Kind: haulier.ReportFinish, Outcome: haulier.OutcomeOK})
}

func (r *running) path(query string) string { return "/v1/jobs/" + r.ref.Job.String() + "/log" + query }

func TestOutputAsText(t *testing.T) {
	r := newRunning(t)
	h := newServer(t, server.Config{Queue: r}).Handler()
	for i := range 10 {
		r.write(joblog.Stdout, fmt.Sprintf("line %d\n", i))
		r.write(joblog.Stderr, fmt.Sprintf("oops %d\n", i))
	}
	r.write(joblog.Stdout, "no end")
	check := func(when string) {
		for query, want := range map[string]string{
			"?stream=stderr&tail=2":           "oops 8\noops 9\n",
			"?stream=stdout&tail=2":           "line 9\nno end",
			"?tail=3":                         "line 9\noops 9\nno end",
			"?stream=stderr&tail=1000":        "oops 0\noops 1\noops 2\noops 3\noops 4\noops 5\noops 6\noops 7\noops 8\noops 9\n",
			"?tail_bytes=9":                   " 9\nno end",
			"?stream=stdout&tail=1&attempt=1": "no end",
			"?attempt=4":                      "",
		} {
			status, header, body := ask(t, h, request{method: "GET", path: r.path(query)})
			if status != 200 || body != want || !strings.HasPrefix(header.Get("Content-Type"), "text/plain") {
				t.Errorf("%s %s: %d %q, want %q", when, query, status, body, want)
			}
		}
		if _, _, body := ask(t, h, request{method: "GET", path: r.path("")}); !strings.HasPrefix(body, "line 0\noops 0\nline 1") || !strings.HasSuffix(body, "no end") {
			t.Errorf("%s whole: %q", when, body)
		}
	}
	check("running")
	r.finish()
	check("ended")
	problem(t, h, request{method: "GET", path: "/v1/jobs/" + anID + "/log"}, 404, "not_found")
}

func TestATailThatIsFarBack(t *testing.T) {
	r := newRunning(t)
	h := newServer(t, server.Config{Queue: r}).Handler()
	long := strings.Repeat("x", 30<<10) + "\n"
	for i := range 40 {
		r.write(joblog.Stdout, fmt.Sprint(i)+long)
	}
	_, _, body := ask(t, h, request{method: "GET", path: r.path("?tail=35")})
	if lines := strings.Split(body, "\n"); len(lines) != 36 || !strings.HasPrefix(lines[0], "5x") {
		t.Errorf("%d lines, first %.10q", len(lines)-1, lines[0])
	}
	if _, _, body = ask(t, h, request{method: "GET", path: r.path("")}); strings.Count(body, "\n") != 40 {
		t.Errorf("whole has %d lines", strings.Count(body, "\n"))
	}
}

// site serves q on a port until the test ends or stop is called.
func site(t *testing.T, c server.Config) (base string, stop func() error) {
	t.Helper()
	s := newServer(t, c)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	var ended bool
	stop = func() error {
		if ended {
			return nil
		}
		ended = true
		cancel()
		return <-done
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String(), stop
}

// events reads server-sent events, without comments, as "id|name|data".
type events struct {
	t    *testing.T
	body io.ReadCloser
	s    *bufio.Scanner
}

func follow(t *testing.T, url, last string) *events {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	if ct := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || ct != "text/event-stream" {
		t.Fatal(res.Status, ct)
	}
	return &events{t, res.Body, bufio.NewScanner(res.Body)}
}

// next is "" at the end of the stream.
func (e *events) next() string {
	var id, name, data string
	for e.s.Scan() {
		line := e.s.Text()
		switch {
		case strings.HasPrefix(line, "id: "):
			id = line[4:]
		case strings.HasPrefix(line, "event: "):
			name = line[7:]
		case strings.HasPrefix(line, "data: "):
			data = line[6:]
		case line == "" && data != "":
			return id + "|" + name + "|" + data
		}
	}
	return ""
}

func (e *events) want(s string) {
	e.t.Helper()
	if got := e.next(); got != s {
		e.t.Fatalf("event %q, want %q", got, s)
	}
}

func TestOutputIsFollowedToItsEnd(t *testing.T) {
	r := newRunning(t)
	base, _ := site(t, server.Config{Queue: r})
	r.write(joblog.Stdout, "one\n")
	e := follow(t, base+r.path("?follow=true"), "")
	out := func(at int64, stream, data string) string {
		return fmt.Sprintf(`1/%d|output|{"stream":"%s","time":"2026-01-31T09:30:00Z",%s}`, at, stream, data)
	}
	first := r.sent
	e.want(out(first, "stdout", `"data":"one\n"`))
	r.write(joblog.Stderr, "two\n")
	e.want(out(r.sent, "stderr", `"data":"two\n"`))
	second := r.sent
	r.write(joblog.Stdout, "\xff\xfe")
	e.want(out(r.sent, "stdout", `"data_bytes":"//4="`))
	r.finish()
	end := `|end|{"attempt":1,"state":"succeeded","outcome":"ok"}`
	e.want(end)
	e.want("")
	// Another takes up after the first event; one wants the tail only; one a single stream.
	e = follow(t, base+r.path("?follow=true"), fmt.Sprintf("1/%d", first))
	e.want(out(second, "stderr", `"data":"two\n"`))
	e.want(out(r.sent, "stdout", `"data_bytes":"//4="`))
	e.want(end)
	e = follow(t, base+r.path("?follow=true&stream=stdout&tail=1"), "")
	e.want(out(r.sent, "stdout", `"data_bytes":"//4="`))
	e.want(end)
	e = follow(t, base+r.path("?follow=true&stream=stderr"), "")
	e.want(out(second, "stderr", `"data":"two\n"`))
	e.want(end)
}

func TestATailIsFollowedWithoutGapOrDouble(t *testing.T) {
	r := newRunning(t)
	base, _ := site(t, server.Config{Queue: r})
	for i := range 5 {
		r.write(joblog.Stdout, fmt.Sprintf("%d\n", i))
	}
	e := follow(t, base+r.path("?follow=true&tail=2"), "")
	for i := 3; i < 8; i++ {
		if i >= 5 {
			r.write(joblog.Stdout, fmt.Sprintf("%d\n", i))
		}
		if got := e.next(); !strings.Contains(got, fmt.Sprintf(`"data":"%d\n"`, i)) {
			t.Fatalf("event %q, want line %d", got, i)
		}
	}
}

func TestChangesAreStreamed(t *testing.T) {
	r := newRunning(t)
	base, _ := site(t, server.Config{Queue: r})
	// A job without a worker changes until the stream is known to listen.
	e := follow(t, base+"/v1/events?type=probe", "")
	heard := make(chan string)
	go func() { heard <- e.next() }()
	for got := ""; got == ""; {
		if _, err := r.Enqueue(t.Context(), []haulier.EnqueueRequest{{Jobs: []haulier.Spec{{Type: "probe"}}}}); err != nil {
			t.Fatal(err)
		}
		select {
		case got = <-heard:
			if !strings.HasPrefix(got, `|job|{"job":"`) || !strings.Contains(got, `"type":"probe","state":"pending"`) {
				t.Fatal(got)
			}
		case <-time.After(20 * time.Millisecond):
		}
	}
	if _, err := r.Cancel(t.Context(), haulier.Selection{Filter: &haulier.Filter{Type: "probe"}}, "", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Delete(t.Context(), haulier.Selection{Filter: &haulier.Filter{Type: "probe"}}, ""); err != nil {
		t.Fatal(err)
	}
	for {
		got := e.next()
		if strings.Contains(got, `"removed":true`) {
			if strings.Contains(got, `"state":`) {
				t.Errorf("a removed job has a state: %s", got)
			}
			return
		}
	}
}

func TestStoppingEndsWhatWaitsAndLetsTheRestFinish(t *testing.T) {
	r := newRunning(t)
	slow := &slowQueue{Engine: r.Engine, began: make(chan struct{}), goOn: make(chan struct{}), waiting: make(chan struct{})}
	base, stop := site(t, server.Config{Queue: slow})
	stream := follow(t, base+r.path("?follow=true"), "")
	changes := follow(t, base+"/v1/events", "")
	type answer struct {
		status int
		body   string
		after  string
	}
	get := func(method, path, body string) chan answer {
		c := make(chan answer, 1)
		go func() {
			q, err := http.NewRequestWithContext(context.Background(), method, base+path, strings.NewReader(body))
			if err != nil {
				t.Error(err)
			}
			q.Header.Set("Content-Type", "application/json")
			res, err := http.DefaultClient.Do(q)
			if err != nil {
				c <- answer{body: err.Error()}
				return
			}
			defer res.Body.Close()
			b, _ := io.ReadAll(res.Body)
			c <- answer{res.StatusCode, string(b), res.Header.Get("Retry-After")}
		}()
		return c
	}
	waiting := get("POST", "/v1/jobs/wait", `{"ids":["`+r.ref.Job.String()+`"]}`)
	<-slow.waiting
	counting := get("GET", "/v1/counts", "")
	<-slow.began
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	if a := <-waiting; a.status != 503 || a.after == "" || !strings.Contains(a.body, `"unavailable"`) {
		t.Errorf("a long poll was answered %+v", a)
	}
	if got := stream.next(); got != "" {
		t.Errorf("the stream of output ended with %s", got)
	}
	if got := changes.next(); got != "" {
		t.Errorf("the stream of events ended with %s", got)
	}
	select {
	case err := <-stopped:
		t.Errorf("stopped before the request in flight was answered: %v", err)
	default:
	}
	close(slow.goOn)
	if a := <-counting; a.status != 200 {
		t.Errorf("the request in flight was answered %+v", a)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// slowQueue counts only when it is told to, and says when somebody waits.
type slowQueue struct {
	*engine.Engine
	began, goOn, waiting chan struct{}
}

func (q *slowQueue) Counts(ctx context.Context, tenant string) ([]haulier.Count, error) {
	close(q.began)
	<-q.goOn
	return q.Engine.Counts(ctx, tenant)
}

func (q *slowQueue) Wait(ctx context.Context, tenant string, ids []haulier.ID) ([]*haulier.Job, error) {
	close(q.waiting)
	return q.Engine.Wait(ctx, tenant, ids)
}
