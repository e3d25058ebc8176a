package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/wire"
)

const (
	jsonType = "application/json"
	// maxReply bounds a reply: a claim of payloads of haulier.MaxPayload, or a payload that is a blob.
	maxReply = 256 << 20
)

// Waits between attempts of a request that is repeated: they double, and are
// drawn from between half of it and the whole.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
)

// call is one request of the API.
type call struct {
	method, path string
	query        url.Values
	header       map[string]string
	body         []byte    // nil: none
	stream       io.Reader // instead of body
	size         int64     // of stream; negative: not known
	bodyType     string
	accept       string
	repeat       bool // may be repeated when whether it was carried out is not known
}

// reply is what came back.
type reply struct {
	header   http.Header
	body     []byte
	repeated bool // the call was made more than once
}

// do makes the call, again and again while it may be repeated and its failure may pass.
func (c *Client) do(ctx context.Context, r *call) (*reply, error) {
	if c.isClosed() {
		return nil, errClosed
	}
	pause := pauses{until: c.until()}
	for n := 0; ; n++ {
		rep, err := c.once(ctx, r)
		if err == nil {
			rep.repeated = n > 0
		}
		if err == nil || !r.repeat && !unsent(err) || !errors.Is(err, haulier.ErrUnavailable) {
			return rep, err
		}
		if !pause.next(ctx, err) {
			return nil, lastly(ctx, err)
		}
	}
}

// until is when to stop repeating; the zero time: not before the context ends.
func (c *Client) until() time.Time {
	if c.retry == 0 {
		return time.Time{}
	}
	return time.Now().Add(c.retry)
}

// pauses are the waits between attempts.
type pauses struct {
	until time.Time
	last  time.Duration
}

// next waits before the next attempt; false: there is to be none.
func (p *pauses) next(ctx context.Context, err error) bool {
	p.last = min(max(2*p.last, firstPause), lastPause)
	d := p.last/2 + rand.N(p.last/2+1)
	var later *haulier.RetryAfterError
	if errors.As(err, &later) {
		d = max(d, min(later.After, time.Minute))
	}
	if !p.until.IsZero() && time.Now().Add(d).After(p.until) {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// lastly is the error of a call that is not repeated any more; it also is the
// context's when that is why.
func lastly(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// once makes the call one time.
func (c *Client) once(ctx context.Context, r *call) (*reply, error) {
	res, err := c.open(ctx, r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := readAll(res)
	if err != nil {
		return nil, broken(ctx, r, err)
	}
	return &reply{header: res.Header, body: b}, nil
}

// open makes the call and returns a response that went well, with its body to be read and closed.
func (c *Client) open(ctx context.Context, r *call) (*http.Response, error) {
	target := c.base + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	var body io.Reader
	switch {
	case r.body != nil:
		body = bytes.NewReader(r.body)
	case r.stream != nil:
		body = r.stream
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", haulier.ErrInvalid, err)
	}
	if r.stream != nil {
		req.ContentLength = r.size
		if r.size == 0 {
			req.Body = http.NoBody
		}
	}
	if body != nil {
		req.Header["Content-Type"] = []string{r.bodyType}
	}
	if r.accept != "" {
		req.Header["Accept"] = []string{r.accept}
	}
	if c.token != "" {
		req.Header["Authorization"] = []string{"Bearer " + c.token}
	}
	for k, v := range r.header {
		req.Header.Set(k, v)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, broken(ctx, r, err)
	}
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		return res, nil
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20)) // what is missing of it shows in the decoding
	return nil, refused(r, res, b)
}

// readAll reads a body of known length in one piece.
func readAll(res *http.Response) ([]byte, error) {
	if res.ContentLength > maxReply {
		return nil, fmt.Errorf("a reply of %d bytes", res.ContentLength)
	}
	if res.ContentLength >= 0 {
		b := make([]byte, res.ContentLength)
		_, err := io.ReadFull(res.Body, b)
		return b, err
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, maxReply+1))
	if len(b) > maxReply {
		return nil, fmt.Errorf("a reply of more than %d bytes", maxReply)
	}
	return b, err
}

// broken is the error of a request that got no answer: the context's own, or that the server can't be reached.
func broken(ctx context.Context, r *call, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s %s: %w", r.method, r.path, context.Cause(ctx))
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return fmt.Errorf("%s %s: %w: %w; is the server up, and the URL right?", r.method, r.path, haulier.ErrUnavailable, err)
}

// unsent reports whether the request never left: nobody answered at the address.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// problem is an error as the server tells it (RFC 9457).
type problem struct {
	Title    string `json:"title"`
	Detail   string `json:"detail"`
	Code     string `json:"code"`
	Instance string `json:"instance"`
	Errors   []struct {
		Field   string `json:"field"`
		Message string `json:"message"`
	} `json:"errors"`
}

// refused turns an answer that is an error into one of the root's.
func refused(r *call, res *http.Response, body []byte) error {
	var p problem
	if t, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); t != "application/problem+json" || json.Unmarshal(body, &p) != nil || p.Code == "" {
		return stranger(r, res)
	}
	err := p.error()
	if res.StatusCode == http.StatusServiceUnavailable {
		after, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		err = &haulier.RetryAfterError{After: time.Duration(max(after, 0)) * time.Second, Cause: err}
	}
	return err
}

func (p *problem) error() error {
	text := p.Detail
	if p.Instance != "" {
		text += " (" + p.Instance + ")"
	}
	err := wire.ErrorOf(p.Code, text)
	if len(p.Errors) == 1 {
		return &haulier.FieldError{Field: p.Errors[0].Field, Msg: p.Errors[0].Message, Kind: wire.ErrorOf(p.Code, "")}
	}
	return err
}

// stranger is an answer that does not come from Haulier's API, such as a proxy's.
func stranger(r *call, res *http.Response) error {
	kind := haulier.ErrInvalid
	switch res.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusTooManyRequests:
		kind = haulier.ErrUnavailable
	case http.StatusUnauthorized:
		kind = haulier.ErrUnauthenticated
	case http.StatusForbidden:
		kind = haulier.ErrForbidden
	}
	return fmt.Errorf("%s %s: %w: answered %s, not by a Haulier server; check the URL and what stands between", r.method, r.path, kind, res.Status)
}

// send makes a call with a JSON body and decodes the JSON reply into out; either may be nil.
func (c *Client) send(ctx context.Context, r *call, in, out any) error {
	if in != nil {
		b, err := body(in)
		if err != nil {
			return err
		}
		r.body, r.bodyType = b, jsonType
	}
	rep, err := c.do(ctx, r)
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(rep.body, out); err != nil {
		return garbled(r, err)
	}
	return nil
}

func body(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", haulier.ErrInvalid, err)
	}
	return b, nil
}

// binary makes a call whose body and reply are in the form of package wire.
func (c *Client) binary(ctx context.Context, r *call) (*reply, error) {
	r.bodyType, r.accept = wire.ContentType, wire.ContentType
	rep, err := c.do(ctx, r)
	if err != nil {
		return nil, err
	}
	if t := rep.header.Get("Content-Type"); t != wire.ContentType {
		return nil, garbled(r, fmt.Errorf("a body of the type %q", t))
	}
	return rep, nil
}

// garbled is a reply that can't be read. Whether the call was carried out is not known.
func garbled(r *call, err error) error {
	return fmt.Errorf("%s %s: reply can't be read: %w; are client and server of the same version?", r.method, r.path, err)
}
