package server

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// keepAlive is how long a stream is silent at most. It also is how soon a client
// that has gone away is noticed.
const keepAlive = 15 * time.Second

// stream writes server-sent events, as the HTML standard has them:
//
//	id: ID
//	event: NAME
//	data: one line of JSON
type stream struct {
	w   http.ResponseWriter
	out *http.ResponseController
	buf []byte // not yet sent
}

// startStream sends the head of a stream.
func (c *call) startStream() (*stream, error) {
	h := c.w.Header()
	h.Set("Content-Type", eventsType)
	h.Set("X-Accel-Buffering", "no") // a proxy in between must pass each event on at once
	c.w.WriteHeader(http.StatusOK)
	s := &stream{w: c.w, out: http.NewResponseController(c.w)}
	return s, s.comment("stream begins")
}

// add puts an event into the buffer.
func (s *stream) add(id, name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if id != "" {
		s.buf = append(append(append(s.buf, "id: "...), id...), '\n')
	}
	s.buf = append(append(append(s.buf, "event: "...), name...), '\n')
	s.buf = append(append(append(s.buf, "data: "...), data...), '\n', '\n')
	return nil
}

// comment sends what receivers ignore.
func (s *stream) comment(text string) error {
	s.buf = append(append(append(s.buf, ": "...), text...), '\n', '\n')
	return s.flush()
}

// flush sends the buffer.
func (s *stream) flush() error {
	soon(s.w)
	_, err := s.w.Write(s.buf)
	s.buf = s.buf[:0]
	if err != nil {
		return err
	}
	return s.out.Flush()
}

// cut ends a stream that has begun: too late to say why, but not to show that it is not whole.
func (c *call) cut(err error) error {
	if err == nil || c.ctx().Err() != nil || stopping(c.ctx()) {
		return nil
	}
	c.Log.Warn("answer cut off", "err", err, "path", c.r.URL.Path)
	panic(http.ErrAbortHandler)
}

// within is a wait of keepAlive at most.
func within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, keepAlive)
}
