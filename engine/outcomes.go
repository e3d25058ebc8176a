package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/haulier/haulier"
)

// DocOutcomes is the kind of the document of how the attempts of a queue ended. Its key is tenant/queue.
const DocOutcomes haulier.DocKind = "outcomes"

const (
	outcomesEvery = 10 * time.Second // how often what was counted is written: so much of it a crash loses
	maxOutcomes   = 1000             // types of a queue that are counted apart
	otherTypes    = "(others)"
)

// outcomes counts attempts that this server saw end, and that are not written yet.
type outcomes struct {
	mu   sync.Mutex
	more map[ending]int64
}

// ending is how an attempt of a queue's type ended.
type ending struct {
	tenant, queue, typ string
	outcome            haulier.Outcome
}

func endingOf(j *haulier.Job) ending { return ending{j.Tenant, j.Queue, j.Type, j.Outcome} }

// endings are attempts that ended alike.
type endings struct {
	ending
	n int64
}

// another adds an ending to those of a commit, which are mostly alike.
func another(all []endings, x ending) []endings {
	if k := len(all) - 1; k >= 0 && all[k].ending == x {
		all[k].n++
		return all
	}
	return append(all, endings{x, 1})
}

func (o *outcomes) add(all []endings) {
	if len(all) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.more == nil {
		o.more = map[ending]int64{}
	}
	for i := range all {
		o.more[all[i].ending] += all[i].n
	}
}

func (o *outcomes) take() map[ending]int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	more := o.more
	o.more = nil
	return more
}

// giveBack keeps what could not be written.
func (o *outcomes) giveBack(more map[ending]int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.more == nil {
		o.more = map[ending]int64{}
	}
	for e, n := range more {
		o.more[e] += n
	}
}

func (o *outcomes) waiting() map[ending]int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make(map[ending]int64, len(o.more))
	for e, n := range o.more {
		out[e] = n
	}
	return out
}

// keepOutcomes writes what was counted now and then, and at the end.
func (e *Engine) keepOutcomes(ctx context.Context) error {
	ticker := time.NewTicker(outcomesEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := e.writeOutcomes(ctx); err != nil && ctx.Err() == nil {
				e.log.Error("counts of outcomes are not written yet", "err", err)
			}
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			if err := e.writeOutcomes(last); err != nil {
				e.log.Warn("the last counts of outcomes are lost", "err", err)
			}
			return nil
		}
	}
}

// writeOutcomes adds what was counted to the documents.
func (e *Engine) writeOutcomes(ctx context.Context) error {
	more := e.outcomes.take()
	byQueue := map[string]map[ending]int64{}
	for x, n := range more {
		key := x.tenant + "/" + x.queue
		if byQueue[key] == nil {
			byQueue[key] = map[ending]int64{}
		}
		byQueue[key][x] = n
	}
	var failed error
	for key, part := range byQueue {
		if err := e.addOutcomes(ctx, key, part); err != nil {
			e.outcomes.giveBack(part)
			failed = cmp.Or(failed, err)
		}
	}
	return failed
}

// tally is the document of a queue: numbers by type and outcome.
type tally map[string]map[haulier.Outcome]int64

func (e *Engine) addOutcomes(ctx context.Context, key string, more map[ending]int64) error {
	for range conflictTries {
		t := tally{}
		w := haulier.DocWrite{Kind: DocOutcomes, Key: key}
		d, err := e.store.Doc(ctx, DocOutcomes, key)
		switch {
		case err == nil:
			if err := json.Unmarshal(d.Value, &t); err != nil {
				return fmt.Errorf("outcomes %s: %w: %w", key, haulier.ErrCorrupt, err)
			}
			w.Expect = d.Rev
		case !errors.Is(err, haulier.ErrNotFound):
			return err
		}
		for x, n := range more {
			t.add(x, n)
		}
		if w.Value, err = json.Marshal(t); err != nil {
			return err
		}
		if err = e.store.Commit(ctx, &haulier.Batch{Docs: []haulier.DocWrite{w}}); !errors.Is(err, haulier.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("outcomes %s: %w: others keep changing them", key, haulier.ErrConflict)
}

func (t tally) add(x ending, n int64) {
	if t[x.typ] == nil && len(t) >= maxOutcomes {
		x.typ = otherTypes
	}
	if t[x.typ] == nil {
		t[x.typ] = map[haulier.Outcome]int64{}
	}
	t[x.typ][x.outcome] += n
}

// Outcomes implements haulier.Operator.
func (e *Engine) Outcomes(ctx context.Context, tenant string) ([]haulier.OutcomeCount, error) {
	all := e.outcomes.waiting()
	prefix := ""
	if tenant != "" {
		prefix = tenant + "/"
	}
	for after := prefix; ; {
		docs, err := e.store.Docs(ctx, DocOutcomes, prefix, after, 200)
		if err != nil {
			return nil, fmt.Errorf("outcomes: %w", err)
		}
		if len(docs) == 0 {
			break
		}
		for _, d := range docs {
			after = d.Key
			var t tally
			if err := json.Unmarshal(d.Value, &t); err != nil {
				return nil, fmt.Errorf("outcomes %s: %w: %w", d.Key, haulier.ErrCorrupt, err)
			}
			of, queue, _ := strings.Cut(d.Key, "/")
			for typ, ends := range t {
				for outcome, n := range ends {
					all[ending{of, queue, typ, outcome}] += n
				}
			}
		}
	}
	out := make([]haulier.OutcomeCount, 0, len(all))
	for x, n := range all {
		if tenant == "" || x.tenant == tenant {
			out = append(out, haulier.OutcomeCount{Tenant: x.tenant, Queue: x.queue, Type: x.typ, Outcome: x.outcome, N: n})
		}
	}
	slices.SortFunc(out, func(a, b haulier.OutcomeCount) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Outcome, b.Outcome))
	})
	return out, nil
}
