package client

import (
	"io"
	"net/http"
)

// Waiting is how many calls wait to be joined into the next enqueue request.
func Waiting(c *Client) int {
	c.enqueues.mu.Lock()
	defer c.enqueues.mu.Unlock()
	return len(c.enqueues.waiting)
}

// ReadEvent reads the next server-sent event.
func ReadEvent(r io.Reader) (name string, data []byte, err error) { return newEventReader(r).next() }

// Refused is the error that an answer means.
func Refused(status int, contentType string, body []byte) error {
	res := &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{"Content-Type": {contentType}}}
	return refused(&call{method: http.MethodGet, path: "/"}, res, body)
}
