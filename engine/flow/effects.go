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

// maxRest bounds the effects of one work document.
const maxRest = 200

// Rest is an effect that is still to be carried out, or a part of one.
type Rest struct {
	Do     string        `json:"do"`
	Job    haulier.ID    `json:"job,omitzero"`
	Other  haulier.ID    `json:"other,omitzero"`  // of inherit
	State  haulier.State `json:"state,omitempty"` // of gone
	Tenant string        `json:"tenant,omitempty"`
	Key    string        `json:"key,omitempty"`
	After  string        `json:"after,omitempty"` // where a list goes on
}

// What Rest.Do says.
const (
	doEnded   = "ended"   // Job has ended: tell those that need it
	doRevived = "revived" // Job runs again: so may those that its end cancelled
	doGone    = "gone"    // Job, which had ended in State, was removed: nothing of it must stay, nor wait for it
	doInherit = "inherit" // Job was replaced by Other, which takes over those that need it
	doPromote = "promote" // Key may be free: call who waits there
)

// follows notes what a change of a job means for others.
func (t *Tx) follows(ctx context.Context, j *haulier.Job, before *haulier.Status) error {
	if err := t.keys(ctx, j, before); err != nil {
		return err
	}
	if err := t.thaw(ctx, j, before); err != nil {
		return err
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
	if j.Flow != nil && ended && len(j.Notify) > 0 {
		t.notify(j)
	}
	switch {
	case j.Flow == nil:
		return nil
	case ended && j.State == haulier.Succeeded:
		if err := t.memorize(ctx, j); err != nil {
			return err
		}
		if j.Flow.Then != "" {
			t.then(j)
		}
		if j.Flow.Signal != "" {
			t.Signal(Signal{Tenant: j.Tenant, Event: j.Flow.Signal, Payload: j.Result, Cause: "job " + j.ID.String()})
		}
		return nil
	case j.Collapse != "" && before.State.Owned() && j.State.Waits():
		return t.outrun(ctx, j)
	}
	return t.skip(ctx, j)
}

// keys gives back what a job held, and its place in a line, when it has changed so that they are not its own any more.
func (t *Tx) keys(ctx context.Context, j *haulier.Job, before *haulier.Status) error {
	if held := heldBy(before); len(held) > 0 && len(heldBy(&j.Status)) == 0 {
		for _, key := range held {
			if err := t.release(ctx, j, key); err != nil {
				return err
			}
		}
	}
	gate := gateOf(before)
	switch {
	case gate != "" && gateOf(&j.Status) != gate:
		return t.leave(ctx, j, gate)
	case gate != "" && before.State != haulier.Pending && j.State == haulier.Pending && j.CalledAt.IsZero():
		return t.woken(ctx, j, gate)
	case before.State.Waits() && j.State.Owned(): // after a power cut, its worker said that it runs
		return t.keep(ctx, j)
	}
	return nil
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
	if !t.coming[r] {
		t.coming[r] = true
		t.rest = append(t.rest, r)
	}
}

// settle carries out effects until none is left or the commit is full. What an effect brings comes first, then
// the rest of it, then the others: so what is noted stays short however many jobs are tied together.
func (t *Tx) settle(ctx context.Context) error {
	for len(t.rest) > 0 && t.left > 0 {
		r := t.rest[0]
		others := t.rest[1:]
		t.rest = nil
		delete(t.coming, r)
		more, err := t.effect(ctx, r)
		if err != nil {
			return err
		}
		if more != nil {
			t.later(*more)
		}
		t.rest = append(t.rest, others...)
	}
	return nil
}

// effect carries out r as far as there is room, and returns what is left of it.
func (t *Tx) effect(ctx context.Context, r Rest) (*Rest, error) {
	switch r.Do {
	case doEnded, doRevived, doGone:
		return t.tell(ctx, r)
	case doInherit:
		return t.inherit(ctx, r)
	case doPromote:
		return t.promote(ctx, r)
	}
	return nil, fmt.Errorf("flow: %w: no effect is called %q", haulier.ErrCorrupt, r.Do)
}

// noteRest writes down effects that are still to come, and returns the keys of their documents.
func (t *Tx) noteRest(rest []Rest) []string {
	var work []string
	for len(rest) > 0 {
		n := min(len(rest), maxRest)
		key := haulier.NewID(t.now).String()
		t.put(haulier.DocWork, key, encode(Work{Op: WorkOp, Rest: rest[:n]}))
		work = append(work, key)
		rest = rest[n:]
	}
	return work
}

// Resume carries out a part of what a work document holds, as it was read with its revision, and puts
// the rest in its place, and into further documents, whose keys it returns. done: nothing is left of this one.
func (t *Tx) Resume(ctx context.Context, d haulier.Doc, b *haulier.Batch) (done bool, work []string, err error) {
	var w Work
	if err := json.Unmarshal(d.Value, &w); err != nil || w.Op != WorkOp {
		return false, nil, errors.Join(fmt.Errorf("work %s: %w: it is no work of flow", d.Key, haulier.ErrCorrupt), err)
	}
	for _, r := range w.Rest {
		t.later(r)
	}
	if err := t.settle(ctx); err != nil {
		return false, nil, err
	}
	t.docs[docName{haulier.DocWork, d.Key}] = &doc{value: d.Value, rev: d.Rev}
	n := min(len(t.rest), maxRest)
	var left []byte
	if n > 0 {
		left = encode(Work{Op: WorkOp, Rest: t.rest[:n]})
	}
	t.put(haulier.DocWork, d.Key, left)
	work = append(t.noteRest(t.rest[n:]), t.signals...)
	t.write(b)
	return n == 0, work, nil
}
