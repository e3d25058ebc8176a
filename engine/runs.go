package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/engine/flow"
	"github.com/haulier/haulier/workflow"
)

const (
	keptRuns  = 500 // runs of a workflow whose records are kept although their jobs were removed
	maxRuns   = 1000
	maxNumber = 9_999_999_999
)

// runKey sorts the newest run first.
func runKey(tenant, name string, number int64) string {
	return fmt.Sprintf("%s/%s/%010d", tenant, name, maxNumber-number)
}

// StartRun implements haulier.Workflows.
func (e *Engine) StartRun(ctx context.Context, r haulier.RunRequest) (haulier.Run, error) {
	for range enqueueTries {
		run, err := e.startRun(ctx, r, nil)
		if !errors.Is(err, haulier.ErrConflict) {
			return run, err
		}
	}
	return haulier.Run{}, fmt.Errorf("workflow %s: %w: others keep changing what it depends on; try again", r.Workflow, haulier.ErrUnavailable)
}

// startRun starts a run in one commit, with some documents; ErrConflict: somebody else was faster.
func (e *Engine) startRun(ctx context.Context, r haulier.RunRequest, with []haulier.DocWrite) (haulier.Run, error) {
	tenant := tenantOr(r.Tenant)
	head, rev, err := e.workflowDoc(ctx, tenant, r.Workflow)
	if err != nil {
		return haulier.Run{}, err
	}
	if head == nil {
		return haulier.Run{}, noWorkflow(r.Workflow)
	}
	if len(r.Payload) > haulier.MaxPayload {
		return haulier.Run{}, &haulier.FieldError{Field: "payload", Kind: haulier.ErrTooLarge, Msg: fmt.Sprintf("is longer than the %d bytes that a run takes", haulier.MaxPayload)}
	}
	v, err := e.Workflow(ctx, tenant, r.Workflow, r.Version)
	if err != nil {
		return haulier.Run{}, err
	}
	w, err := e.compiled.get(v.Name, v.Digest, v.Source)
	if err != nil {
		return haulier.Run{}, err
	}
	now, err := e.now(ctx)
	if err != nil {
		return haulier.Run{}, err
	}
	head.Runs++
	run := haulier.Run{
		ID: v.Name + "-" + strconv.FormatInt(head.Runs, 10), Tenant: tenant, Workflow: v.Name, Version: v.Version, Number: head.Runs,
		From: r.From, StartedAt: now.UTC().Truncate(time.Millisecond), StartedBy: r.By,
	}
	specs, err := w.RunJobs(workflow.Run{ID: run.ID, Tenant: tenant, From: r.From, Payload: r.Payload, Force: r.Force})
	if err != nil {
		return run, err
	}
	b := haulier.Batch{Sync: true, Docs: with}
	t := flow.Begin(e.store, now)
	var old []*haulier.Job
	if w.CollapseRuns {
		if old, err = e.queueRun(ctx, &run, specs); err != nil {
			return run, err
		}
	}
	ids, err := e.addRun(ctx, t, specs, now, cmp.Or(r.By, "workflow "+v.Name))
	if err != nil {
		return run, err
	}
	if err := supersede(ctx, t, old, specs, ids); err != nil {
		return run, err
	}
	run.End, run.Size = ids[len(ids)-1], len(ids)
	if err := e.recordRun(ctx, &b, head, rev, &run, ids); err != nil {
		return run, err
	}
	work, err := t.Flush(ctx, &b)
	if err == nil {
		err = e.commit(ctx, &b, work)
	}
	if err != nil {
		return run, fmt.Errorf("run of workflow %s: %w", v.Name, err)
	}
	return run, nil
}

// lookedBack is how many earlier runs of a workflow are looked at whose runs collapse; before them, all have ended or collapsed.
const lookedBack = 20

// queueRun lets a run wait for the end of the one that is on its way, and returns the jobs of those
// that wait before it, which it is to replace.
func (e *Engine) queueRun(ctx context.Context, run *haulier.Run, specs []haulier.Spec) (old []*haulier.Job, err error) {
	prefix := run.Tenant + "/" + run.Workflow + "/"
	docs, err := e.store.Docs(ctx, DocRun, prefix, prefix, lookedBack)
	if err != nil {
		return nil, err
	}
	for i := range docs {
		var before haulier.Run
		if err := json.Unmarshal(docs[i].Value, &before); err != nil {
			return nil, fmt.Errorf("run %s: %w: %w", docs[i].Key, haulier.ErrCorrupt, err)
		}
		jobs, err := e.lookAtRun(ctx, &before)
		if err != nil {
			return nil, err
		}
		switch before.State {
		case haulier.RunWaiting:
			for _, j := range jobs {
				if j != nil && j.State.Waits() {
					old = append(old, j)
				}
			}
		case haulier.RunRunning:
			for k := range specs {
				if len(specs[k].Needs) == 0 {
					specs[k].Needs = []haulier.Need{{Job: before.End, On: haulier.OnFinished}}
				}
			}
			return old, nil
		}
	}
	return old, nil
}

// supersede replaces the jobs of runs that wait by those of the same name in a new run, or by its end.
func supersede(ctx context.Context, t *flow.Tx, old []*haulier.Job, specs []haulier.Spec, ids []haulier.ID) error {
	at := make(map[string]haulier.ID, len(specs))
	for i := range specs {
		at[specs[i].Ref] = ids[i]
	}
	for _, j := range old {
		id, ok := at[j.Ref]
		if !ok {
			id = ids[len(ids)-1]
		}
		by, err := t.Job(ctx, id)
		if err != nil {
			return err
		}
		if err := t.Supersede(ctx, j, by); err != nil {
			return err
		}
	}
	return nil
}

// addRun adds the jobs of a run.
func (e *Engine) addRun(ctx context.Context, t *flow.Tx, specs []haulier.Spec, now time.Time, by string) ([]haulier.ID, error) {
	ids := make([]haulier.ID, len(specs))
	haulier.FillIDs(ids, now)
	jobs := make([]haulier.Job, len(specs))
	for i := range specs {
		s := &specs[i]
		s.ID, s.CreatedAt = ids[i], now.UTC().Truncate(time.Microsecond)
		if err := complete(s, now); err != nil {
			return nil, inField("job "+s.Ref, err)
		}
		jobs[i] = haulier.Job{Spec: *s, Status: s.First(now, by)}
	}
	return t.Add(ctx, jobs)
}

// recordRun adds the documents of a run to b, and removes those of old ones whose jobs have gone.
func (e *Engine) recordRun(ctx context.Context, b *haulier.Batch, head *haulier.Workflow, rev uint64, run *haulier.Run, ids []haulier.ID) error {
	key := runKey(run.Tenant, run.Workflow, run.Number)
	headValue, err := json.Marshal(head)
	if err != nil {
		return err
	}
	value, err := json.Marshal(run)
	if err != nil {
		return err
	}
	raw := make([]byte, 0, len(ids)*len(haulier.ID{}))
	for _, id := range ids {
		raw = append(raw, id[:]...)
	}
	b.Docs = append(b.Docs,
		haulier.DocWrite{Kind: DocWorkflow, Key: run.Tenant + "/" + run.Workflow, Expect: rev, Value: headValue},
		haulier.DocWrite{Kind: DocRun, Key: key, Value: value}, haulier.DocWrite{Kind: DocRunJobs, Key: key, Value: raw})
	if run.Number <= keptRuns {
		return nil
	}
	prefix := run.Tenant + "/" + run.Workflow + "/"
	old, err := e.store.Docs(ctx, DocRun, prefix, runKey(run.Tenant, run.Workflow, run.Number-keptRuns), 3)
	if err != nil {
		return err
	}
	for i := range old {
		var r haulier.Run
		if err := json.Unmarshal(old[i].Value, &r); err != nil {
			return fmt.Errorf("run %s: %w: %w", old[i].Key, haulier.ErrCorrupt, err)
		}
		jobs, err := e.store.Jobs(ctx, []haulier.ID{r.End})
		if err != nil {
			return err
		}
		if jobs[0] == nil {
			b.Docs = append(b.Docs, haulier.DocWrite{Kind: DocRun, Key: old[i].Key, Expect: haulier.AnyRev}, haulier.DocWrite{Kind: DocRunJobs, Key: old[i].Key, Expect: haulier.AnyRev})
		}
	}
	return nil
}

// Runs implements haulier.Workflows.
func (e *Engine) Runs(ctx context.Context, tenant, name string, limit int) ([]haulier.Run, error) {
	if limit <= 0 || limit > maxRuns {
		limit = 50
	}
	prefix := tenantOr(tenant) + "/" + name + "/"
	docs, err := e.store.Docs(ctx, DocRun, prefix, prefix, limit)
	if err != nil {
		return nil, fmt.Errorf("runs: %w", err)
	}
	out := make([]haulier.Run, len(docs))
	for i := range docs {
		if err := json.Unmarshal(docs[i].Value, &out[i]); err != nil {
			return nil, fmt.Errorf("run %s: %w: %w", docs[i].Key, haulier.ErrCorrupt, err)
		}
		if _, err := e.lookAtRun(ctx, &out[i]); err != nil {
			return nil, err
		}
	}
	if len(out) == 0 {
		if w, _, err := e.workflowDoc(ctx, tenantOr(tenant), name); err != nil || w == nil {
			return nil, errors.Join(err, noWorkflow(name))
		}
	}
	return out, nil
}

// GetRun implements haulier.Workflows.
func (e *Engine) GetRun(ctx context.Context, tenant, id string) (haulier.Run, error) {
	i := strings.LastIndexByte(id, '-')
	number, err := strconv.ParseInt(id[i+1:], 10, 64)
	if i < 1 || err != nil || number < 1 || number > maxNumber {
		return haulier.Run{}, fmt.Errorf("run %.80q: %w: a run is named by its workflow and number, as in build-42", id, haulier.ErrNotFound)
	}
	d, err := e.store.Doc(ctx, DocRun, runKey(tenantOr(tenant), id[:i], number))
	if err != nil {
		return haulier.Run{}, fmt.Errorf("run %s: %w", id, err)
	}
	var r haulier.Run
	if err := json.Unmarshal(d.Value, &r); err != nil {
		return r, fmt.Errorf("run %s: %w: %w", id, haulier.ErrCorrupt, err)
	}
	jobs, err := e.lookAtRun(ctx, &r)
	if err != nil {
		return r, err
	}
	r.Counts = map[string]int{}
	for _, j := range jobs {
		if j == nil || j.ID == r.End {
			continue
		}
		r.Jobs = append(r.Jobs, haulier.RunJob{ID: j.ID, Ref: j.Ref, State: j.State})
		r.Counts[j.State.String()]++
	}
	return r, nil
}

// lookAtRun reads the jobs of a run and says how it stands.
func (e *Engine) lookAtRun(ctx context.Context, r *haulier.Run) ([]*haulier.Job, error) {
	d, err := e.store.Doc(ctx, DocRunJobs, runKey(r.Tenant, r.Workflow, r.Number))
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", r.ID, err)
	}
	ids := make([]haulier.ID, len(d.Value)/len(haulier.ID{}))
	for i := range ids {
		copy(ids[i][:], d.Value[i*len(haulier.ID{}):])
	}
	jobs, err := e.store.Jobs(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", r.ID, err)
	}
	r.State, r.EndedAt = stateOfRun(jobs)
	return jobs, nil
}

// stateOfRun is how a run stands by its jobs, of which the last is its end.
func stateOfRun(jobs []*haulier.Job) (haulier.RunState, time.Time) {
	end := jobs[len(jobs)-1]
	begun, left, failed := false, false, false
	for _, j := range jobs[:len(jobs)-1] {
		if j == nil {
			continue
		}
		begun = begun || j.Attempt > 0 || j.State.Terminal()
		left = left || !j.State.Terminal()
		failed = failed || j.State == haulier.Failed
	}
	switch {
	case end == nil && !left:
		return haulier.RunGone, time.Time{}
	case end.State == haulier.Collapsed:
		return haulier.RunCollapsed, time.Time{}
	case left && begun:
		return haulier.RunRunning, time.Time{}
	case left:
		return haulier.RunWaiting, time.Time{}
	case end.State == haulier.Succeeded:
		return haulier.RunSucceeded, end.FinishedAt
	case !end.State.Terminal():
		return haulier.RunRunning, time.Time{}
	case failed:
		return haulier.RunFailed, time.Time{}
	}
	return haulier.RunCancelled, time.Time{}
}

// CancelRun implements haulier.Workflows.
func (e *Engine) CancelRun(ctx context.Context, tenant, id, by, reason string) (haulier.Changed, error) {
	return e.changeRun(ctx, tenant, id, func(j *haulier.RunJob) bool { return !j.State.Terminal() }, func(sel haulier.Selection) (haulier.Changed, error) {
		return e.Cancel(ctx, sel, by, reason)
	})
}

// RetryRun implements haulier.Workflows.
func (e *Engine) RetryRun(ctx context.Context, tenant, id, by string) (haulier.Changed, error) {
	return e.changeRun(ctx, tenant, id, func(j *haulier.RunJob) bool { return j.State == haulier.Failed || j.State == haulier.Cancelled }, func(sel haulier.Selection) (haulier.Changed, error) {
		return e.Retry(ctx, sel, by)
	})
}

// changeRun changes the jobs of a run that are chosen, in their order, so that what follows from one is done before the next.
// Those whose state does not admit it any more, or that wait for others of them, are passed over.
func (e *Engine) changeRun(ctx context.Context, tenant, id string, choose func(*haulier.RunJob) bool, change func(haulier.Selection) (haulier.Changed, error)) (haulier.Changed, error) {
	r, err := e.GetRun(ctx, tenant, id)
	if err != nil {
		return haulier.Changed{}, err
	}
	var total haulier.Changed
	var ids []haulier.ID
	for i := range r.Jobs {
		if choose(&r.Jobs[i]) {
			ids = append(ids, r.Jobs[i].ID)
		}
	}
	for len(ids) > 0 {
		n := min(len(ids), 500)
		c, err := change(haulier.Selection{Tenant: r.Tenant, IDs: ids[:n]})
		total.N += c.N
		if err != nil {
			return total, err
		}
		ids = ids[n:]
	}
	return total, nil
}
