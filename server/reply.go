package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"

	"github.com/haulier/haulier/wire"
)

const (
	maxPooled = 1 << 20   // bytes of the largest buffer that is kept for the next reply
	sendPiece = 256 << 10 // bytes that a client must take within sendTimeout
)

var (
	jsonBuffers   = sync.Pool{New: func() any { return new(bytes.Buffer) }}
	binaryBuffers = sync.Pool{New: func() any { return new([]byte) }}
)

// replyJSON answers with v.
func (c *call) replyJSON(status int, v any) error {
	b := jsonBuffers.Get().(*bytes.Buffer)
	b.Reset()
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	c.send(status, jsonType, b.Bytes())
	if b.Cap() <= maxPooled {
		jsonBuffers.Put(b)
	}
	return nil
}

// replyBinary answers with what f appends, in the form of package wire.
func (c *call) replyBinary(status int, f func([]byte) []byte) error {
	b := binaryBuffers.Get().(*[]byte)
	*b = f((*b)[:0])
	c.send(status, wire.ContentType, *b)
	if cap(*b) <= maxPooled {
		binaryBuffers.Put(b)
	}
	return nil
}

// replyNone answers that it was done.
func (c *call) replyNone() error {
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// send answers with the body. Who does not wait for the answer misses it.
func (c *call) send(status int, contentType string, body []byte) {
	h := c.w.Header()
	h["Content-Type"] = []string{contentType}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	c.w.WriteHeader(status)
	for c.op.long || len(body) > sendPiece {
		soon(c.w)
		piece := body[:min(len(body), sendPiece)]
		if _, err := c.w.Write(piece); err != nil || len(piece) == len(body) {
			return
		}
		body = body[len(piece):]
	}
	_, _ = c.w.Write(body)
}
