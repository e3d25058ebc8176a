package flow

import (
	"context"
	"fmt"
	"strings"

	"github.com/haulier/haulier"
)

func needKey(needed, job haulier.ID) string { return needed.String() + "/" + job.String() }

// tell goes through those that need r.Job, which has ended or runs again.
func (t *Tx) tell(ctx context.Context, r Rest) (*Rest, error) {
	parent, err := t.Job(ctx, r.Job)
	if err != nil || parent == nil {
		return nil, err
	}
	if parent.State.Terminal() != (r.Do == doEnded) {
		return nil, nil // it has changed since, which has effects of its own
	}
	prefix := r.Job.String() + "/"
	if r.After == "" {
		r.After = prefix
	}
	edges, err := t.list(ctx, DocNeed, prefix, r.After, t.left)
	if err != nil {
		return nil, err
	}
	full := len(edges) == t.left
	for _, edge := range edges {
		t.left--
		id, err := haulier.ParseID(strings.TrimPrefix(edge.Key, prefix))
		if err != nil {
			return nil, fmt.Errorf("need %s: %w: %w", edge.Key, haulier.ErrCorrupt, err)
		}
		child, err := t.Job(ctx, id)
		if err != nil {
			return nil, err
		}
		switch {
		case child == nil:
			t.put(DocNeed, edge.Key, nil)
		case r.Do == doEnded:
			err = t.served(ctx, parent, child, edge)
		default:
			err = t.revive(ctx, parent, child)
		}
		if err != nil {
			return nil, err
		}
		r.After = edge.Key
	}
	if full {
		return &r, nil
	}
	return nil, nil
}

// served tells a job that one it needs has ended.
func (t *Tx) served(ctx context.Context, parent, child *haulier.Job, edge haulier.Doc) error {
	if string(edge.Value) != never && haulier.Condition(edge.Value).Met(parent.State) {
		t.put(DocNeed, edge.Key, nil)
		if child.State != haulier.Blocked && child.State != haulier.Cancelled || child.Standing == nil || child.NeedsLeft == 0 {
			return nil // it has been replaced
		}
		return t.change(ctx, child, haulier.Event{Kind: haulier.EventServed, N: 1, By: "job " + parent.ID.String()})
	}
	if !child.State.Waits() {
		return nil
	}
	return t.change(ctx, child, haulier.Event{
		Kind: haulier.EventBarred, Other: parent.ID, By: "server",
		Error: fmt.Sprintf("it needs job %v, which has %v", parent.ID, parent.State),
	})
}

// revive brings a job back that was cancelled for the sake of the parent, unless another one bars it.
func (t *Tx) revive(ctx context.Context, parent, child *haulier.Job) error {
	if child.State != haulier.Cancelled || child.Standing == nil || child.Cause.IsNil() || child.Flow == nil {
		return nil
	}
	if other, err := t.barredBy(ctx, child, parent.ID); err != nil || other != nil {
		return err
	}
	if child.Unique != nil {
		if other, _, err := t.taken(ctx, child); err != nil || other != nil {
			return err
		}
	}
	return t.change(ctx, child, haulier.Event{Kind: haulier.EventRevive, By: "job " + parent.ID.String()})
}

// barredBy is a job other than the given one that j needs and that has ended otherwise for good; nil: there is none.
func (t *Tx) barredBy(ctx context.Context, j *haulier.Job, but haulier.ID) (*haulier.Job, error) {
	for i := range j.Needs {
		n := &j.Needs[i]
		other, err := t.survivor(ctx, n.Job)
		if err != nil {
			return nil, err
		}
		if other != nil && other.ID != but && other.State.Terminal() && !n.On.Met(other.State) {
			return other, nil
		}
	}
	return nil, nil
}

// need ties a new job to those that it needs, and sets how many are still to come.
func (t *Tx) need(ctx context.Context, j *haulier.Job, needs []haulier.Need) error {
	left, barred := 0, (*haulier.Job)(nil)
	for i := range needs {
		parent, err := t.survivor(ctx, needs[i].Job)
		if err != nil {
			return err
		}
		if parent == nil {
			return field(fmt.Sprintf("needs[%d]", i), fmt.Sprintf("job %v does not exist: it may have been removed already", needs[i].Job))
		}
		if parent.Tenant != j.Tenant {
			return field(fmt.Sprintf("needs[%d]", i), fmt.Sprintf("job %v does not exist", needs[i].Job))
		}
		if needs[i].Job != parent.ID {
			needs[i].Job = parent.ID
		}
		if parent.State.Terminal() && needs[i].On.Met(parent.State) {
			continue
		}
		if parent.State.Terminal() {
			barred = parent
		}
		left++
		key := needKey(parent.ID, j.ID)
		if _, ok := t.docs[docName{DocNeed, key}]; ok {
			return field(fmt.Sprintf("needs[%d]", i), "names a job for the second time")
		}
		on := needs[i].On
		if on == "" {
			on = haulier.OnSucceeded
		}
		t.put(DocNeed, key, []byte(on))
		if err := t.needed(ctx, parent); err != nil {
			return err
		}
	}
	return t.begin(ctx, j, left, barred)
}

// needed marks a job as one that others need, so that its end tells them. It is
// written also when it has the mark already: it must not end unnoticed meanwhile.
func (t *Tx) needed(ctx context.Context, parent *haulier.Job) error {
	e := t.jobs[parent.ID]
	switch {
	case e.rev == 0 && e.job.Standing == nil:
		e.job.Standing = &haulier.Standing{Needed: true}
		return nil
	case e.set && e.job.Standing != nil && e.job.Needed:
		return nil
	}
	return t.change(ctx, parent, haulier.Event{Kind: haulier.EventNeeded})
}

// begin sets the first status of a job by how many of its needs are left.
func (t *Tx) begin(ctx context.Context, j *haulier.Job, left int, barred *haulier.Job) error {
	e := t.jobs[j.ID]
	s := e.job.Spec
	w := *s.Flow
	w.Needs = w.Needs[:left]
	s.Flow = &w
	st := s.First(t.now, e.job.History[0].By)
	if e.job.Standing != nil && e.job.Needed {
		v := haulier.Standing{NeedsLeft: left, Needed: true}
		st.Standing = &v
	}
	e.job.Status = st
	if barred == nil {
		return t.skip(ctx, &e.job)
	}
	return t.change(ctx, &e.job, haulier.Event{
		Kind: haulier.EventBarred, Other: barred.ID, By: "server",
		Error: fmt.Sprintf("it needs job %v, which has %v", barred.ID, barred.State),
	})
}

// survivor is the job, or the newest of those that replaced it.
func (t *Tx) survivor(ctx context.Context, id haulier.ID) (*haulier.Job, error) {
	for range maxCollapses {
		j, err := t.Job(ctx, id)
		if err != nil || j == nil || j.State != haulier.Collapsed || j.Standing == nil {
			return j, err
		}
		id = j.Survivor
	}
	return nil, nil
}

// maxCollapses bounds how many replacements of replacements are followed.
const maxCollapses = 1000

func field(name, msg string) error { return &haulier.FieldError{Field: name, Msg: msg} }

// Results are those of the jobs that j needs, in the order of its needs.
func Results(ctx context.Context, store haulier.Store, j *haulier.Job) ([]haulier.NeedResult, error) {
	t := Begin(store, j.CreatedAt)
	out := make([]haulier.NeedResult, 0, len(j.Needs))
	room := haulier.MaxNeedResults
	for i := range j.Needs {
		n := &j.Needs[i]
		p, err := t.survivor(ctx, n.Job)
		if err != nil {
			return nil, err
		}
		if p == nil {
			continue // it was removed meanwhile
		}
		r := haulier.NeedResult{Ref: n.Ref, Job: p.ID, State: p.State}
		if r.Ref == "" && p.Flow != nil {
			r.Ref = p.Flow.Ref
		}
		if room -= len(p.Result); room >= 0 {
			r.Result = p.Result
		}
		out = append(out, r)
	}
	return out, nil
}
