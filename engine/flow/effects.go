package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/haulier/haulier"
)

// WorkOp is Work.Op.
const WorkOp = "flow"

// Work is the document of what remains to be done.
type Work struct {
	Op   string `json:"op"`
	Rest []Rest `json:"rest"`
}

// Rest is an effect that is still to be carried out, or a part of one.
type Rest struct {
	Do     string     `json:"do"`
	Job    haulier.ID `json:"job,omitzero"`
	Tenant string     `json:"tenant,omitempty"`
	Key    string     `json:"key,omitempty"`
	After  string     `json:"after,omitempty"` // where a list goes on
}

// What Rest.Do says.
const (
	doEnded   = "ended"   // Job has ended: tell those that need it
	doRevived = "revived" // Job runs again: so may those that its end cancelled
	doPromote = "promote" // Key may be free: call who waits there
)

// follows notes what a change of a job means for others.
func (t *Tx) follows(ctx context.Context, j *haulier.Job, before *haulier.Status) error {
	if held := heldBy(before); len(held) > 0 && len(heldBy(&j.Status)) == 0 {
		for _, key := range held {
			if err := t.release(ctx, j, key); err != nil {
				return err
			}
		}
	}
	if gate := gateOf(before); gate != "" && gateOf(&j.Status) != gate {
		if err := t.leave(ctx, j, gate); err != nil {
			return err
		}
	}
	ended, began := j.State.Terminal() && !before.State.Terminal(), !j.State.Terminal() && before.State.Terminal()
	if j.Standing != nil && j.Needed {
		switch {
		case ended && j.State != haulier.Collapsed:
			t.later(Rest{Do: doEnded, Job: j.ID})
		case began:
			t.later(Rest{Do: doRevived, Job: j.ID})
		}
	}
	if j.Flow == nil {
		return nil
	}
	if ended && j.State == haulier.Succeeded && j.Flow.Then != "" {
		return t.then(ctx, j)
	}
	if began {
		return t.again(ctx, j)
	}
	if j.Collapse != "" && before.State.Owned() && j.State.Waits() {
		return t.outrun(ctx, j)
	}
	return t.skip(ctx, j)
}

// skip ends a job without a task as soon as it is pending.
func (t *Tx) skip(ctx context.Context, j *haulier.Job) error {
	if j.State != haulier.Pending || j.Task.Kind() != haulier.KindNone {
		return nil
	}
	return t.change(ctx, j, haulier.Event{Kind: haulier.EventSkip, By: "server"})
}

func heldBy(s *haulier.Status) []string {
	if s.Standing == nil {
		return nil
	}
	return s.Held
}

func gateOf(s *haulier.Status) string {
	if s.Standing == nil {
		return ""
	}
	return s.Gate
}

// later notes an effect, unless it is to come anyway.
func (t *Tx) later(r Rest) {
	for i := range t.rest {
		if t.rest[i] == r {
			return
		}
	}
	t.rest = append(t.rest, r)
}

// effect carries out r as far as there is room, and returns what is left of it.
func (t *Tx) effect(ctx context.Context, r Rest) (*Rest, error) {
	switch r.Do {
	case doEnded, doRevived:
		return t.tell(ctx, r)
	case doPromote:
		return t.promote(ctx, r)
	}
	return nil, fmt.Errorf("flow: %w: no effect is called %q", haulier.ErrCorrupt, r.Do)
}

// Resume carries out a part of what a work document holds, as it was read with its revision, and puts
// the rest in its place. done: nothing is left.
func (t *Tx) Resume(ctx context.Context, d haulier.Doc, b *haulier.Batch) (done bool, err error) {
	var w Work
	if err := json.Unmarshal(d.Value, &w); err != nil || w.Op != WorkOp {
		return false, errors.Join(fmt.Errorf("work %s: %w: it is no work of flow", d.Key, haulier.ErrCorrupt), err)
	}
	t.rest = w.Rest
	if err := t.settle(ctx); err != nil {
		return false, err
	}
	w.Rest, t.rest = t.rest, nil
	if _, err := t.Flush(b); err != nil {
		return false, err
	}
	write := haulier.DocWrite{Kind: haulier.DocWork, Key: d.Key, Expect: d.Rev}
	if len(w.Rest) > 0 {
		if write.Value, err = json.Marshal(w); err != nil {
			return false, err
		}
	}
	b.Docs = append(b.Docs, write)
	return len(w.Rest) == 0, nil
}
