package server

import (
	"bytes"
	"context"
	"slices"
	"strconv"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/joblog"
)

// piece is a frame of output and the offset that follows it.
type piece struct {
	joblog.Frame
	next int64
}

// pieces are the frames of a chunk, of the streams that were asked for.
func (q *logQuery) pieces(chunk haulier.LogChunk) (list []piece, err error) {
	at := chunk.From
	for b := chunk.Frames; len(b) > 0; {
		f, n, err := joblog.Next(b)
		if err != nil {
			return nil, err
		}
		b, at = b[n:], at+int64(n)
		if len(q.streams) == 0 || slices.Contains(q.streams, f.Stream) {
			list = append(list, piece{f, at})
		}
	}
	return list, nil
}

// begin returns what an answer begins with, the first chunk or the tail, and
// moves q to what follows it. End is set when nothing does.
func (c *call) begin(ctx context.Context, q *logQuery) (list []piece, end bool, err error) {
	if q.tailLines > 0 {
		list, end, err = c.tail(ctx, q)
		q.tailLines = 0
		return list, end, err
	}
	return c.advance(ctx, q)
}

// advance reads the next chunk and moves q behind it.
func (c *call) advance(ctx context.Context, q *logQuery) ([]piece, bool, error) {
	chunk, err := c.Queue.Log(ctx, q.LogRequest)
	if err != nil {
		return nil, false, err
	}
	q.Attempt, q.From = chunk.Attempt, chunk.Next
	list, err := q.pieces(chunk)
	return list, chunk.End || len(chunk.Frames) == 0 && !q.Wait, err
}

// logText answers with the data of the frames, one after the other.
func (c *call) logText(q logQuery) error {
	ctx, end := c.waiting()
	defer end()
	list, done, err := c.begin(ctx, &q)
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", textType)
	c.w.Header().Set(attemptHeader, strconv.Itoa(q.Attempt))
	for {
		for _, p := range list {
			soon(c.w)
			if _, err := c.w.Write(p.Data); err != nil {
				return nil // the client has gone
			}
		}
		if done {
			return nil
		}
		if list, done, err = c.advance(ctx, &q); err != nil {
			return c.cut(err)
		}
	}
}

// Steps in which a tail of lines is looked for, from the end backwards.
const (
	firstTail = 64 << 10
	maxTail   = 16 << 20
)

// tail returns the last lines, at most about maxTail bytes of them, and moves q behind them.
func (c *call) tail(ctx context.Context, q *logQuery) ([]piece, bool, error) {
	lines := q.tailLines
	for size := int64(firstTail); ; size *= 4 {
		try := *q
		try.From, try.Wait = -size, false
		list, first, err := c.rest(ctx, &try, size)
		if err != nil {
			return nil, false, err
		}
		kept, enough := lastLines(list, lines)
		if enough || first == 0 || size >= maxTail {
			try.Wait = q.Wait
			*q = try
			return kept, !q.Wait, nil
		}
	}
}

// rest reads to the end of what there is, but not much more than size, and
// returns the offset at which that began.
func (c *call) rest(ctx context.Context, q *logQuery, size int64) (list []piece, first int64, err error) {
	for n := int64(0); ; {
		chunk, err := c.Queue.Log(ctx, q.LogRequest)
		if err != nil {
			return nil, 0, err
		}
		if n == 0 {
			first = chunk.From
		}
		n += int64(len(chunk.Frames))
		q.Attempt, q.From = chunk.Attempt, chunk.Next
		more, err := q.pieces(chunk)
		if err != nil {
			return nil, 0, err
		}
		list = append(list, more...)
		if chunk.End || len(chunk.Frames) == 0 || n >= size {
			return list, first, nil
		}
	}
}

// lastLines cuts list down to its last n lines, and reports whether it had that many.
// A line break at the very end ends the last line; it begins no other.
func lastLines(list []piece, n int) ([]piece, bool) {
	for i := len(list) - 1; i >= 0; i-- {
		data := list[i].Data
		end := len(data)
		if i == len(list)-1 {
			end = max(end-1, 0)
		}
		for {
			k := bytes.LastIndexByte(data[:end], '\n')
			if k < 0 {
				break
			}
			if n--; n == 0 {
				list[i].Data = data[k+1:]
				return list[i:], true
			}
			end = k
		}
	}
	return list, false
}
