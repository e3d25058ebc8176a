package http

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/webhook"
)

const (
	batchBytes = 8 << 20        // of a body that jobs share, when it has more than one
	mostAnswer = 4 << 20        // bytes of an answer in lines
	jobsHeader = "Haulier-Jobs" // the ids of the jobs that share a call, in the order of their lines
)

// group is of attempts that may share a call. While one is under way, those that begin wait, and go together when it has ended, or as
// soon as they are a full batch. It is guarded by the executor's lock.
type group struct {
	waiting []*mate
	calls   int // under way
}

// mate is an attempt that shares a call.
type mate struct {
	*attempt
	said chan said // gets what came of the call
	call *shared   // nil: it waits
}

// shared is a call that is under way.
type shared struct {
	left   int // mates that want to know
	cancel context.CancelFunc
}

// said is what came of a call for one attempt.
type said struct {
	answer *webhook.Answer // nil, with an error
	err    error
	line   *line // nil: the answer is about the whole call
}

// key is what attempts have in common that share a call.
func (a *attempt) key() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q %q %q %q %v %d", a.tenant, a.typ, a.task.URL, a.task.Method, a.timeout, a.task.Batch)
	for _, k := range slices.Sorted(maps.Keys(a.task.Headers)) {
		fmt.Fprintf(&b, " %q %q", k, a.task.Headers[k])
	}
	return b.String()
}

// share makes an attempt part of the next call. The function that it returns waits for what came of that.
func (x *Executor) share(a *attempt) func() said {
	if bytes.IndexByte(a.body, '\n') >= 0 {
		err := fmt.Errorf("%w: its payload has more than one line, and jobs that share a call have one each", haulier.ErrInvalid)
		return func() said { return said{err: err} }
	}
	m := &mate{attempt: a, said: make(chan said, 1)}
	key := a.key()
	x.mu.Lock()
	g := x.groups[key]
	if g == nil {
		g = &group{}
		x.groups[key] = g
	}
	g.waiting = append(g.waiting, m)
	x.send(key, g)
	x.mu.Unlock()
	return func() said {
		select {
		case s := <-m.said:
			return s
		case <-a.ctx.Done():
			x.leave(g, m)
			return said{err: context.Cause(a.ctx)}
		}
	}
}

// leave takes out an attempt that was stopped. A call that nobody is left to wait for is given up.
func (x *Executor) leave(g *group, m *mate) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if m.call == nil {
		g.waiting = slices.DeleteFunc(g.waiting, func(o *mate) bool { return o == m })
		return
	}
	if m.call.left--; m.call.left == 0 {
		m.call.cancel()
	}
}

// send begins the calls that are due. It is called with the lock held.
func (x *Executor) send(key string, g *group) {
	for len(g.waiting) > 0 && (g.calls == 0 || len(g.waiting) >= g.waiting[0].task.Batch) {
		n, size := 0, 0
		for n < min(len(g.waiting), g.waiting[0].task.Batch) && (n == 0 || size+len(g.waiting[n].body) < batchBytes) {
			size += len(g.waiting[n].body) + 1
			n++
		}
		mates := slices.Clone(g.waiting[:n])
		g.waiting = slices.Delete(g.waiting, 0, n)
		g.calls++
		first := mates[0]
		ctx, cancel := context.WithTimeoutCause(x.over, first.timeout, fmt.Errorf("timed out after %v", first.timeout))
		call := &shared{left: n, cancel: cancel}
		for _, m := range mates {
			m.call = call
		}
		x.calls.Go(func() {
			defer cancel()
			x.together(ctx, mates)
			x.mu.Lock()
			defer x.mu.Unlock()
			g.calls--
			x.send(key, g)
		})
	}
	if len(g.waiting) == 0 && g.calls == 0 {
		delete(x.groups, key)
	}
}

// together makes one call for several attempts, and tells each what came of it.
func (x *Executor) together(ctx context.Context, mates []*mate) {
	var body []byte
	ids := make([]string, len(mates))
	for i, m := range mates {
		ids[i] = m.ref.Job.String()
		body = append(body, m.task.Body(m.body)...)
	}
	header := mates[0].header(map[string]string{"Content-Type": "text/plain; charset=utf-8", jobsHeader: strings.Join(ids, ",")})
	answer, err := x.client.Do(ctx, &webhook.Request{Method: mates[0].task.Method, URL: mates[0].task.URL, Header: header, Body: body, Most: mostAnswer})
	var lines []line
	if err == nil && answer.Status/100 == 2 {
		lines = parseLines(answer.Body, answer.Cut, len(mates))
	}
	for i, m := range mates {
		s := said{answer: answer, err: err}
		if lines != nil {
			s.line = &lines[i]
		}
		m.said <- s
	}
}
