package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/engine/flow"
)

// backlog holds the keys of work documents that are to be completed, each once.
type backlog struct {
	mu    sync.Mutex
	keys  []string
	known map[string]bool
	more  chan struct{} // there are some
}

func newBacklog() *backlog {
	return &backlog{known: map[string]bool{}, more: make(chan struct{}, 1)}
}

func (l *backlog) add(keys ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		if !l.known[key] {
			l.known[key] = true
			l.keys = append(l.keys, key)
		}
	}
	if len(l.keys) > 0 {
		select {
		case l.more <- struct{}{}:
		default:
		}
	}
}

func (l *backlog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys := l.keys
	l.keys = nil
	clear(l.known)
	return keys
}

// complete carries out what the backlog holds, until ctx ends.
func (l *backlog) complete(ctx context.Context, one func(context.Context, string) error, failed func(key string, err error)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.more:
		}
		for _, key := range l.take() {
			if err := one(ctx, key); err != nil && ctx.Err() == nil {
				failed(key, err)
			}
		}
	}
}

// resumeWork completes changes by filter which a dead server or an impatient caller left.
func (e *Engine) resumeWork(ctx context.Context) error {
	return e.left.complete(ctx, e.resumeOne, func(key string, err error) {
		e.log.Error("change by filter not completed; it goes on when the server starts again", "work", key, "err", err)
	})
}

// resumeFlows carries out what changes left to do for other jobs. What fails is found again by the sweeper.
func (e *Engine) resumeFlows(ctx context.Context) error {
	return e.effects.complete(ctx, e.resumeFlow, func(key string, err error) {
		e.log.Error("what a change means for other jobs is not carried out yet", "work", key, "err", err)
	})
}

// loadWork finds the work that a dead server left; who calls it does not serve yet.
func (e *Engine) loadWork(ctx context.Context) error {
	return e.eachWork(ctx, func(d *haulier.Doc, op string) {
		if follows(op) {
			e.effects.add(d.Key)
		} else if !e.duty.shared { // or else the server may be alive that does it
			e.left.add(d.Key)
		}
	})
}

// follows reports whether work of this kind follows from a change, and any server carries it out at once.
func follows(op string) bool {
	return op == flow.WorkOp || op == flow.SignalOp || op == thawOp || op == returnOp
}

// loadFlow finds what changes of other servers, or commits whose end nobody heard of, left to do for other jobs.
func (e *Engine) loadFlow(ctx context.Context) error {
	return e.eachWork(ctx, func(d *haulier.Doc, op string) {
		if follows(op) {
			e.effects.add(d.Key)
		}
	})
}

func (e *Engine) eachWork(ctx context.Context, f func(d *haulier.Doc, op string)) error {
	for after := ""; ; {
		docs, err := e.store.Docs(ctx, haulier.DocWork, "", after, 100)
		if err != nil || len(docs) == 0 {
			return err
		}
		for i := range docs {
			after = docs[i].Key
			f(&docs[i], opOf(&docs[i]))
		}
	}
}

// resumeFlow carries out what a change left to do for other jobs, or an event starts, in bounded commits.
func (e *Engine) resumeFlow(ctx context.Context, key string) error {
	for tries := 0; tries < tiedTries; {
		d, err := e.store.Doc(ctx, haulier.DocWork, key)
		if errors.Is(err, haulier.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		switch opOf(&d) {
		case flow.SignalOp:
			return e.carrySignal(ctx, key)
		case thawOp:
			return e.thaw(ctx, &d)
		case returnOp:
			return e.carryReturn(ctx, &d)
		}
		now, err := e.now(ctx)
		if err != nil {
			return err
		}
		var b haulier.Batch
		done, work, err := flow.Begin(e.store, now).Resume(ctx, d, &b)
		if err != nil {
			return err
		}
		err = e.commit(ctx, &b, work)
		switch {
		case errors.Is(err, haulier.ErrConflict):
			tries++
			continue
		case err != nil:
			return err
		case done:
			return nil
		}
		tries = 0
	}
	return fmt.Errorf("%w: others keep changing the same", haulier.ErrConflict)
}

// opOf says what a work document is about.
func opOf(d *haulier.Doc) string {
	var w struct {
		Op string `json:"op"`
	}
	if json.Unmarshal(d.Value, &w) != nil {
		return "" // whoever carries it out tells that it is corrupt
	}
	return w.Op
}
