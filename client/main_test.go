package client_test

import (
	"context"
	"log/slog"
	"net"
	"testing"

	"go.uber.org/goleak"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/blob"
	"github.com/haulier/haulier/client"
	"github.com/haulier/haulier/engine"
	"github.com/haulier/haulier/server"
	"github.com/haulier/haulier/store/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newEngine runs an engine over a store in memory until the test ends.
func newEngine(t testing.TB) *engine.Engine {
	t.Helper()
	blobs, err := blob.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	store := mem.New()
	e, err := engine.New(engine.Config{Store: store, Blobs: blobs})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		e.Close()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
		if err := blobs.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// site is a server on a port of its own.
type site struct {
	addr string
	stop func() // returns when the server has stopped
}

// serve answers for the queue on addr (127.0.0.1:0 for a new port) until the test ends or stop is called.
func serve(t testing.TB, q haulier.Queue, auth haulier.Authenticator, addr string) site {
	t.Helper()
	s, err := server.New(server.Config{Queue: q, Auth: auth, Log: slog.New(slog.DiscardHandler), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return site{addr: l.Addr().String(), stop: stop}
}

func dial(t testing.TB, addr, token string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{URL: "http://" + addr, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}
