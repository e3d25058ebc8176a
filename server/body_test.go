package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/server"
)

// parts hides the length of a body.
type parts struct{ io.Reader }

func TestBodiesWithoutALengthAreTaken(t *testing.T) {
	h := newServer(t, server.Config{Queue: &recorder{}}).Handler()
	send := func(body io.Reader) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/v1/jobs", parts{body})
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	if status := send(strings.NewReader(`{"jobs":[{"type":"a"}]}`)); status != 201 {
		t.Errorf("status %d", status)
	}
	if status := send(io.MultiReader(strings.NewReader(`{"jobs":[{"type":"a"}]}`), broken{})); status != 400 {
		t.Errorf("a body that was cut off: status %d", status)
	}
	if status := send(io.LimitReader(spaces{}, 17<<20)); status != 413 {
		t.Errorf("a body over the limit: status %d", status)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

type spaces struct{}

func (spaces) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

func TestABodyThatEndsEarlyIsRefused(t *testing.T) {
	base, _ := site(t, server.Config{Queue: &recorder{}})
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusBadRequest {
		t.Errorf("status %d", res.StatusCode)
	}
}

// late claims a job only when nobody waits for it any more.
type late struct {
	recorder
	claiming chan struct{}
	released chan haulier.Report
}

func (q *late) Claim(ctx context.Context, _ haulier.ClaimRequest) ([]haulier.Job, error) {
	close(q.claiming)
	<-ctx.Done()
	return []haulier.Job{{Spec: haulier.Spec{ID: haulier.ID{5}}, Status: haulier.Status{Attempt: 3}}}, nil
}

func (q *late) Report(_ context.Context, _ haulier.ID, reports []haulier.Report) ([]error, error) {
	q.released <- reports[0]
	return make([]error, len(reports)), nil
}

func TestJobsThatNobodyHeardOfAreGivenBack(t *testing.T) {
	q := &late{claiming: make(chan struct{}), released: make(chan haulier.Report, 1)}
	base, _ := site(t, server.Config{Queue: q})
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/sessions/"+anID+"/claim", nil)
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() {
		res, err := http.DefaultClient.Do(r)
		if err == nil {
			res.Body.Close()
		}
		gone <- err
	}()
	<-q.claiming
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	select {
	case rep := <-q.released:
		if rep.Kind != haulier.ReportRelease || rep.Job != (haulier.ID{5}) || rep.Attempt != 3 {
			t.Errorf("reported %+v", rep)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the job stays with a worker that does not know of it")
	}
}
