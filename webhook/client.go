package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/haulier/haulier"
)

const (
	maxRedirects = 3
	maxWait      = 24 * time.Hour // of Retry-After
)

// Config of a Client.
type Config struct {
	// AllowPrivate lets it call addresses of the network inside: loopback, link-local, private.
	AllowPrivate bool
	// Agent is the User-Agent. Empty: haulier.
	Agent string
}

// Client calls addresses. Connections are kept and used again. It is safe for concurrent use.
type Client struct {
	http  *http.Client
	agent string
}

// New returns a client. No proxy is used: it would hide which address is called.
func New(c Config) *Client {
	if c.Agent == "" {
		c.Agent = "haulier"
	}
	t := &http.Transport{
		DialContext: dialer(c.AllowPrivate).DialContext, ForceAttemptHTTP2: true, MaxIdleConns: 200, MaxIdleConnsPerHost: 16,
		IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second, ExpectContinueTimeout: time.Second, MaxResponseHeaderBytes: 64 << 10,
	}
	return &Client{http: &http.Client{Transport: t, CheckRedirect: redirect}, agent: c.Agent}
}

// Close closes connections that are not in use.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// redirect follows those that keep method and body, without telling another host what was for the first.
func redirect(r *http.Request, via []*http.Request) error {
	first := via[0]
	if first.URL.Scheme == "https" && r.URL.Scheme != "https" { // what was meant for nobody else would be for all to read
		return http.ErrUseLastResponse
	}
	if len(via) > maxRedirects || r.Method != first.Method || r.Response.StatusCode < http.StatusTemporaryRedirect && first.Method != http.MethodGet {
		return http.ErrUseLastResponse
	}
	if r.URL.Host != first.URL.Host || r.URL.Scheme != first.URL.Scheme {
		kept := http.Header{}
		for _, k := range []string{"Content-Type", "User-Agent", HeaderID, HeaderTimestamp, HeaderSignature} {
			if v := first.Header.Get(k); v != "" {
				kept.Set(k, v)
			}
		}
		r.Header = kept
	}
	return nil
}

// Request is one call.
type Request struct {
	Method string // POST unless said
	URL    string
	Header map[string]string
	Body   []byte
	Most   int // bytes of the answer that are kept
}

// Answer is what came back.
type Answer struct {
	Status int
	Body   []byte
	Cut    bool          // there was more
	Wait   time.Duration // of Retry-After; 0: it said nothing
}

// CheckURL is an ErrInvalid for what can't be called.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %.100q is no URL", haulier.ErrInvalid, text)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("%w: %.100q is no address such as https://example.com/hook", haulier.ErrInvalid, text)
	case u.User != nil:
		return fmt.Errorf("%w: the URL has a name or a password in it: put a header in its place", haulier.ErrInvalid)
	}
	return nil
}

// Do makes a call, until ctx ends. ErrForbidden: the address is one that may not be called. Other errors are of the network.
func (c *Client) Do(ctx context.Context, r *Request) (*Answer, error) {
	method := r.Method
	if method == "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return nil, fmt.Errorf("call: %w: %w", haulier.ErrInvalid, err)
	}
	req.Header.Set("User-Agent", c.agent)
	for k, v := range r.Header {
		if strings.EqualFold(k, "Host") {
			req.Host = v
			continue
		}
		req.Header.Set(k, v)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, told(ctx, err)
	}
	defer res.Body.Close()
	a := &Answer{Status: res.StatusCode, Wait: retryAfter(res.Header.Get("Retry-After"), time.Now())}
	if a.Body, err = io.ReadAll(io.LimitReader(res.Body, int64(r.Most)+1)); err != nil {
		return nil, told(ctx, err)
	}
	if len(a.Body) > r.Most {
		a.Body, a.Cut = a.Body[:r.Most], true
	}
	return a, nil
}

// told is an error of the network without the URL, which may have a secret in it.
func told(ctx context.Context, err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil && seconds >= 0 {
		return min(time.Duration(min(seconds, int(maxWait/time.Second)))*time.Second, maxWait)
	}
	if at, err := http.ParseTime(text); err == nil && at.After(now) {
		return min(at.Sub(now), maxWait)
	}
	return 0
}
