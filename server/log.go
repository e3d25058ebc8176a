package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/joblog"
	"github.com/haulier/haulier/wire"
)

// maxLogWait bounds one wait for output in the binary form; clients ask again.
const maxLogWait = 5 * time.Minute

// Headers of output in binary form: what haulier.LogChunk has besides the frames.
const (
	attemptHeader = "Haulier-Attempt"
	fromHeader    = "Haulier-From"
	endHeader     = "Haulier-End"
)

func (s *Server) logOperations() []operation {
	return []operation{{
		id: "jobLog", method: http.MethodGet, path: "/v1/jobs/{id}/log", tag: "logs", need: read, long: true,
		summary: "What a job wrote",
		doc: "As text, whole or its tail. With follow, as server-sent events named output (stream, time, data; data_bytes where it is " +
			"not UTF-8), whose ids Last-Event-ID takes up again, and one named end when the attempt has ended. With Accept: " +
			wire.ContentType + ", one chunk of frames from an offset on, with the offsets in the header.",
		query: []param{
			tenantParam,
			numberParam("attempt", "which attempt; the newest unless said"),
			textParam("stream", "only stdout, or only stderr"),
			numberParam("tail", "only this many lines of the end"),
			numberParam("tail_bytes", "only this many bytes of the end"),
			boolParam("follow", "go on as more is written, until the attempt ends"),
			numberParam("from", "binary form: the offset; negative: that many bytes before the end"),
			numberParam("max", "binary form: most bytes"),
			textParam("wait", "binary form: how long to wait for more, up to 5m"),
		},
		headers:    []param{textParam("Last-Event-ID", "with follow: go on after this event")},
		replyTypes: []string{textType, eventsType, wire.ContentType}, do: (*call).jobLog,
	}}
}

// logQuery is what somebody asks of a job's output.
type logQuery struct {
	haulier.LogRequest
	streams   []joblog.Stream
	tailLines int   // these at the end only; 0: all
	tailBytes int64 // as tailLines
	follow    bool
	wait      time.Duration
}

func (c *call) jobLog() error {
	q, err := c.logQuery()
	if err != nil {
		return err
	}
	switch {
	case c.wantsBinary():
		return c.logChunk(q)
	case q.follow:
		return c.followLog(q)
	}
	return c.logText(q)
}

func (c *call) logQuery() (q logQuery, err error) {
	if q.Job, err = c.pathID(); err != nil {
		return q, err
	}
	if q.Tenant, err = c.scopeOf(); err != nil {
		return q, err
	}
	var attempt, lines, tail, size int64
	for _, n := range []struct {
		to   *int64
		name string
		low  int64
		high int64
	}{
		{&attempt, "attempt", 0, 1 << 30}, {&lines, "tail", 0, 1_000_000}, {&tail, "tail_bytes", 0, maxTail},
		{&q.From, "from", -1 << 40, 1 << 40}, {&size, "max", 0, 4 << 20},
	} {
		if *n.to, err = c.number(n.name, n.low, n.high, 0); err != nil {
			return q, err
		}
	}
	q.Attempt, q.tailLines, q.Max = int(attempt), int(lines), int(size)
	if tail > 0 && lines > 0 {
		return q, wrongQuery("tail_bytes", "is given besides tail: send one of them")
	}
	q.tailBytes = tail
	if q.follow, err = c.flag("follow"); err != nil {
		return q, err
	}
	if q.wait, err = c.wait("wait", maxLogWait, 0); err != nil {
		return q, err
	}
	name, err := c.text("stream")
	if err != nil {
		return q, err
	}
	switch name {
	case "":
	case "stdout":
		q.streams = []joblog.Stream{joblog.Stdout}
	case "stderr":
		q.streams = []joblog.Stream{joblog.Stderr}
	default:
		return q, wrongQuery("stream", "%q is neither stdout nor stderr", clip(name))
	}
	return q, c.resume(&q)
}

// resume takes up a stream after the event that the client saw last.
func (c *call) resume(q *logQuery) error {
	last := c.r.Header.Get("Last-Event-ID")
	if last == "" || !q.follow {
		return nil
	}
	a, o, ok := strings.Cut(last, "/")
	attempt, err := strconv.Atoi(a)
	offset, err2 := strconv.ParseInt(o, 10, 64)
	if !ok || err != nil || err2 != nil || attempt < 0 || offset < 0 {
		return &haulier.FieldError{Field: "header.Last-Event-ID", Msg: strconv.Quote(clip(last)) + " is no id of this stream: leave it out to begin anew"}
	}
	q.Attempt, q.From, q.tailLines, q.tailBytes = attempt, offset, 0, 0
	return nil
}

// logChunk answers with one chunk as it is.
func (c *call) logChunk(q logQuery) error {
	ctx, end := c.waiting()
	defer end()
	if q.Wait = q.wait > 0; q.Wait {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, q.wait)
		defer cancel()
	}
	chunk, err := c.Queue.Log(ctx, q.LogRequest)
	if q.Wait && errors.Is(err, context.DeadlineExceeded) && c.ctx().Err() == nil {
		q.Wait = false
		chunk, err = c.Queue.Log(c.ctx(), q.LogRequest)
	}
	if err != nil {
		return err
	}
	h := c.w.Header()
	h.Set(attemptHeader, strconv.Itoa(chunk.Attempt))
	h.Set(fromHeader, strconv.FormatInt(chunk.From, 10))
	h.Set(nextHeader, strconv.FormatInt(chunk.Next, 10))
	if chunk.End {
		h.Set(endHeader, "true")
	}
	c.send(http.StatusOK, wire.ContentType, chunk.Frames)
	return nil
}
