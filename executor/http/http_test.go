package http_test

import (
	"context"
	"io"
	nethttp "net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
	"github.com/haulier/haulier/executor/executortest"
	"github.com/haulier/haulier/executor/executortest/play"
	"github.com/haulier/haulier/executor/http"
	"github.com/haulier/haulier/joblog"
	"github.com/haulier/haulier/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sink keeps what an attempt writes.
type sink struct{ frames []byte }

func (s *sink) Log(_ context.Context, _ int64, frames []byte) error {
	s.frames = append(s.frames, frames...)
	return nil
}

func (*sink) Progress(float64, string) {}

func newExecutor(t *testing.T, private bool) *http.Executor {
	x := http.New(webhook.New(webhook.Config{AllowPrivate: private}))
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

func prepare(t *testing.T, x *http.Executor, task haulier.HTTPTask, payload string) (executor.Attempt, *sink) {
	t.Helper()
	j := &haulier.Job{Spec: haulier.Spec{ID: haulier.ID{7}, Task: haulier.Task{HTTP: &task}}}
	if strings.HasSuffix(task.URL, "/slow") {
		j.Timeout = haulier.Duration(50 * time.Millisecond)
	}
	j.Attempt = 1
	a, err := x.Prepare(t.Context(), j, []byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	out := &sink{}
	if err := a.Start(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	return a, out
}

func run(t *testing.T, x *http.Executor, task haulier.HTTPTask, payload string) (executor.Result, string) {
	t.Helper()
	a, out := prepare(t, x, task, payload)
	defer a.Close()
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

func server(t *testing.T) *httptest.Server {
	s := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		body, _ := io.ReadAll(r.Body)
		status := map[string]int{"/gone": 410, "/early": 425, "/many": 429, "/down": 503, "/bug": 500, "/timeout": 408, "/moved": 302}[r.URL.Path]
		switch {
		case r.URL.Path == "/slow":
			<-r.Context().Done()
		case status == 0:
			io.WriteString(w, strings.Join([]string{r.Method, r.Header.Get("Content-Type"), r.Header.Get("X-Key"), r.Header.Get(webhook.HeaderID), string(body)}, "|"))
		default:
			w.Header().Set("Retry-After", "9")
			w.Header().Set("Location", "/")
			w.WriteHeader(status)
			io.WriteString(w, "because")
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// TestContract has an address that plays steps, and answers by what they end with.
func TestContract(t *testing.T) {
	codes := map[int]int{0: 200, 75: 429, 66: 410}
	s := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		steps := r.URL.Query()["step"]
		if steps[0] == "sleep=1m" {
			<-r.Context().Done()
			return
		}
		if code := codes[play.Play(steps, r.Body, w, io.Discard)]; code != 0 {
			w.WriteHeader(code)
		} else {
			w.WriteHeader(nethttp.StatusInternalServerError)
		}
	}))
	defer s.Close()
	executortest.Run(t, executortest.Setup{
		New: func(*testing.T) executor.Executor { return http.New(webhook.New(webhook.Config{AllowPrivate: true})) },
		Task: func(steps ...string) haulier.Task {
			return haulier.Task{HTTP: &haulier.HTTPTask{URL: s.URL + "/?" + url.Values{"step": steps}.Encode()}}
		},
	})
}

func TestCalls(t *testing.T) {
	s, x := server(t), newExecutor(t, true)
	id := haulier.ID{7}.String()
	r, log := run(t, x, haulier.HTTPTask{URL: s.URL + "/?key=hidden", Headers: map[string]string{"x-key": "k"}}, `{"a":1}`)
	if r.Outcome != haulier.OutcomeOK || r.Code != 200 || string(r.Result) != `POST|application/json|k|`+id+`|{"a":1}` {
		t.Errorf("%+v: %s", r, r.Result)
	}
	if !strings.Contains(log, "200 OK") || strings.Contains(log, "hidden") {
		t.Errorf("log %q", log)
	}
	if r, _ := run(t, x, haulier.HTTPTask{URL: s.URL, Method: "PUT", Headers: map[string]string{"Content-Type": "text/plain"}}, "x"); string(r.Result) != "PUT|text/plain||"+id+"|x" {
		t.Errorf("%s", r.Result)
	}
	for path, want := range map[string]struct {
		outcome haulier.Outcome
		delay   time.Duration
	}{
		"/gone": {haulier.OutcomeFailed, 0}, "/moved": {haulier.OutcomeFailed, 0},
		"/early": {haulier.OutcomeRetry, 9 * time.Second}, "/many": {haulier.OutcomeRetry, 9 * time.Second}, "/timeout": {haulier.OutcomeRetry, 9 * time.Second},
		"/down": {haulier.OutcomeError, 9 * time.Second}, "/bug": {haulier.OutcomeError, 9 * time.Second},
	} {
		r, _ := run(t, x, haulier.HTTPTask{URL: s.URL + path}, "")
		if r.Outcome != want.outcome || r.Delay != want.delay || !strings.Contains(r.Error, "because") || r.Code < 300 {
			t.Errorf("%s: %+v", path, r)
		}
	}
}

func TestCallsThatGetNoAnswer(t *testing.T) {
	s, x := server(t), newExecutor(t, true)
	if r, _ := run(t, x, haulier.HTTPTask{URL: s.URL + "/slow"}, ""); r.Outcome != haulier.OutcomeError || !strings.Contains(r.Error, "timed out after 50ms") {
		t.Errorf("slow: %+v", r)
	}
	if r, _ := run(t, x, haulier.HTTPTask{URL: s.URL, Secret: "none"}, ""); r.Outcome != haulier.OutcomeFailed || !strings.Contains(r.Error, "secret none") {
		t.Errorf("without its secret: %+v", r)
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	if r, _ := run(t, x, haulier.HTTPTask{URL: gone.URL}, ""); r.Outcome != haulier.OutcomeError || r.Error == "" {
		t.Errorf("nobody there: %+v", r)
	}
	if r, _ := run(t, newExecutor(t, false), haulier.HTTPTask{URL: s.URL}, ""); r.Outcome != haulier.OutcomeFailed || !strings.Contains(r.Error, "--allow-private") {
		t.Errorf("inside: %+v", r)
	}
}

func TestACallIsGivenUp(t *testing.T) {
	hang := make(chan struct{})
	s := httptest.NewServer(nethttp.HandlerFunc(func(_ nethttp.ResponseWriter, r *nethttp.Request) {
		close(hang)
		<-r.Context().Done()
	}))
	defer s.Close()
	a, _ := prepare(t, newExecutor(t, true), haulier.HTTPTask{URL: s.URL}, "")
	<-hang
	a.Stop(-1)
	if r, err := a.Wait(t.Context()); err != nil || !r.Stopped || r.Outcome != haulier.OutcomeError {
		t.Errorf("%+v, %v", r, err)
	}
}
