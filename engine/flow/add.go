package flow

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/haulier/haulier"
)

// keptNeeds is how many of its needs a job's spec keeps, to be shown; all of them are documents.
const keptNeeds = 200

// Add adds new jobs, whose status is that of Spec.First, with what their flow asks for. It
// returns the id that answers each: its own, or that of a job that was there before. When it fails, nothing has changed.
func (t *Tx) Add(ctx context.Context, jobs []haulier.Job) (ids []haulier.ID, err error) {
	err = t.try(func() error {
		ids, err = t.add(ctx, jobs)
		return err
	})
	return ids, err
}

func (t *Tx) add(ctx context.Context, jobs []haulier.Job) ([]haulier.ID, error) {
	ids := make([]haulier.ID, len(jobs))
	refs, err := t.refs(jobs)
	if err != nil {
		return nil, err
	}
	added := make([]bool, len(jobs))
	for i := range jobs {
		if ids[i], added[i], err = t.addOne(ctx, jobs[i]); err != nil {
			return nil, inJob(i, err)
		}
	}
	for i := range jobs {
		if !added[i] || jobs[i].Flow == nil || len(jobs[i].Needs) == 0 {
			continue
		}
		j := t.jobs[ids[i]]
		if j.job.State.Terminal() {
			continue // replaced by a later one of the request
		}
		w := *j.job.Flow
		needs := slices.Clone(w.Needs)
		for k := range needs {
			if needs[k].Ref != "" {
				needs[k].Job = ids[refs[needs[k].Ref]]
			}
		}
		w.Needs = needs
		j.job.Flow = &w
		if err := t.need(ctx, &j.job, needs); err != nil {
			return nil, inJob(i, err)
		}
		w.Needs = needs[:min(len(needs), keptNeeds)]
	}
	for i := range jobs {
		if added[i] && jobs[i].Flow != nil && !jobs[i].Flow.Batch.IsNil() {
			if err := t.join(ctx, &t.jobs[ids[i]].job); err != nil {
				return nil, inJob(i, err)
			}
		}
	}
	for i := range jobs {
		j := t.jobs[ids[i]]
		if !added[i] || j.job.Flow == nil || j.job.Collapse == "" || j.job.State == haulier.Cancelled {
			continue // one that can't run replaces nobody
		}
		if err := t.collapse(ctx, &j.job); err != nil {
			return nil, inJob(i, err)
		}
	}
	return ids, nil
}

// refs finds the jobs that the needs speak of, and refuses circles.
func (t *Tx) refs(jobs []haulier.Job) (map[string]int, error) {
	at := map[string]int{}
	for i := range jobs {
		if jobs[i].Flow == nil || jobs[i].Ref == "" {
			continue
		}
		if _, ok := at[jobs[i].Ref]; ok {
			return nil, inJob(i, field("ref", fmt.Sprintf("%q is the name of two jobs of the request", jobs[i].Ref)))
		}
		at[jobs[i].Ref] = i
	}
	left := make([]int, len(jobs))       // needs within the request
	children := make([][]int, len(jobs)) // who needs it
	for i := range jobs {
		if jobs[i].Flow == nil {
			continue
		}
		for k := range jobs[i].Needs {
			n := &jobs[i].Needs[k]
			if n.Ref == "" {
				continue
			}
			p, ok := at[n.Ref]
			if !ok {
				return nil, inJob(i, field(fmt.Sprintf("needs[%d].ref", k), fmt.Sprintf("%q names no job of the request", n.Ref)))
			}
			left[i]++
			children[p] = append(children[p], i)
		}
	}
	return at, circle(jobs, left, children)
}

// circle is an error when the jobs can't be put into an order in which each comes after what it needs.
func circle(jobs []haulier.Job, left []int, children [][]int) error {
	var ready []int
	for i, n := range left {
		if n == 0 {
			ready = append(ready, i)
		}
	}
	done := 0
	for ; len(ready) > 0; done++ {
		i := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		for _, c := range children[i] {
			if left[c]--; left[c] == 0 {
				ready = append(ready, c)
			}
		}
	}
	if done == len(jobs) {
		return nil
	}
	i := slices.IndexFunc(left, func(n int) bool { return n > 0 })
	return inJob(i, field("needs", fmt.Sprintf("job %q needs itself, by way of others: take one of the needs out of the circle", jobs[i].Ref)))
}

// addOne adds a job, as far as it is unique.
func (t *Tx) addOne(ctx context.Context, j haulier.Job) (id haulier.ID, added bool, err error) {
	if j.Flow == nil {
		t.insert(j)
		return j.ID, true, nil
	}
	if j.Unique != nil {
		other, err := t.claim(ctx, &j)
		if err != nil || !other.IsNil() {
			return other, false, err
		}
	}
	in := t.insert(j)
	if len(j.Needs) == 0 {
		if err = t.skip(ctx, in); err == nil {
			err = t.recall(ctx, in)
		}
	}
	return j.ID, true, err
}

// then adds the job that follows one that has succeeded.
func (t *Tx) then(j *haulier.Job) {
	id := haulier.NewID(t.now)
	s := haulier.Spec{
		ID: id, Tenant: j.Tenant, Queue: j.Queue, Type: j.Flow.Then, Payload: j.Result, Priority: j.Priority, CreatedAt: t.now,
		MaxAttempts: haulier.DefaultMaxAttempts, Labels: j.Labels, Group: j.Group, Parent: j.ID,
	}
	t.insert(haulier.Job{Spec: s, Status: s.First(t.now, "job "+j.ID.String())})
}

// inJob says which job of a request an error is about.
func inJob(i int, err error) error {
	var f *haulier.FieldError
	if errors.As(err, &f) {
		return &haulier.FieldError{Field: fmt.Sprintf("jobs[%d].%s", i, f.Field), Msg: f.Msg, Kind: f.Kind}
	}
	return fmt.Errorf("jobs[%d]: %w", i, err)
}
