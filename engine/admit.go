package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/engine/flow"
)

// admit sends those of the claimed jobs back to wait that may not start yet, and
// returns the others. A job of which the worker never hears is taken back like one whose claim was lost on the way.
func (e *Engine) admit(ctx context.Context, jobs []haulier.Job) ([]haulier.Job, error) {
	if !e.limits.any() && !e.windows.any() && !gated(jobs) {
		return jobs, nil
	}
	// One at a time: claims that meet at a key would only make each other start over.
	e.admitting.Lock()
	defer e.admitting.Unlock()
	for range tiedTries {
		now, err := e.now(ctx)
		if err != nil {
			return nil, err
		}
		t := flow.Begin(e.store, now)
		out, err := t.Admit(ctx, jobs, e.limits.of, e.windows.frozen)
		if err != nil {
			return nil, err
		}
		var b haulier.Batch
		work, err := t.Flush(ctx, &b)
		if err != nil {
			return nil, err
		}
		if len(b.Update)+len(b.Docs) == 0 {
			return out, nil
		}
		err = e.commit(ctx, &b, work)
		if !errors.Is(err, haulier.ErrConflict) {
			return out, err
		}
		if jobs, err = e.fresh(ctx, jobs); err != nil {
			return nil, err
		}
	}
	_, err := e.applyEach(ctx, pointers(jobs), func(j *haulier.Job) haulier.Event {
		return haulier.Event{Kind: haulier.EventRelease, Session: j.Session, Attempt: j.Attempt, By: "server", Error: "its keys kept changing hands"}
	}, false)
	return nil, errors.Join(err, fmt.Errorf("%w: the keys of what was claimed kept changing hands; try again", haulier.ErrUnavailable))
}

// fresh reads the jobs again, and leaves out those that are not the session's any more.
func (e *Engine) fresh(ctx context.Context, jobs []haulier.Job) ([]haulier.Job, error) {
	ids := make([]haulier.ID, len(jobs))
	for i := range jobs {
		ids[i] = jobs[i].ID
	}
	now, err := e.store.Jobs(ctx, ids)
	if err != nil {
		return nil, err
	}
	out := jobs[:0:0]
	for i, j := range now {
		if j != nil && j.State == haulier.Claimed && j.Session == jobs[i].Session && j.Attempt == jobs[i].Attempt {
			out = append(out, *j)
		}
	}
	return out, nil
}

func gated(jobs []haulier.Job) bool {
	for i := range jobs {
		if jobs[i].Flow.Gated() || jobs[i].Standing != nil && jobs[i].Gate != "" {
			return true
		}
	}
	return false
}

// bringResults gives claimed jobs the results of those that they need.
func (e *Engine) bringResults(ctx context.Context, jobs []haulier.Job) error {
	for i := range jobs {
		if j := &jobs[i]; j.Flow != nil && len(j.Needs) > 0 {
			var err error
			if j.Results, err = flow.Results(ctx, e.store, j); err != nil {
				return fmt.Errorf("claim: results of needed jobs: %w", err)
			}
			if len(j.Payload) == 0 && j.Blob == "" {
				j.Payload = payloadOf(j.Results)
			}
		}
	}
	return nil
}

// payloadOf is the payload of a job that has none of its own but needs others: an object with their results, by
// the refs of those that have one. Results that are not JSON are strings.
func payloadOf(results []haulier.NeedResult) []byte {
	all := map[string]json.RawMessage{}
	for i := range results {
		r := &results[i]
		if r.Ref == "" || len(r.Result) == 0 {
			continue
		}
		v := json.RawMessage(r.Result)
		if !json.Valid(v) {
			text, err := json.Marshal(string(v))
			if err != nil {
				continue // a string always can be
			}
			v = text
		}
		all[r.Ref] = v
	}
	if len(all) == 0 {
		return nil
	}
	b, err := json.Marshal(all)
	if err != nil {
		return nil // valid JSON always can be
	}
	return b
}

func pointers(jobs []haulier.Job) []*haulier.Job {
	out := make([]*haulier.Job, len(jobs))
	for i := range jobs {
		out[i] = &jobs[i]
	}
	return out
}
