package process

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// conn carries messages over a socket, in both programs. What is sent while a
// write is under way travels with the next one.
type conn struct {
	c    net.Conn
	wake chan struct{}
	// more is asked for further messages when all that was sent is written. It
	// returns b when there are none.
	more func(b []byte) []byte

	mu     sync.Mutex
	out    []byte
	closed bool
	last   bool          // close when all is written
	done   chan struct{} // closed by close
}

func newConn(c net.Conn, more func([]byte) []byte) *conn {
	return &conn{c: c, wake: make(chan struct{}, 1), more: more, done: make(chan struct{})}
}

// send queues a message. After close it is dropped.
func (c *conn) send(m *message) {
	c.mu.Lock()
	if !c.closed {
		c.out = appendMessage(c.out, m)
	}
	c.mu.Unlock()
	c.poke()
}

// poke makes the writer look for something to write.
func (c *conn) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// close ends the connection; reader and writer return. It may be repeated.
func (c *conn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		close(c.done)
		c.c.Close()
	}
}

// finishWait bounds the wait for the other side to take the last messages.
const finishWait = 2 * time.Second

// finish closes the connection when all that was sent is written.
func (c *conn) finish(ctx context.Context) {
	c.mu.Lock()
	c.last = true
	c.mu.Unlock()
	c.poke()
	timeout := time.NewTimer(finishWait)
	defer timeout.Stop()
	select {
	case <-c.done:
	case <-timeout.C:
	case <-ctx.Done():
	}
	c.close()
}

// write sends until the connection is closed or broken.
func (c *conn) write() {
	var spare []byte
	for {
		c.mu.Lock()
		out := c.out
		c.out = spare[:0]
		last := c.last
		c.mu.Unlock()
		if len(out) == 0 && c.more != nil {
			out = c.more(out)
		}
		if len(out) == 0 {
			if last {
				c.close()
			}
			spare = out
			select {
			case <-c.wake:
				continue
			case <-c.done:
				return
			}
		}
		if _, err := c.c.Write(out); err != nil {
			c.close()
			return
		}
		if spare = out; cap(spare) > 1<<20 {
			spare = nil
		}
	}
}

// read calls f for each message until the connection ends or f fails. A message's Data is valid during the call.
func (c *conn) read(f func(*message) error) error {
	defer c.close()
	r := bufio.NewReaderSize(c.c, 64<<10)
	var buf []byte
	for {
		var err error
		if buf, err = readFrame(r, buf); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		m, err := parseMessage(buf)
		if err != nil {
			return err
		}
		if err := f(m); err != nil {
			return err
		}
	}
}
