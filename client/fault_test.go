package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/client"
	"github.com/haulier/haulier/server"
	"github.com/haulier/haulier/wire"
)

// between stands between client and server and does to requests what spoil says;
// false: it has answered, or not, in the server's place.
func between(t *testing.T, q haulier.Queue, spoil func(n int64, w http.ResponseWriter, r *http.Request) bool) (*client.Client, *atomic.Int64) {
	t.Helper()
	s, err := server.New(server.Config{Queue: q})
	if err != nil {
		t.Fatal(err)
	}
	var n atomic.Int64
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if spoil(n.Add(1), w, r) {
			s.Handler().ServeHTTP(w, r)
		}
	}))
	t.Cleanup(hs.Close)
	return dial(t, hs.Listener.Addr().String(), ""), &n
}

// drop takes the request and breaks the connection, as a server does that is killed.
func drop(_ http.ResponseWriter, r *http.Request) bool {
	_, _ = io.Copy(io.Discard, r.Body)
	panic(http.ErrAbortHandler)
}

func busy(w http.ResponseWriter) bool {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Retry-After", "0")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(w, `{"code":"unavailable","detail":"the store is full"}`)
	return false
}

func one(key string) []haulier.EnqueueRequest {
	return []haulier.EnqueueRequest{{Key: key, Jobs: []haulier.Spec{{Type: "mail"}}}}
}

func TestAnEnqueueWithoutKeyIsNotRepeatedWhenItMayHaveBeenCarriedOut(t *testing.T) {
	c, n := between(t, idle{}, func(_ int64, w http.ResponseWriter, r *http.Request) bool { return drop(w, r) })
	if _, err := c.Enqueue(t.Context(), one("")); !errors.Is(err, haulier.ErrUnavailable) || n.Load() != 1 {
		t.Fatalf("%d requests: %v", n.Load(), err)
	}
}

func TestAnEnqueueWithKeyIsRepeated(t *testing.T) {
	c, n := between(t, idle{}, func(n int64, w http.ResponseWriter, r *http.Request) bool {
		switch n {
		case 1:
			return drop(w, r)
		case 2:
			return busy(w)
		}
		return true
	})
	res, err := c.Enqueue(t.Context(), one("k"))
	if err != nil || len(res[0].IDs) != 1 || n.Load() != 3 {
		t.Fatalf("%d requests: %+v, %v", n.Load(), res, err)
	}
}

func TestOfJoinedRequestsOnlyThoseWithKeyAreRepeated(t *testing.T) {
	first, release := make(chan struct{}), make(chan struct{})
	var sizes []int
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		reqs, err := wire.ParseEnqueueRequests(b)
		if err != nil {
			t.Error(err)
		}
		switch sizes = append(sizes, len(reqs)); len(sizes) {
		case 1:
			close(first)
			<-release
		case 2:
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", wire.ContentType)
		_, _ = w.Write(wire.AppendEnqueueResults(nil, make([]haulier.EnqueueResult, len(reqs))))
	}))
	defer s.Close()
	c, err := client.New(client.Config{URL: s.URL, InFlight: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go func() { _, _ = c.Enqueue(context.Background(), one("")) }()
	<-first
	results := make(chan error, 2)
	for _, key := range []string{"", "k"} {
		go func() {
			_, err := c.Enqueue(context.Background(), one(key))
			if (key == "") != errors.Is(err, haulier.ErrUnavailable) {
				t.Errorf("key %q: %v", key, err)
			}
			results <- err
		}()
	}
	// Both wait for the first to come back; then they go together.
	for client.Waiting(c) < 2 {
		runtime.Gosched()
	}
	close(release)
	<-results
	<-results
	if len(sizes) != 3 || sizes[1] != 2 || sizes[2] != 1 {
		t.Fatalf("requests of sizes %v", sizes)
	}
}

func TestWhoGivesUpWhileWaitingIsNotSent(t *testing.T) {
	hold, release := make(chan struct{}), make(chan struct{})
	c, n := between(t, idle{}, func(n int64, _ http.ResponseWriter, _ *http.Request) bool {
		if n <= 2 {
			hold <- struct{}{}
			<-release
		}
		return true
	})
	done := make(chan struct{}, 2)
	for range 2 {
		go func() {
			if _, err := c.Enqueue(context.Background(), one("")); err != nil {
				t.Error(err)
			}
			done <- struct{}{}
		}()
		<-hold
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Enqueue(ctx, one("")); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	close(release)
	<-done
	<-done
	if n.Load() != 2 {
		t.Fatalf("%d requests", n.Load())
	}
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAServerThatIsNotUpYetIsWaitedFor(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	failed := make(chan struct{}, 100)
	c, err := client.New(client.Config{URL: "http://" + addr, Transport: tripper(func(r *http.Request) (*http.Response, error) {
		res, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			failed <- struct{}{}
		}
		return res, err
	})})
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	defer c.Close()
	done := make(chan error, 1)
	go func() {
		_, err := c.Enqueue(context.Background(), one(""))
		done <- err
	}()
	<-failed
	serve(t, idle{}, nil, addr)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// arriving tells when the claim that waits for a minute has arrived.
type arriving struct {
	haulier.Queue
	claims chan struct{}
}

func (a arriving) Claim(ctx context.Context, r haulier.ClaimRequest) ([]haulier.Job, error) {
	if r.Wait == time.Minute {
		close(a.claims)
	}
	return a.Queue.Claim(ctx, r)
}

func TestLongPollsEndWithTheServerAndGoOnWithTheNext(t *testing.T) {
	e := newEngine(t)
	first := arriving{e, make(chan struct{})}
	s := serve(t, first, nil, "127.0.0.1:0")
	c := dial(t, s.addr, "")
	ctx := t.Context()
	id := add(t, c, haulier.Spec{Type: "mail"})[0]
	w := worker(t, c)
	if _, err := c.Renew(ctx, haulier.RenewRequest{Session: w.ID}); err != nil {
		t.Fatal(err)
	}
	j := claim(t, c, w.ID, 1)[0]
	ref := haulier.Ref{Job: id, Attempt: j.Attempt}
	claimed, waited, logged := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := c.Claim(ctx, haulier.ClaimRequest{Session: w.ID, N: 1, Wait: time.Minute})
		claimed <- err
	}()
	go func() {
		_, err := c.Wait(ctx, "", []haulier.ID{id})
		waited <- err
	}()
	go func() {
		chunk, err := c.Log(ctx, haulier.LogRequest{Job: id, Wait: true})
		if err == nil && !chunk.End {
			err = errors.New("the log has not ended")
		}
		logged <- err
	}()
	<-first.claims // one that finds no server is repeated until there is one
	began := time.Now()
	s.stop()
	if took := time.Since(began); took > 10*time.Second {
		t.Fatalf("the server stopped after %v", took)
	}
	if err := <-claimed; !errors.Is(err, haulier.ErrUnavailable) {
		t.Fatalf("claim: %v", err)
	}
	reported := make(chan error, 1)
	go func() {
		errs, err := c.Report(ctx, w.ID, []haulier.Report{{Ref: ref, Kind: haulier.ReportStart}, {Ref: ref, Kind: haulier.ReportFinish, Outcome: haulier.OutcomeOK}})
		reported <- errors.Join(append(errs, err)...)
	}()
	serve(t, e, nil, s.addr)
	for name, done := range map[string]chan error{"report": reported, "wait": waited, "log": logged} {
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEventsGoOnAfterTheConnectionBroke(t *testing.T) {
	e := newEngine(t)
	s := serve(t, e, nil, "127.0.0.1:0")
	c := dial(t, s.addr, "")
	ctx, cancel := context.WithCancel(t.Context())
	events := make(chan haulier.JobEvent, 1000)
	done := make(chan error, 1)
	go func() {
		done <- c.Events(ctx, haulier.Filter{}, func(e haulier.JobEvent) error {
			events <- e
			return nil
		})
	}()
	hear := func() haulier.JobEvent {
		for {
			add(t, e, haulier.Spec{Type: "mail"})
			select {
			case ev := <-events:
				return ev
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	hear()
	s.stop()
	for len(events) > 0 {
		<-events
	}
	serve(t, e, nil, s.addr)
	if ev := hear(); ev.Missed == 0 {
		t.Error("the gap is not told")
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestAClosedClientSaysSo(t *testing.T) {
	c := dial(t, serve(t, idle{}, nil, "127.0.0.1:0").addr, "")
	c.Close()
	if _, err := c.Enqueue(t.Context(), one("")); !errors.Is(err, haulier.ErrUnavailable) {
		t.Fatal(err)
	}
	if _, err := c.Get(t.Context(), "", []haulier.ID{{1}}); !errors.Is(err, haulier.ErrUnavailable) {
		t.Fatal(err)
	}
}

func TestAnswersOfOthersAreNamed(t *testing.T) {
	for status, want := range map[int]error{404: haulier.ErrInvalid, 401: haulier.ErrUnauthenticated, 302: haulier.ErrInvalid, 200: nil} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "<html>hello")
		}))
		c := dial(t, s.Listener.Addr().String(), "")
		_, err := c.Queues(t.Context(), "")
		if err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("status %d: %v", status, err)
		}
		s.Close()
	}
}

func TestAddressesThatAreNone(t *testing.T) {
	for _, u := range []string{"", "127.0.0.1:7480", "ftp://x", "http://", "http://a/?b=c", "http://u:p@host", "://"} {
		if _, err := client.New(client.Config{URL: u}); !errors.Is(err, haulier.ErrInvalid) {
			t.Errorf("%q: %v", u, err)
		}
	}
	if _, err := client.New(client.Config{URL: "http://x", Token: "a\nb"}); !errors.Is(err, haulier.ErrInvalid) {
		t.Error("a token with a line break was taken")
	}
}

func TestRepeatingEndsWithItsBound(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { busy(w) }))
	defer s.Close()
	c, err := client.New(client.Config{URL: s.URL, Retry: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var later *haulier.RetryAfterError
	if _, err := c.Queues(t.Context(), ""); !errors.As(err, &later) || !errors.Is(err, haulier.ErrUnavailable) {
		t.Fatal(err)
	}
	none, err := client.New(client.Config{URL: s.URL, Retry: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer none.Close()
	if _, err := none.Queues(t.Context(), ""); !errors.Is(err, haulier.ErrUnavailable) {
		t.Fatal(err)
	}
}
