package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haulier/haulier/server"
)

// pipes is a listener whose connections are pipes in memory, on which made time passes.
type pipes struct {
	conns chan net.Conn
	once  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.once:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	select {
	case <-p.once:
	default:
		close(p.once)
	}
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7480} }

func TestABodyThatDoesNotComeIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := server.New(server.Config{Queue: &counter{}, Version: "test"})
		if err != nil {
			t.Fatal(err)
		}
		l := &pipes{conns: make(chan net.Conn), once: make(chan struct{})}
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- s.Serve(ctx, l) }()
		ours, theirs := net.Pipe()
		l.conns <- theirs
		began := time.Now()
		fmt.Fprint(ours, "POST /v1/jobs HTTP/1.1\r\nHost: localhost:7480\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
		answer, err := http.ReadResponse(bufio.NewReader(ours), nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 30*time.Second || took > 2*time.Minute {
			t.Errorf("it took %v", took)
		}
		if answer.StatusCode != http.StatusRequestTimeout || !strings.Contains(string(text), `"code":"timeout"`) || !strings.Contains(string(text), "send it faster") {
			t.Errorf("%v: %s", answer.Status, text)
		}
		ours.Close()
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
