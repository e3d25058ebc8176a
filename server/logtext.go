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

// part is some output, and what is known of what follows it.
type part struct {
	pieces []piece
	end    bool // the attempt has ended and nothing follows
	empty  bool // nothing follows yet
}

// begin returns what an answer begins with, the first chunk or the tail, and moves q behind it.
func (c *call) begin(ctx context.Context, q *logQuery) (part, error) {
	if q.tailLines > 0 || q.tailBytes > 0 {
		return c.tail(ctx, q)
	}
	return c.advance(ctx, q)
}

// advance reads the next chunk and moves q behind it.
func (c *call) advance(ctx context.Context, q *logQuery) (part, error) {
	chunk, err := c.Queue.Log(ctx, q.LogRequest)
	if err != nil {
		return part{}, err
	}
	q.Attempt, q.From = chunk.Attempt, chunk.Next
	list, err := q.pieces(chunk)
	return part{pieces: list, end: chunk.End, empty: len(chunk.Frames) == 0}, err
}

// logText answers with the data of the frames, one after the other.
func (c *call) logText(q logQuery) error {
	ctx, end := c.waiting()
	defer end()
	p, err := c.begin(ctx, &q)
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", textType)
	c.w.Header().Set(attemptHeader, strconv.Itoa(q.Attempt))
	for {
		for _, f := range p.pieces {
			soon(c.w)
			if _, err := c.w.Write(f.Data); err != nil {
				return nil // the client has gone
			}
		}
		if p.end || p.empty {
			return nil
		}
		if p, err = c.advance(ctx, &q); err != nil {
			return c.cut(err)
		}
	}
}

// Steps in which a tail is looked for, from the end backwards.
const (
	firstTail = 64 << 10
	maxTail   = 16 << 20
)

// tail returns the last lines or bytes, at most about maxTail bytes, and moves q behind them.
func (c *call) tail(ctx context.Context, q *logQuery) (part, error) {
	for size := int64(firstTail); ; size *= 4 {
		try := *q
		try.From = -size
		list, first, err := c.rest(ctx, &try, size)
		if err != nil {
			return part{}, err
		}
		kept, enough := q.last(list)
		if enough || first == 0 || size >= maxTail {
			try.tailLines, try.tailBytes = 0, 0
			*q = try
			return part{pieces: kept}, nil
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

// last cuts list down to what is asked of the end, and reports whether it had that much.
func (q *logQuery) last(list []piece) ([]piece, bool) {
	if q.tailLines > 0 {
		return lastLines(list, q.tailLines)
	}
	return lastBytes(list, q.tailBytes)
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
				return cutFront(list[i:], k+1), true
			}
			end = k
		}
	}
	return list, false
}

// lastBytes cuts list down to its last n bytes, and reports whether it had that many.
func lastBytes(list []piece, n int64) ([]piece, bool) {
	for i := len(list) - 1; i >= 0; i-- {
		if over := int64(len(list[i].Data)) - n; over >= 0 {
			return cutFront(list[i:], int(over)), true
		}
		n -= int64(len(list[i].Data))
	}
	return list, false
}

// cutFront drops the first n bytes of the first piece.
func cutFront(list []piece, n int) []piece {
	if list[0].Data = list[0].Data[n:]; len(list[0].Data) == 0 {
		return list[1:]
	}
	return list
}
