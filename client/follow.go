package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/wire"
)

const (
	maxChunk    = 4 << 20 // bytes of output in one reply
	maxEvent    = 1 << 20 // bytes of a line in a stream
	logWait     = "5m"    // of one request
	eventStream = "text/event-stream"
)

// Log implements haulier.Operator. A wait goes on over broken connections, at the same offset.
func (c *Client) Log(ctx context.Context, r haulier.LogRequest) (haulier.LogChunk, error) {
	q := url.Values{}
	if r.Tenant != "" {
		q.Set("tenant", r.Tenant)
	}
	if r.Max != 0 {
		q.Set("max", strconv.Itoa(min(r.Max, maxChunk)))
	}
	if r.Wait {
		q.Set("wait", logWait)
	}
	for {
		q.Set("from", strconv.FormatInt(r.From, 10))
		q.Set("attempt", strconv.Itoa(r.Attempt))
		chunk, err := c.chunk(ctx, &call{method: http.MethodGet, path: "/v1/jobs/" + r.Job.String() + "/log", query: q, accept: wire.ContentType, repeat: true})
		if err != nil || !r.Wait || chunk.End || len(chunk.Frames) > 0 {
			return chunk, err
		}
		r.Attempt, r.From = chunk.Attempt, chunk.Next
	}
}

func (c *Client) chunk(ctx context.Context, k *call) (chunk haulier.LogChunk, err error) {
	rep, err := c.do(ctx, k)
	if err != nil {
		return chunk, err
	}
	chunk.Frames, chunk.End = rep.body, rep.header.Get("Haulier-End") != ""
	attempt, err1 := strconv.Atoi(rep.header.Get("Haulier-Attempt"))
	from, err2 := strconv.ParseInt(rep.header.Get("Haulier-From"), 10, 64)
	next, err3 := strconv.ParseInt(rep.header.Get("Haulier-Next"), 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return chunk, garbled(k, err)
	}
	chunk.Attempt, chunk.From, chunk.Next = attempt, from, next
	return chunk, nil
}

// Events implements haulier.Operator. When the connection breaks it makes
// another, and the first event after that says by Missed that there may have been others.
func (c *Client) Events(ctx context.Context, f haulier.Filter, fn func(haulier.JobEvent) error) error {
	k := &call{method: http.MethodGet, path: "/v1/events", query: filterQuery(f), accept: eventStream}
	pause := pauses{until: c.until()}
	gap := false
	for {
		err := c.events(ctx, k, func(e haulier.JobEvent) error {
			pause = pauses{until: c.until()}
			if gap {
				e.Missed, gap = max(e.Missed, 1), false
			}
			if err := fn(e); err != nil {
				return &stopped{err}
			}
			return nil
		})
		var stop *stopped
		switch {
		case errors.As(err, &stop):
			return stop.error
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.Is(err, haulier.ErrUnavailable):
			return err
		}
		gap = true
		if !pause.next(ctx, err) {
			return lastly(ctx, err)
		}
	}
}

// stopped is the error of the receiver of events.
type stopped struct{ error }

// events follows one connection's stream until it breaks, which is ErrUnavailable.
func (c *Client) events(ctx context.Context, k *call, fn func(haulier.JobEvent) error) error {
	res, err := c.open(ctx, k)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	events := newEventReader(res.Body)
	for {
		name, data, err := events.next()
		if err != nil {
			return broken(ctx, k, err)
		}
		if name != "job" {
			continue
		}
		var e haulier.JobEvent
		if err := json.Unmarshal(data, &e); err != nil {
			return garbled(k, err)
		}
		if err := fn(e); err != nil {
			return err
		}
	}
}

// eventReader reads server-sent events, as the HTML standard has them.
type eventReader struct{ lines *bufio.Scanner }

func newEventReader(r io.Reader) *eventReader {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 4096), maxEvent)
	return &eventReader{s}
}

// next returns the name and the data of the next event. The data holds until the next call.
func (r *eventReader) next() (name string, data []byte, err error) {
	name = "message"
	for r.lines.Scan() {
		field, value, _ := bytes.Cut(r.lines.Bytes(), []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			name = string(value)
		case "data":
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, value...)
		case "":
			if len(r.lines.Bytes()) == 0 && data != nil {
				return name, data, nil
			}
		}
	}
	if err := r.lines.Err(); err != nil {
		return "", nil, err
	}
	return "", nil, errEnded
}

var errEnded = errors.New("the stream ended")
