package server

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/joblog"
)

// outputEvent is a piece of output in a stream.
type outputEvent struct {
	Stream    string    `json:"stream"`
	Time      time.Time `json:"time"`
	Data      string    `json:"data,omitempty"`
	DataBytes []byte    `json:"data_bytes,omitempty"`
}

// endEvent says that an attempt has ended, and how its job stands after it.
type endEvent struct {
	Attempt int             `json:"attempt"`
	State   haulier.State   `json:"state,omitzero"`
	Outcome haulier.Outcome `json:"outcome,omitempty"`
	Code    int             `json:"code,omitempty"`
}

var streamNames = map[joblog.Stream]string{joblog.Stdout: "stdout", joblog.Stderr: "stderr", joblog.Note: "note"}

// followLog streams output until the attempt has ended. What there is already is
// read before the stream begins, so that an error can still be a problem document.
func (c *call) followLog(q logQuery) error {
	ctx, end := c.waiting()
	defer end()
	p, err := c.begin(ctx, &q)
	if err != nil {
		return err
	}
	out, err := c.startStream()
	if err != nil {
		return nil // the client has gone
	}
	q.Wait = true
	for {
		if err := c.sendOutput(out, &q, p); err != nil || p.end {
			return c.cut(err)
		}
		wait, cancel := within(ctx)
		p, err = c.advance(wait, &q)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			p, err = part{}, out.comment("still here")
		}
		if err != nil {
			return c.cut(err)
		}
	}
}

// sendOutput sends pieces of output, and the end when they were the last.
func (c *call) sendOutput(out *stream, q *logQuery, p part) error {
	for _, f := range p.pieces {
		e := outputEvent{Stream: streamNames[f.Stream], Time: f.At}
		if utf8.Valid(f.Data) {
			e.Data = string(f.Data)
		} else {
			e.DataBytes = f.Data
		}
		if err := out.add(fmt.Sprintf("%d/%d", q.Attempt, f.next), "output", e); err != nil {
			return err
		}
	}
	if p.end {
		e := endEvent{Attempt: q.Attempt}
		if j, err := c.job(q.Tenant, q.Job); err == nil {
			e.State, e.Outcome, e.Code = j.State, j.Outcome, j.Code
		}
		if err := out.add("", "end", e); err != nil {
			return err
		}
	}
	if len(out.buf) == 0 {
		return nil
	}
	return out.flush()
}
