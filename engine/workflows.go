package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/calendar"
	"github.com/haulier/haulier/workflow"
)

// The kinds of document of workflows.
const (
	DocWorkflow     haulier.DocKind = "workflow"     // key: tenant/name; the newest version, without its text
	DocWorkflowText haulier.DocKind = "workflowtext" // key: tenant/name/version/part; its text
	DocRun          haulier.DocKind = "run"          // key: tenant/workflow/number, the newest first
	DocRunJobs      haulier.DocKind = "runjobs"      // the same key; the ids of its jobs
)

// compiled keeps the workflows that were parsed of late.
type compiled struct {
	mu   sync.Mutex
	last map[string]*workflow.Workflow // by the text's digest and the name
}

// maxCompiled bounds the workflows that are kept parsed.
const maxCompiled = 100

func (c *compiled) get(name, digest, source string) (*workflow.Workflow, error) {
	key := digest + name
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.last[key]; w != nil {
		return w, nil
	}
	w, err := workflow.Parse([]byte(source))
	if err != nil {
		return nil, err
	}
	w.Name = name
	if c.last == nil || len(c.last) >= maxCompiled {
		c.last = map[string]*workflow.Workflow{}
	}
	c.last[key] = w
	return w, nil
}

// textPart is how many bytes of a text one document holds.
const textPart = 200 << 10

func textKey(tenant, name string, version int) string {
	return fmt.Sprintf("%s/%s/%08d/", tenant, name, version)
}

// textWrites keep the text of a version.
func textWrites(v *haulier.Workflow, source string) []haulier.DocWrite {
	var out []haulier.DocWrite
	for i, part := 0, ""; i == 0 || source != ""; i++ {
		part, source = source[:min(len(source), textPart)], source[min(len(source), textPart):]
		out = append(out, haulier.DocWrite{
			Kind: DocWorkflowText, Key: fmt.Sprintf("%s%02d", textKey(v.Tenant, v.Name, v.Version), i), Expect: haulier.AnyRev, Value: []byte(part)})
	}
	return out
}

// text reads the text of a version; nil: there is none.
func (e *Engine) text(ctx context.Context, tenant, name string, version int) ([]haulier.Doc, error) {
	prefix := textKey(tenant, name, version)
	return e.store.Docs(ctx, DocWorkflowText, prefix, prefix, 1+workflow.MaxSource/textPart)
}

// workflowDoc reads the newest version of a workflow; nil: there is none.
func (e *Engine) workflowDoc(ctx context.Context, tenant, name string) (*haulier.Workflow, uint64, error) {
	d, err := e.store.Doc(ctx, DocWorkflow, tenant+"/"+name)
	if errors.Is(err, haulier.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("workflow %s: %w", name, err)
	}
	w := new(haulier.Workflow)
	if err := json.Unmarshal(d.Value, w); err != nil {
		return nil, 0, fmt.Errorf("workflow %s: %w: %w", name, haulier.ErrCorrupt, err)
	}
	return w, d.Rev, nil
}

func noWorkflow(name string) error {
	return fmt.Errorf("workflow %s: %w: `haulier workflows list` shows those that were applied", name, haulier.ErrNotFound)
}

// ApplyWorkflow implements haulier.Workflows.
func (e *Engine) ApplyWorkflow(ctx context.Context, tenant, name, source, by string) (haulier.Workflow, error) {
	tenant = tenantOr(tenant)
	w, err := workflow.Parse([]byte(source))
	if err != nil {
		return haulier.Workflow{}, err
	}
	if w.Name != "" && name != "" && w.Name != name {
		return haulier.Workflow{}, field("name", fmt.Sprintf("is %s, and in the text it is %s: use one of them", name, w.Name))
	}
	if w.Name == "" {
		w.Name = name
	}
	if err := first(func() error { return checkName("tenant", tenant) }, func() error { return workflow.CheckName(w.Name) }); err != nil {
		return haulier.Workflow{}, err
	}
	// That it can be started is shown by what a run of it would be.
	if err := e.checkRun(w, tenant); err != nil {
		return haulier.Workflow{}, err
	}
	sum := sha256.Sum256([]byte(source))
	digest := hex.EncodeToString(sum[:])
	for range conflictTries {
		old, rev, err := e.workflowDoc(ctx, tenant, w.Name)
		if err != nil {
			return haulier.Workflow{}, err
		}
		if old != nil && old.Digest == digest {
			return *old, e.setTriggers(ctx, old, w)
		}
		v := haulier.Workflow{Tenant: tenant, Name: w.Name, Version: 1, Digest: digest, AppliedAt: time.Now().UTC().Truncate(time.Millisecond), AppliedBy: by, Jobs: w.JobNames()}
		if old != nil {
			v.Version, v.Runs, v.Schedules = old.Version+1, old.Runs, old.Schedules
		}
		describeTriggers(&v, w)
		if err := e.putWorkflow(ctx, &v, rev, textWrites(&v, source)...); err != nil {
			if errors.Is(err, haulier.ErrConflict) {
				continue
			}
			return v, err
		}
		return v, e.setTriggers(ctx, &v, w)
	}
	return haulier.Workflow{}, fmt.Errorf("workflow %s: %w: others keep changing it; try again", w.Name, haulier.ErrConflict)
}

func (e *Engine) putWorkflow(ctx context.Context, v *haulier.Workflow, rev uint64, more ...haulier.DocWrite) error {
	value, err := json.Marshal(v)
	if err != nil {
		return err
	}
	docs := append([]haulier.DocWrite{{Kind: DocWorkflow, Key: v.Tenant + "/" + v.Name, Expect: rev, Value: value}}, more...)
	if err := e.store.Commit(ctx, &haulier.Batch{Docs: docs, Sync: true}); err != nil {
		return fmt.Errorf("workflow %s: %w", v.Name, err)
	}
	return nil
}

// checkRun checks the jobs of a run as an enqueue would.
func (e *Engine) checkRun(w *workflow.Workflow, tenant string) error {
	from := ""
	specs, err := w.RunJobs(workflow.Run{ID: "check", Tenant: tenant, Force: true})
	if err != nil && len(w.JobNames()) > 0 { // all are detached
		from = w.JobNames()[0]
		specs, err = w.RunJobs(workflow.Run{ID: "check", Tenant: tenant, From: from, Force: true})
	}
	if err != nil {
		return err
	}
	now := time.Now()
	for i := range specs {
		if err := complete(&specs[i], now); err != nil {
			return inField("job "+specs[i].Ref, err)
		}
	}
	return nil
}

// describeTriggers says which events start a workflow.
func describeTriggers(v *haulier.Workflow, w *workflow.Workflow) {
	v.Events = nil
	for i, t := range w.Triggers {
		event := t.Event
		switch {
		case t.Workflow != "":
			event = workflow.Succeeded(t.Workflow)
		case t.Cron != "":
			event = workflow.Started(v.Name, strconv.Itoa(i))
		}
		v.Events = append(v.Events, event)
	}
}

// setTriggers makes the windows that a workflow brings along and the schedules that start it, and removes those of earlier versions. It is
// repeated by the next apply when the server dies on the way.
func (e *Engine) setTriggers(ctx context.Context, v *haulier.Workflow, w *workflow.Workflow) error {
	if err := e.setFreezes(ctx, v, w); err != nil {
		return err
	}
	var names []string
	for i, t := range w.Triggers {
		if t.Cron == "" {
			continue
		}
		name := "workflow." + v.Name + "." + strconv.Itoa(i)
		names = append(names, name)
		s := haulier.Schedule{Tenant: v.Tenant, Name: name, Cron: t.Cron, Job: &haulier.Template{
			Type: workflow.EndType, Task: haulier.Task{None: &haulier.NoTask{}}, Flow: &haulier.Flow{Signal: workflow.Started(v.Name, strconv.Itoa(i))},
		}}
		if _, err := e.SetSchedule(ctx, s); err != nil {
			return fmt.Errorf("line %d: build_periodically: %w", t.Line, err)
		}
	}
	for _, name := range v.Schedules {
		if slices.Contains(names, name) {
			continue
		}
		if err := e.DeleteSchedule(ctx, v.Tenant, name); err != nil && !errors.Is(err, haulier.ErrNotFound) {
			return err
		}
	}
	if slices.Equal(v.Schedules, names) {
		return nil
	}
	for range conflictTries {
		now, rev, err := e.workflowDoc(ctx, v.Tenant, v.Name)
		if err != nil || now == nil || now.Version != v.Version {
			return err
		}
		now.Schedules = names
		if err = e.putWorkflow(ctx, now, rev); !errors.Is(err, haulier.ErrConflict) {
			v.Schedules = names
			return err
		}
	}
	return fmt.Errorf("workflow %s: %w: others keep changing it; apply it again", v.Name, haulier.ErrConflict)
}

// setFreezes makes the windows of a workflow's freeze_windows. One that it has no more is left without an effect: no job names it.
func (e *Engine) setFreezes(ctx context.Context, v *haulier.Workflow, w *workflow.Workflow) error {
	for _, c := range w.Calendars() {
		if _, err := e.SetWindow(ctx, haulier.Window{Tenant: v.Tenant, Name: c.Name, Mode: string(calendar.Freeze), Rules: c.Freeze}); err != nil {
			return fmt.Errorf("freeze_windows of %s: %w", c.Name, err)
		}
	}
	return nil
}

// Workflows implements haulier.Workflows.
func (e *Engine) Workflows(ctx context.Context, tenant string) ([]haulier.Workflow, error) {
	var out []haulier.Workflow
	prefix := tenantOr(tenant) + "/"
	for after := prefix; ; {
		docs, err := e.store.Docs(ctx, DocWorkflow, prefix, after, 200)
		if err != nil || len(docs) == 0 {
			return out, err
		}
		for _, d := range docs {
			after = d.Key
			var w haulier.Workflow
			if err := json.Unmarshal(d.Value, &w); err != nil {
				return nil, fmt.Errorf("workflow %s: %w: %w", d.Key, haulier.ErrCorrupt, err)
			}
			out = append(out, w)
		}
	}
}

// Workflow implements haulier.Workflows.
func (e *Engine) Workflow(ctx context.Context, tenant, name string, version int) (haulier.Workflow, error) {
	w, _, err := e.workflowDoc(ctx, tenantOr(tenant), name)
	if err != nil {
		return haulier.Workflow{}, err
	}
	if w == nil {
		return haulier.Workflow{}, noWorkflow(name)
	}
	if version == 0 {
		version = w.Version
	}
	parts, err := e.text(ctx, w.Tenant, name, version)
	if err != nil {
		return haulier.Workflow{}, fmt.Errorf("workflow %s: %w", name, err)
	}
	if len(parts) == 0 {
		return haulier.Workflow{}, fmt.Errorf("workflow %s, version %d: %w: the newest is %d", name, version, haulier.ErrNotFound, w.Version)
	}
	for _, p := range parts {
		w.Source += string(p.Value)
	}
	if version != w.Version {
		sum := sha256.Sum256([]byte(w.Source))
		w.Version, w.Digest = version, hex.EncodeToString(sum[:])
	}
	return *w, nil
}

// DeleteWorkflow implements haulier.Workflows.
func (e *Engine) DeleteWorkflow(ctx context.Context, tenant, name string) error {
	w, rev, err := e.workflowDoc(ctx, tenantOr(tenant), name)
	if err != nil {
		return err
	}
	if w == nil {
		return noWorkflow(name)
	}
	for _, s := range w.Schedules {
		if err := e.DeleteSchedule(ctx, w.Tenant, s); err != nil && !errors.Is(err, haulier.ErrNotFound) {
			return err
		}
	}
	// The texts first: without the other, nobody would find them.
	if err := e.removeDocs(ctx, DocWorkflowText, w.Tenant+"/"+name+"/"); err != nil {
		return fmt.Errorf("workflow %s: %w", name, err)
	}
	err = e.store.Commit(ctx, &haulier.Batch{Sync: true, Docs: []haulier.DocWrite{{Kind: DocWorkflow, Key: w.Tenant + "/" + name, Expect: rev}}})
	if err != nil {
		return fmt.Errorf("workflow %s: %w", name, err)
	}
	return nil
}

// removeDocs removes the documents of a kind whose keys begin with the prefix, a few in each commit, since they may be large.
func (e *Engine) removeDocs(ctx context.Context, kind haulier.DocKind, prefix string) error {
	for {
		docs, err := e.store.Docs(ctx, kind, prefix, prefix, 10)
		if err != nil || len(docs) == 0 {
			return err
		}
		var b haulier.Batch
		for _, d := range docs {
			b.Docs = append(b.Docs, haulier.DocWrite{Kind: d.Kind, Key: d.Key, Expect: haulier.AnyRev})
		}
		if err := e.store.Commit(ctx, &b); err != nil {
			return err
		}
	}
}

// WorkflowGraph implements haulier.Workflows.
func (e *Engine) WorkflowGraph(ctx context.Context, tenant, name, run string, svg bool) (string, error) {
	var state workflow.StateOf
	version := 0
	if run != "" {
		r, err := e.GetRun(ctx, tenant, run)
		if err != nil {
			return "", err
		}
		states := make(map[string]haulier.State, len(r.Jobs))
		for _, j := range r.Jobs {
			states[j.Ref] = j.State
		}
		state = func(ref string) haulier.State { return states[ref] }
		name, version = r.Workflow, r.Version
	}
	v, err := e.Workflow(ctx, tenant, name, version)
	if err != nil {
		return "", err
	}
	w, err := e.compiled.get(v.Name, v.Digest, v.Source)
	if err != nil {
		return "", err
	}
	if svg {
		return w.Graph().SVG(state), nil
	}
	return strings.TrimRight(w.Graph().Text(state), "\n") + "\n", nil
}
