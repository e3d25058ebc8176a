package client

import (
	"context"
	"runtime"
	"sync"
)

// maxJoinedBytes is about what a joined request holds at most, unless one caller asks for more.
const maxJoinedBytes = 4 << 20

// joiner gathers what is asked while requests are on their way, and sends it
// together. At most a few requests are on their way at once.
type joiner[Q, A any] struct {
	live   func() (context.Context, context.CancelFunc) // begins a request
	most   int                                          // requests at once
	items  int                                          // of one request
	sizeOf func(*Q) (items, bytes int)
	// start runs a goroutine that the client waits for when it is closed; false: it was closed.
	start func(func()) bool
	// send answers each of the asked, in order, by a result or the error of all.
	send func(context.Context, []Q) ([]A, []error)

	mu      sync.Mutex
	waiting []*asked[Q, A]
	flying  int
}

// asked is what one caller asked, and later its answer.
type asked[Q, A any] struct {
	of      []Q
	answers []A
	err     error
	ready   chan struct{}
	flight  *flight // set when it was sent
}

// flight is a request on its way; it is given up when no caller waits for it any more.
type flight struct {
	cancel  context.CancelFunc
	callers int
}

// ask sends q, joined with what others ask, and returns the answers to q. When ctx
// ends first, whether q was carried out is not known, unless it was still waiting.
func (j *joiner[Q, A]) ask(ctx context.Context, q []Q) ([]A, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	a := &asked[Q, A]{of: q, ready: make(chan struct{})}
	j.mu.Lock()
	if j.flying < j.most {
		if !j.start(j.fly) {
			j.mu.Unlock()
			return nil, errClosed
		}
		j.flying++
	}
	j.waiting = append(j.waiting, a)
	j.mu.Unlock()
	select {
	case <-a.ready:
		return a.answers, a.err
	case <-ctx.Done():
		j.leave(a)
		return nil, ctx.Err()
	}
}

// leave takes a out of what waits, or counts one caller less of its request.
func (j *joiner[Q, A]) leave(a *asked[Q, A]) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, w := range j.waiting {
		if w == a {
			j.waiting = append(j.waiting[:i], j.waiting[i+1:]...)
			return
		}
	}
	if f := a.flight; f != nil {
		if f.callers--; f.callers == 0 {
			f.cancel()
		}
	}
}

// fly sends requests until nothing waits.
func (j *joiner[Q, A]) fly() {
	for {
		ctx, cancel := j.live()
		crew := j.board(&flight{cancel: cancel})
		if crew == nil {
			cancel()
			return
		}
		j.deliver(ctx, crew)
		cancel()
		runtime.Gosched() // who was just answered may ask again: let them, that the next request is a full one
	}
}

// board takes the first of what waits, as much as fits one request. It is nil when nothing waits.
func (j *joiner[Q, A]) board(f *flight) []*asked[Q, A] {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.waiting) == 0 {
		j.flying--
		return nil
	}
	items, bytes, n := 0, 0, 0
	for _, a := range j.waiting {
		for i := range a.of {
			k, b := j.sizeOf(&a.of[i])
			items, bytes = items+k, bytes+b
		}
		if n > 0 && (items > j.items || bytes > maxJoinedBytes) {
			break
		}
		a.flight = f
		n++
	}
	f.callers = n
	crew := j.waiting[:n:n]
	j.waiting = j.waiting[n:]
	return crew
}

// deliver sends what the crew asked and hands each its own answers.
func (j *joiner[Q, A]) deliver(ctx context.Context, crew []*asked[Q, A]) {
	all := crew[0].of
	if len(crew) > 1 {
		all = make([]Q, 0, len(crew))
		for _, a := range crew {
			all = append(all, a.of...)
		}
	}
	answers, errs := j.send(ctx, all)
	at := 0
	for _, a := range crew {
		n := len(a.of)
		a.answers = answers[at : at+n : at+n]
		for _, err := range errs[at : at+n] {
			if err != nil {
				a.answers, a.err = nil, err
				break
			}
		}
		at += n
		close(a.ready)
	}
}
