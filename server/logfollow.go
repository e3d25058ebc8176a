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

// followLog streams output until the attempt has ended.
func (c *call) followLog(q logQuery) error {
	ctx, end := c.waiting()
	defer end()
	q.Wait = true
	var out *stream
	for {
		wait, cancel := within(ctx)
		list, done, err := c.begin(wait, &q)
		cancel()
		idle := errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
		if err != nil && !idle {
			if out == nil {
				return err // nothing was sent yet: it can still be a problem document
			}
			return c.cut(err)
		}
		if out == nil {
			if out, err = c.startStream(); err != nil {
				return nil // the client has gone
			}
		}
		if idle {
			err = out.comment("still here")
		} else {
			err = c.sendOutput(out, &q, list, done)
		}
		if err != nil || done {
			return c.cut(err)
		}
	}
}

// sendOutput sends pieces of output, and the end when they were the last.
func (c *call) sendOutput(out *stream, q *logQuery, list []piece, done bool) error {
	for _, p := range list {
		e := outputEvent{Stream: streamNames[p.Stream], Time: p.At}
		if utf8.Valid(p.Data) {
			e.Data = string(p.Data)
		} else {
			e.DataBytes = p.Data
		}
		if err := out.add(fmt.Sprintf("%d/%d", q.Attempt, p.next), "output", e); err != nil {
			return err
		}
	}
	if done {
		e := endEvent{Attempt: q.Attempt}
		if j, err := c.job(q.Tenant, q.Job); err == nil {
			e.State, e.Outcome, e.Code = j.State, j.Outcome, j.Code
		}
		if err := out.add("", "end", e); err != nil {
			return err
		}
	}
	return out.flush()
}
