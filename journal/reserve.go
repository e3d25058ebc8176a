package journal

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/haulier/haulier"
)

// Token names a reservation. The zero Token names none.
type Token uint64

// reservation is lines that somebody has taken until a time.
type reservation struct {
	span
	entries []Entry
	until   time.Time
}

// Reserve takes up to n lines off the front for as long as the lease, after which they go back there unless they are Done. Only lines that
// are on stable storage are given, and of a request all of its lines, even when they are more than n; fewer than n
// may come although there are more. The zero Token: there are none right now, see Wait.
func (j *Journal) Reserve(n int, lease time.Duration) (Token, error) {
	if n < 1 || lease <= 0 {
		return 0, fmt.Errorf("journal: reserve %d lines for %v: %w: both must be positive", n, lease, haulier.ErrInvalid)
	}
	j.reserving.Lock()
	defer j.reserving.Unlock()
	piece, limit, err := j.takeFront()
	if err != nil || piece.seg == nil {
		return 0, err
	}
	entries, to, err := piece.seg.read(piece.from, limit, n) // without the lock: writers do not wait for it
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		j.give(piece)
		return 0, fmt.Errorf("journal: %w", err)
	}
	if to < piece.to {
		j.give(span{seg: piece.seg, from: to, to: piece.to})
		j.stir()
	}
	j.tokens++
	j.held[j.tokens] = &reservation{
		span: span{seg: piece.seg, from: piece.from, to: to}, entries: entries, until: j.Now().Add(lease),
	}
	return j.tokens, nil
}

// takeFront takes the first span, of which what lies before limit is on stable storage. Without such, the span is zero.
func (j *Journal) takeFront() (front span, limit int64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failed != nil {
		return span{}, 0, j.failed
	}
	j.expire()
	if len(j.free) == 0 {
		return span{}, 0, nil
	}
	front = j.free[0]
	if front.from >= front.seg.synced {
		return span{}, 0, nil
	}
	j.free = slices.Delete(j.free, 0, 1)
	return front, min(front.to, front.seg.synced), nil
}

// give puts a span among the free ones. The lock is held.
func (j *Journal) give(s span) {
	at, _ := slices.BinarySearchFunc(j.free, s, compareSpans)
	if at < len(j.free) && follows(s, j.free[at]) {
		s.to = j.free[at].to
		j.free = slices.Delete(j.free, at, at+1)
	}
	if at > 0 && follows(j.free[at-1], s) {
		j.free[at-1].to = s.to
		return
	}
	j.free = slices.Insert(j.free, at, s)
}

func follows(a, b span) bool { return a.seg == b.seg && a.to == b.from }

// expire gives back what was reserved for a time that has passed. The lock is held.
func (j *Journal) expire() {
	now := j.Now()
	for t, r := range j.held {
		if !now.Before(r.until) {
			delete(j.held, t)
			j.give(r.span)
			j.stir()
		}
	}
}

// reserved is the reservation of a token. The lock is held.
func (j *Journal) reserved(t Token) (*reservation, error) {
	if j.failed != nil {
		return nil, j.failed
	}
	j.expire()
	r := j.held[t]
	if r == nil {
		return nil, fmt.Errorf("journal: token %d: %w: its lease is over, or it was given up; reserve again", t, haulier.ErrLeaseLost)
	}
	return r, nil
}

// Read returns the reserved lines. It may be called again. ErrLeaseLost: the lease is over.
func (j *Journal) Read(t Token) ([]Entry, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r, err := j.reserved(t)
	if err != nil {
		return nil, err
	}
	return slices.Clone(r.entries), nil
}

// Done says that the reserved lines were persisted elsewhere: they are never given again, also after a crash.
// ErrLeaseLost: the lease is over, and the lines are for others. On another error they go back.
func (j *Journal) Done(ctx context.Context, t Token) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j.mu.Lock()
	r, err := j.reserved(t)
	if err != nil {
		j.mu.Unlock()
		return err
	}
	delete(j.held, t) // nobody else can get them, until they are done or given back
	j.mu.Unlock()
	broken, err := r.seg.markDone(mark{r.entries[0].Seq, r.entries[len(r.entries)-1].Seq})
	j.mu.Lock()
	err = j.ended(r, broken, err)
	j.mu.Unlock()
	j.sweep()
	return err
}

// ended takes note of lines that are done, or gives them back. The lock is held.
func (j *Journal) ended(r *reservation, broken bool, err error) error {
	if broken {
		return j.fail(err)
	}
	if err != nil {
		j.give(r.span)
		j.stir()
		return fmt.Errorf("journal: %w: %w", haulier.ErrUnavailable, err)
	}
	if r.seg.left -= len(r.entries); r.seg.left == 0 && r.seg != j.active {
		j.forget(r.seg)
	}
	return nil
}

// Cancel gives reserved lines back to where they were. ErrLeaseLost: they are already.
func (j *Journal) Cancel(t Token) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	r, err := j.reserved(t)
	if err != nil {
		return err
	}
	delete(j.held, t)
	j.give(r.span)
	j.stir()
	return nil
}

// Wait blocks until there is something to reserve.
func (j *Journal) Wait(ctx context.Context) error {
	for {
		there, changed, next, err := j.look()
		if err != nil || there {
			return err
		}
		if err := await(ctx, changed, next); err != nil {
			return err
		}
	}
}

// look tells whether there is something to reserve, what to wait for otherwise, and how long until a lease ends: negative, there is none.
func (j *Journal) look() (there bool, changed <-chan struct{}, next time.Duration, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failed != nil {
		return false, nil, 0, j.failed
	}
	j.expire()
	next = -1
	now := j.Now()
	for _, r := range j.held {
		if d := r.until.Sub(now); next < 0 || d < next {
			next = d
		}
	}
	return len(j.free) > 0 && j.free[0].from < j.free[0].seg.synced, j.changed, next, nil
}

// await waits for a channel, or as long as d unless that is negative.
func await(ctx context.Context, changed <-chan struct{}, d time.Duration) error {
	var late <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-changed:
	case <-late:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
