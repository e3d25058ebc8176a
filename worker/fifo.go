package worker

import (
	"context"
	"math/rand/v2"
	"time"
)

// fifo is a queue that reuses its memory.
type fifo[T any] struct {
	items []T
	head  int
}

func (q *fifo[T]) len() int { return len(q.items) - q.head }

func (q *fifo[T]) push(v T) {
	if q.head > 0 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, v)
}

func (q *fifo[T]) pop() T {
	var zero T
	v := q.items[q.head]
	q.items[q.head] = zero
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return v
}

// take removes and returns all items for which f holds.
func (q *fifo[T]) take(f func(T) bool) []T {
	var taken, kept []T
	for _, v := range q.items[q.head:] {
		if f(v) {
			taken = append(taken, v)
		} else {
			kept = append(kept, v)
		}
	}
	q.items, q.head = kept, 0
	return taken
}

// backoff is the wait between tries to reach a server: it doubles from 25 ms to 2 s, less up to half of it by chance.
type backoff struct{ d time.Duration }

func (b *backoff) next() time.Duration {
	b.d = min(max(b.d*2, 25*time.Millisecond), 2*time.Second)
	return b.d - rand.N(b.d/2)
}

// pause waits, and reports whether neither ctx nor stop ended the wait.
func (b *backoff) pause(ctx context.Context, stop <-chan struct{}) bool {
	t := time.NewTimer(b.next())
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-stop:
	}
	return false
}
