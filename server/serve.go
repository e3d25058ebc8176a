package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/haulier/haulier"
)

// Times of the HTTP server.
const (
	headTimeout = 10 * time.Second // to send the head of a request
	bodyTimeout = 60 * time.Second // to send the whole of it
	idleTimeout = 3 * time.Minute  // of a connection between requests; longer than clients keep theirs
	stopTimeout = 30 * time.Second // for requests in flight when the server stops
	sendTimeout = 60 * time.Second // to take an answer, or a piece of a stream
)

type stopKey struct{}

// Serve answers requests on l until ctx ends. Then it takes no more, ends what
// only waits (long polls, streams: clients come back), waits for the requests in
// flight, and returns nil. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	base := context.WithValue(context.WithoutCancel(ctx), stopKey{}, ctx)
	h := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: headTimeout,
		ReadTimeout:       bodyTimeout,
		WriteTimeout:      plainDeadline + sendTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    2 * maxHeader,
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- h.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve %v: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(base, stopTimeout)
	defer cancel()
	err := h.Shutdown(grace)
	if err != nil {
		s.Log.Warn("requests cut off", "err", err)
		err = h.Close()
	}
	<-served //nolint:errcheck // http.ErrServerClosed
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return err
}

var errStopping = fmt.Errorf("%w: the server is stopping; try again", haulier.ErrUnavailable)

// serving is the context that Serve was called with; one that never ends when Serve did not bring the request.
func serving(ctx context.Context) context.Context {
	if c, ok := ctx.Value(stopKey{}).(context.Context); ok {
		return c
	}
	return context.Background()
}

// stopping reports whether the server that carries the request is to stop.
func stopping(ctx context.Context) bool { return serving(ctx).Err() != nil }

// waiting prepares the connection for an answer that may take as long as it
// likes, and returns a context that also ends when the server stops, by haulier.ErrUnavailable. The body must have been read.
func (c *call) waiting() (context.Context, context.CancelFunc) {
	// A writer without a connection, as in a test, has no deadlines to lift.
	control := http.NewResponseController(c.w)
	_ = control.SetReadDeadline(time.Time{})
	_ = control.SetWriteDeadline(time.Time{})
	ctx, cancel := context.WithCancelCause(c.ctx())
	unhook := context.AfterFunc(serving(ctx), func() { cancel(errStopping) })
	return ctx, func() {
		unhook()
		cancel(nil)
	}
}

// soon gives the client sendTimeout to take what is written next.
func soon(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(sendTimeout))
}
