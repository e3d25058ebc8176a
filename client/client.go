// Package client is haulier.Queue over the HTTP API of a server.
//
// It joins what is asked at the same time: while a request is on its way, the
// enqueues (and the reports of a session) that come meanwhile wait, and go
// together in the next one; each caller gets the result of just its own. There
// is no timer: a lone call goes at once.
//
// What may be repeated without harm is repeated while its context lasts, when
// the server can't be reached or says that it is not able right now.
package client

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/haulier/haulier"
)

// Config of a Client.
type Config struct {
	// URL of the server, such as http://127.0.0.1:7480.
	URL string
	// Token is sent with each request; "": none.
	Token string
	// Retry bounds how long a request that may be repeated is repeated, besides
	// its context. Zero: as long as the context lasts. Negative: it is not.
	Retry time.Duration
	// InFlight is how many joined enqueue requests may be on their way at once. Zero: 2.
	InFlight int
	// Journal asks the server to acknowledge plain jobs from its journal, which it must have; see docs/journal.md.
	Journal bool
	// Transport carries the requests; nil: one of its own that keeps connections. It is not closed.
	Transport http.RoundTripper
}

// Client is a haulier.Queue over HTTP. It is safe for concurrent use.
type Client struct {
	base     string
	token    string
	retry    time.Duration
	journal  bool
	http     http.Client
	own      *http.Transport // to close; nil when it was given
	enqueues *joiner[haulier.EnqueueRequest, haulier.EnqueueResult]

	live func() (context.Context, context.CancelFunc) // begins a joined request; ends with the client
	end  context.CancelCauseFunc

	mu        sync.Mutex
	closed    bool
	flights   sync.WaitGroup
	reporters map[haulier.ID]*joiner[haulier.Report, error] // by session
}

var _ haulier.Queue = (*Client)(nil)

// New returns a client of the server at c.URL. It does not connect yet.
func New(c Config) (*Client, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("%w: %q is not the URL of a server, such as http://127.0.0.1:7480", haulier.ErrInvalid, c.URL)
	}
	if strings.ContainsAny(c.Token, "\r\n") {
		return nil, fmt.Errorf("%w: the token has a line break in it; give it without", haulier.ErrInvalid)
	}
	if c.InFlight <= 0 {
		c.InFlight = 2
	}
	cl := &Client{base: strings.TrimRight(c.URL, "/"), token: c.Token, retry: c.Retry, journal: c.Journal, reporters: map[haulier.ID]*joiner[haulier.Report, error]{}}
	cl.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if cl.http.Transport = c.Transport; c.Transport == nil {
		cl.own = transport(u)
		cl.http.Transport = cl.own
	}
	var life context.Context
	life, cl.end = context.WithCancelCause(context.Background())
	cl.live = func() (context.Context, context.CancelFunc) { return context.WithCancel(life) }
	cl.enqueues = &joiner[haulier.EnqueueRequest, haulier.EnqueueResult]{
		live: cl.live, most: c.InFlight, items: haulier.MaxBatch, sizeOf: enqueueSize, start: cl.start, send: cl.sendEnqueues,
	}
	return cl, nil
}

// transport keeps connections, for as long as the server keeps them, and no longer.
func transport(u *url.URL) *http.Transport {
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		MaxIdleConns:          256,
		MaxIdleConnsPerHost:   256,
		IdleConnTimeout:       90 * time.Second,
		DisableCompression:    true,
		WriteBufferSize:       64 << 10,
		ReadBufferSize:        64 << 10,
		ForceAttemptHTTP2:     false,
		ResponseHeaderTimeout: 0, // long waits are answered late
	}
	if host := u.Hostname(); host == "localhost" || net.ParseIP(host).IsLoopback() {
		t.Proxy = nil
	}
	return t
}

var errClosed = fmt.Errorf("%w: the client was closed; make another", haulier.ErrUnavailable)

// Close ends the joined requests under way and the connections. Calls that wait
// for them fail with haulier.ErrUnavailable, as do calls that come later.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.end(errClosed)
	c.flights.Wait()
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
	return nil
}

// start runs f in a goroutine that Close waits for; false: the client was closed.
func (c *Client) start(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.flights.Go(f)
	}
	return !c.closed
}

func (c *Client) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}
