package flow

import (
	"context"
	"fmt"
	"strings"

	"github.com/haulier/haulier"
)

// edge is a document that says which job needs another, and under which condition. It goes when the
// condition is met. One whose parent has ended otherwise bars the child, which counts such
// edges in Standing.Barred: so whoever tells of a change may do so twice, or too late.
type edge struct {
	key    string
	child  haulier.ID
	on     haulier.Condition
	barred bool
}

// never is a condition that no end meets, as of who needs the success of one job and the failure of its replacement.
const never haulier.Condition = "never"

// barring follows the condition of an edge that bars its child.
const barring = "!"

func needKey(needed, job haulier.ID) string { return needed.String() + "/" + job.String() }

func parseEdge(d haulier.Doc) (edge, error) {
	_, child, _ := strings.Cut(d.Key, "/")
	id, err := haulier.ParseID(child)
	if err != nil {
		return edge{}, fmt.Errorf("need %s: %w: %w", d.Key, haulier.ErrCorrupt, err)
	}
	on, barred := strings.CutSuffix(string(d.Value), barring)
	return edge{d.Key, id, haulier.Condition(on), barred}, nil
}

func (t *Tx) putEdge(e edge) {
	value := string(e.on)
	if e.barred {
		value += barring
	}
	t.put(DocNeed, e.key, []byte(value))
}

// edges returns up to as many edges of a parent as there is room for, with their children read.
func (t *Tx) edges(ctx context.Context, parent haulier.ID, after string) ([]edge, error) {
	prefix := parent.String() + "/"
	docs, err := t.list(ctx, DocNeed, prefix, max(after, prefix), t.left)
	if err != nil {
		return nil, err
	}
	out := make([]edge, len(docs))
	ids := make([]haulier.ID, len(docs))
	for i, d := range docs {
		if out[i], err = parseEdge(d); err != nil {
			return nil, err
		}
		ids[i] = out[i].child
	}
	return out, t.fetch(ctx, ids)
}

// tell goes through those that need r.Job, which has ended, runs again or was removed.
func (t *Tx) tell(ctx context.Context, r Rest) (*Rest, error) {
	state := r.State
	if r.Do != doGone {
		parent, err := t.Job(ctx, r.Job)
		if err != nil || parent == nil || parent.State.Terminal() != (r.Do == doEnded) {
			return nil, err // it has changed since, which has effects of its own
		}
		state = parent.State
	}
	edges, err := t.edges(ctx, r.Job, r.After)
	if err != nil || len(edges) == 0 {
		return nil, err
	}
	if r.Do != doGone {
		if err := t.touch(ctx, &t.jobs[r.Job].job); err != nil {
			return nil, err
		}
	}
	full := len(edges) == t.left
	for _, e := range edges {
		t.left--
		child, err := t.Job(ctx, e.child)
		if err == nil && child != nil {
			err = t.judge(ctx, r.Job, state, child, e)
		}
		if err != nil {
			return nil, err
		}
		if child == nil || r.Do == doGone {
			t.put(DocNeed, e.key, nil)
		}
		r.After = e.key
	}
	if full {
		return &r, nil
	}
	return nil, nil
}

// judge brings a job into line with the state of one that it needs.
func (t *Tx) judge(ctx context.Context, parent haulier.ID, state haulier.State, child *haulier.Job, e edge) error {
	met, by := state.Terminal() && e.on != never && e.on.Met(state), "job "+parent.String()
	switch {
	case met:
		t.put(DocNeed, e.key, nil)
	case state.Terminal() && e.barred, !state.Terminal() && !e.barred:
		return nil
	case state.Terminal():
		if !child.State.Waits() && child.State != haulier.Cancelled {
			return nil // it was replaced
		}
		e.barred = true
		t.putEdge(e)
		return t.change(ctx, child, barredBy(parent, state))
	default:
		t.putEdge(edge{e.key, e.child, e.on, false})
	}
	if e.barred {
		if err := t.unbar(ctx, child, by); err != nil {
			return err
		}
	}
	if met {
		if err := t.serve(ctx, child, by); err != nil {
			return err
		}
	}
	return t.revive(ctx, child, by)
}

func barredBy(parent haulier.ID, state haulier.State) haulier.Event {
	return haulier.Event{
		Kind: haulier.EventBarred, Other: parent, By: "server",
		Error: fmt.Sprintf("it needs job %v, which has %v", parent, state),
	}
}

// unbar takes one from the needs that bar a job.
func (t *Tx) unbar(ctx context.Context, child *haulier.Job, by string) error {
	if child.State != haulier.Cancelled || child.Standing == nil || child.Barred == 0 {
		return nil
	}
	return t.change(ctx, child, haulier.Event{Kind: haulier.EventUnbarred, By: by})
}

// serve takes one from the needs of a job that are left.
func (t *Tx) serve(ctx context.Context, child *haulier.Job, by string) error {
	if child.State != haulier.Blocked && child.State != haulier.Cancelled || child.Standing == nil || child.NeedsLeft == 0 {
		return nil // it was replaced
	}
	return t.change(ctx, child, haulier.Event{Kind: haulier.EventServed, N: 1, By: by})
}

// revive brings a job back that was cancelled for the sake of those that it needs, when none of them bars it any more.
func (t *Tx) revive(ctx context.Context, child *haulier.Job, by string) error {
	if child.State != haulier.Cancelled || child.Standing == nil || child.Cause.IsNil() || child.Barred > 0 {
		return nil
	}
	if child.Flow != nil && child.Unique != nil {
		if other, _, err := t.taken(ctx, child); err != nil || other != nil {
			return err
		}
	}
	if err := t.change(ctx, child, haulier.Event{Kind: haulier.EventRevive, By: by}); err != nil || child.Flow == nil {
		return err
	}
	return t.retake(ctx, child)
}

// tie is a job that a new one needs, and how it must end.
type tie struct {
	parent *haulier.Job
	on     haulier.Condition
}

// need ties a new job to those that it needs, and sets how many are still to come.
func (t *Tx) need(ctx context.Context, j *haulier.Job, needs []haulier.Need) error {
	ties, err := t.ties(ctx, j, needs)
	if err != nil {
		return err
	}
	left := 0
	var barred []*haulier.Job
	for _, x := range ties {
		ended := x.parent.State.Terminal()
		if ended && x.on != never && x.on.Met(x.parent.State) {
			continue
		}
		left++
		if ended {
			barred = append(barred, x.parent)
		}
		t.putEdge(edge{needKey(x.parent.ID, j.ID), j.ID, x.on, ended})
		if err := t.needed(ctx, x.parent); err != nil {
			return err
		}
	}
	return t.begin(ctx, j, left, barred)
}

// ties finds the jobs that needs speak of, or those that replaced them, each once.
func (t *Tx) ties(ctx context.Context, j *haulier.Job, needs []haulier.Need) ([]tie, error) {
	var ids []haulier.ID
	named := make(map[haulier.ID]bool, len(needs))
	for i := range needs {
		if named[needs[i].Job] {
			return nil, field(fmt.Sprintf("needs[%d]", i), "names a job for the second time")
		}
		named[needs[i].Job] = true
		ids = append(ids, needs[i].Job)
	}
	if err := t.fetch(ctx, ids); err != nil {
		return nil, err
	}
	out := make([]tie, 0, len(needs))
	at := make(map[haulier.ID]int, len(needs))
	for i := range needs {
		parent, err := t.survivor(ctx, needs[i].Job)
		if err != nil {
			return nil, err
		}
		if parent == nil || parent.Tenant != j.Tenant {
			return nil, field(fmt.Sprintf("needs[%d]", i), fmt.Sprintf("job %v does not exist: it may have been removed already", needs[i].Job))
		}
		needs[i].Job = parent.ID
		on := needs[i].On
		if on == "" {
			on = haulier.OnSucceeded
		}
		if k, ok := at[parent.ID]; ok { // it replaced another of the needed jobs
			out[k].on = both(out[k].on, on)
			continue
		}
		at[parent.ID] = len(out)
		out = append(out, tie{parent, on})
	}
	return out, nil
}

// both is the condition that asks for two.
func both(a, b haulier.Condition) haulier.Condition {
	switch {
	case a == haulier.OnFinished || a == b:
		return b
	case b == haulier.OnFinished:
		return a
	}
	return never
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
func (t *Tx) begin(ctx context.Context, j *haulier.Job, left int, barred []*haulier.Job) error {
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
	for _, p := range barred {
		if err := t.change(ctx, &e.job, barredBy(p.ID, p.State)); err != nil {
			return err
		}
	}
	return t.skip(ctx, &e.job)
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
	ids := make([]haulier.ID, len(j.Needs))
	for i := range j.Needs {
		ids[i] = j.Needs[i].Job
	}
	if err := t.fetch(ctx, ids); err != nil {
		return nil, err
	}
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
		if p.Files != nil && p.OutputVersion > 0 {
			r.Output = haulier.FilesetRef(p.Outputs.Fileset, p.OutputVersion)
		}
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
