package flow

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/haulier/haulier"
)

// line is the document of a collapse key: the newest job, and older ones that may still wait: those
// that it could not replace since it waits for them, and those that ran when it came.
type line struct {
	Job   haulier.ID   `json:"job"`
	Older []haulier.ID `json:"older,omitempty"`
}

// maxOlder bounds line.Older.
const maxOlder = 100

// newest is what stands at j's collapse key.
func (t *Tx) newest(ctx context.Context, j *haulier.Job) (v line, err error) {
	name := lockKey(j.Tenant, j.Collapse)
	b, err := t.get(ctx, DocCollapse, name)
	if err != nil {
		return v, err
	}
	return v, decode(DocCollapse, name, b, &v)
}

// collapse makes j the newest of its key, and lets it replace those before that still wait.
func (t *Tx) collapse(ctx context.Context, j *haulier.Job) error {
	v, err := t.newest(ctx, j)
	if err != nil {
		return err
	}
	now := line{Job: j.ID}
	for _, id := range append(v.Older, v.Job) {
		if id.IsNil() || id == j.ID {
			continue
		}
		old, err := t.Job(ctx, id)
		if err != nil {
			return err
		}
		if old == nil || old.State.Terminal() {
			continue
		}
		if old.State.Waits() {
			if err := t.replace(ctx, old, j); err != nil {
				return err
			}
		}
		if !t.jobs[id].job.State.Terminal() && len(now.Older) < maxOlder {
			now.Older = append(now.Older, id)
		}
	}
	t.put(DocCollapse, lockKey(j.Tenant, j.Collapse), encode(now))
	return nil
}

// outrun sees to a job that waits again. When a newer one of its collapse key waits, runs or has succeeded, that
// replaces it; when there is none, it replaces the others. The key's document is written in
// any case: a newer job must not come meanwhile without seeing this one wait.
func (t *Tx) outrun(ctx context.Context, j *haulier.Job) error {
	v, err := t.newest(ctx, j)
	if err != nil {
		return err
	}
	newest, err := t.survivor(ctx, v.Job)
	if err != nil {
		return err
	}
	if !newer(newest, j) {
		return t.collapse(ctx, j)
	}
	rivals, err := t.rivals(ctx, v, j)
	if err != nil {
		return err
	}
	for _, r := range rivals {
		if err := t.replace(ctx, j, r); err != nil {
			return err
		}
		if !j.State.Waits() {
			break
		}
	}
	if j.State.Waits() && !slices.Contains(v.Older, j.ID) && len(v.Older) < maxOlder {
		v.Older = append(v.Older, j.ID)
	}
	t.put(DocCollapse, lockKey(j.Tenant, j.Collapse), encode(v))
	return nil
}

// newer reports whether there is a job a that came after b.
func newer(a, b *haulier.Job) bool { return a != nil && bytes.Compare(a.ID[:], b.ID[:]) > 0 }

// rivals are the jobs in a line that came after j and make it superfluous, the newest first.
func (t *Tx) rivals(ctx context.Context, v line, j *haulier.Job) ([]*haulier.Job, error) {
	var out []*haulier.Job
	for i, id := range append([]haulier.ID{v.Job}, v.Older...) {
		r, err := t.survivor(ctx, id)
		if err != nil {
			return nil, err
		}
		if newer(r, j) && (!r.State.Terminal() || i == 0 && r.State == haulier.Succeeded) && !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *haulier.Job) int { return bytes.Compare(b.ID[:], a.ID[:]) })
	return out, nil
}

// replace ends a job in favour of a newer one, which takes over those that need it; not
// so when the newer one waits for the older: then both have to run.
func (t *Tx) replace(ctx context.Context, old, by *haulier.Job) error {
	if waits, err := t.waitsFor(ctx, by, old); err != nil || waits {
		return err
	}
	if old.Standing != nil && old.Needed {
		if err := t.needed(ctx, by); err != nil {
			return err
		}
		t.later(Rest{Do: doInherit, Job: old.ID, Other: by.ID})
	}
	return t.change(ctx, old, haulier.Event{Kind: haulier.EventCollapse, Other: by.ID, By: "server"})
}

// Supersede ends a job that waits in favour of another that does not wait for it, which takes over those that need it, as
// far as they are not superseded themselves.
func (t *Tx) Supersede(ctx context.Context, old, by *haulier.Job) error {
	old, by = t.Adopt(old), t.Adopt(by)
	if old.Standing != nil && old.Needed {
		if err := t.needed(ctx, by); err != nil {
			return err
		}
		t.later(Rest{Do: doInherit, Job: old.ID, Other: by.ID})
	}
	return t.change(ctx, old, haulier.Event{Kind: haulier.EventCollapse, Other: by.ID, By: "server"})
}

// maxWalk bounds the jobs that waitsFor looks at; in a larger tangle nothing is replaced.
const maxWalk = 1000

// waitsFor reports whether j needs the other job, be it by way of others.
func (t *Tx) waitsFor(ctx context.Context, j, other *haulier.Job) (bool, error) {
	if j.State.Terminal() || j.Flow == nil || other.Standing == nil || !other.Needed {
		return false, nil
	}
	seen := map[haulier.ID]bool{j.ID: true}
	for todo := []*haulier.Job{j}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if at.Flow == nil || at.State.Terminal() || at.Standing == nil || at.NeedsLeft == 0 {
			continue
		}
		if len(at.Needs) == keptNeeds {
			return true, nil // it may have more needs than it says
		}
		for i := range at.Needs {
			p, open, err := t.awaited(ctx, at, at.Needs[i].Job)
			switch {
			case err != nil:
				return false, err
			case !open || seen[p.ID]:
				continue
			case p.ID == other.ID || len(seen) == maxWalk:
				return true, nil
			}
			seen[p.ID] = true
			todo = append(todo, p)
		}
	}
	return false, nil
}

// awaited is the job that j needs by an id, or what replaced it, and whether j still waits for it.
func (t *Tx) awaited(ctx context.Context, j *haulier.Job, id haulier.ID) (p *haulier.Job, open bool, err error) {
	for range maxCollapses {
		if p, err = t.Job(ctx, id); err != nil || p == nil {
			return nil, false, err
		}
		e, err := t.get(ctx, DocNeed, needKey(id, j.ID)) // perhaps it is still to be moved to what replaced the job
		if err != nil {
			return nil, false, err
		}
		open = open || e != nil
		if p.State != haulier.Collapsed || p.Standing == nil {
			return p, open, nil
		}
		id = p.Survivor
	}
	return nil, false, nil
}

// inherit moves those that need r.Job, which was replaced, to the job that came in its place.
func (t *Tx) inherit(ctx context.Context, r Rest) (*Rest, error) {
	edges, err := t.edges(ctx, r.Job, r.After)
	if err != nil || len(edges) == 0 {
		return nil, err
	}
	by, err := t.survivor(ctx, r.Other)
	if err != nil {
		return nil, err
	}
	if by != nil {
		if err := t.touch(ctx, by); err != nil {
			return nil, err
		}
	}
	full := len(edges) == t.left
	for _, e := range edges {
		t.left--
		child, err := t.Job(ctx, e.child)
		switch {
		case err != nil:
		case child == nil, child.State == haulier.Collapsed:
		case by == nil: // removed since: nobody knows any more how it ended
			err = t.judge(ctx, r.Other, haulier.Cancelled, child, e)
		default:
			err = t.move(ctx, by, child, e)
		}
		if err != nil {
			return nil, err
		}
		t.put(DocNeed, e.key, nil)
		r.After = e.key
	}
	if full {
		return &r, nil
	}
	return nil, nil
}

// move makes a job need by in the place of another, unless it does already: then one of its needs falls away.
func (t *Tx) move(ctx context.Context, by, child *haulier.Job, old edge) error {
	e := edge{needKey(by.ID, child.ID), child.ID, old.on, old.barred}
	v, err := t.get(ctx, DocNeed, e.key)
	if err != nil {
		return err
	}
	if v != nil {
		have, err := parseEdge(haulier.Doc{Key: e.key, Value: v})
		if err != nil {
			return err
		}
		if e.barred && have.barred {
			if err := t.unbar(ctx, child, "server"); err != nil {
				return err
			}
		}
		e.on, e.barred = both(e.on, have.on), e.barred || have.barred
		if err := t.serve(ctx, child, "server"); err != nil {
			return err
		}
	}
	t.putEdge(e)
	return t.judge(ctx, by.ID, by.State, child, e)
}

// newerWaits is the newest job of j's collapse key that came after it and waits, nil when there is none.
func (t *Tx) newerWaits(ctx context.Context, j *haulier.Job) (*haulier.Job, error) {
	v, err := t.newest(ctx, j)
	if err != nil {
		return nil, err
	}
	rivals, err := t.rivals(ctx, v, j)
	if i := slices.IndexFunc(rivals, func(r *haulier.Job) bool { return r.State.Waits() }); i >= 0 {
		return rivals[i], err
	}
	return nil, err
}

// mayRun is ErrConflict when a job that has ended may not run again by hand.
func (t *Tx) mayRun(ctx context.Context, j *haulier.Job) error {
	if j.Standing != nil && j.Barred > 0 {
		return fmt.Errorf("job %v: %w: %s: run that one again, and this one comes back", j.ID, haulier.ErrConflict, t.bar(ctx, j))
	}
	if j.Flow == nil {
		return nil
	}
	if j.Unique != nil {
		other, _, err := t.taken(ctx, j)
		if err != nil {
			return err
		}
		if other != nil {
			return fmt.Errorf("job %v: %w: job %v has its unique key by now", j.ID, haulier.ErrConflict, other.ID)
		}
	}
	if j.Collapse != "" {
		newer, err := t.newerWaits(ctx, j)
		if err != nil {
			return err
		}
		if newer != nil {
			return fmt.Errorf("job %v: %w: job %v, a newer one of its collapse key, waits to run in its place", j.ID, haulier.ErrConflict, newer.ID)
		}
	}
	return nil
}

// bar says which job it is for whose sake j can't run.
func (t *Tx) bar(ctx context.Context, j *haulier.Job) string {
	if j.Cause.IsNil() {
		return fmt.Sprintf("%d of the jobs that it needs have ended otherwise", j.Barred)
	}
	if p, err := t.Job(ctx, j.Cause); err == nil && p == nil {
		return fmt.Sprintf("it needs job %v, which has been removed", j.Cause)
	}
	return fmt.Sprintf("it needs job %v, which has ended otherwise", j.Cause)
}

// retake takes back what an ended job that runs again had given up.
func (t *Tx) retake(ctx context.Context, j *haulier.Job) error {
	if j.Unique != nil {
		other, name, err := t.taken(ctx, j)
		if err != nil {
			return err
		}
		if other == nil {
			t.put(DocUnique, name, encode(kept{j.ID}))
		}
	}
	if j.Collapse != "" && j.State.Waits() {
		return t.outrun(ctx, j)
	}
	return nil
}
