package workflow

import (
	"fmt"
	"maps"
	"strings"

	"github.com/haulier/haulier"
)

// Run is what tells one run of a workflow from another.
type Run struct {
	// ID names the run: the Group and the label run of its jobs. It must be new.
	ID     string
	Tenant string // default unless said
	// From is the job at which the run starts: it and all that follows it. Of what
	// comes before or beside, nothing runs, and nothing is waited for. Empty: all jobs
	// but those that are detached and what follows them.
	From string
	// Payload goes to the jobs that come first, unless they have one of their own; as that of an event.
	Payload []byte
	// Force starts the jobs in spite of windows.
	Force bool
}

// Variables that each command of a run has in its environment, beside one for
// each axis of its matrix, in capitals, as MATRIX_OS.
const (
	EnvWorkflow = "HAULIER_WORKFLOW"     // name of the workflow
	EnvRun      = "HAULIER_RUN"          // Run.ID
	EnvJob      = "HAULIER_WORKFLOW_JOB" // name of the job, with its permutation: test[go=1.26,os=linux]
	envPrefix   = "MATRIX_"
)

// Jobs compiles a run to jobs that are to be enqueued by one request, so that all
// of them are there or none; each comes after those it needs. A job's Ref is its name, with
// a matrix followed by the permutation as in test[go:1.26;os:linux]. The error wraps haulier.ErrInvalid, or
// haulier.ErrNotFound when there is no job called Run.From.
func (w *Workflow) Jobs(run Run) ([]haulier.Spec, error) {
	if err := CheckName(w.Name); err != nil {
		return nil, err
	}
	if why := badLabel(run.ID); why != "" {
		return nil, fmt.Errorf("run of workflow %s: %w: its id %s", w.Name, haulier.ErrInvalid, why)
	}
	if w.byName[run.From] == nil && run.From != "" {
		return nil, fmt.Errorf("run of workflow %s: job %.80q: %w: it has %s", w.Name, run.From, haulier.ErrNotFound, few(w.JobNames()))
	}
	part := w.part(run.From)
	nodes := w.plan(func(j *job) bool { return part[j] })
	if len(nodes) == 0 {
		return nil, fmt.Errorf("run of workflow %s: %w: all its jobs are detached or come after one that is; say where to start: %s", w.Name, haulier.ErrInvalid, few(w.JobNames()))
	}
	specs := make([]haulier.Spec, len(nodes))
	for i := range nodes {
		if err := w.sourced(&nodes[i], part); err != nil {
			return nil, err
		}
		specs[i] = w.spec(&nodes[i], nodes, &run)
	}
	return specs, nil
}

// sourced makes sure that the jobs whose outputs a node gets run too.
func (w *Workflow) sourced(n *node, part map[*job]bool) error {
	if n.job == nil {
		return nil
	}
	for i := range n.job.files.inputs {
		if from := n.job.files.inputs[i].from; from != nil && !part[w.byName[from.Value]] {
			return fmt.Errorf("run of workflow %s: %w: job %s gets the outputs of %s, which does not run: start at that one, or give it the fileset by name", w.Name, haulier.ErrInvalid, n.job.name, from.Value)
		}
	}
	return nil
}

// few lists names for an error.
func few(names []string) string {
	if len(names) > 10 {
		return strings.Join(names[:10], ", ") + " …"
	}
	return strings.Join(names, ", ")
}

// part is the set of jobs that run when the workflow is started at from.
func (w *Workflow) part(from string) map[*job]bool {
	in := make(map[*job]bool, len(w.jobs))
	follows := map[*job]bool{} // something that runs
	barred := map[*job]bool{}  // follows something that would run if it were not detached, or is that
	for _, s := range w.order {
		if l := s.link; l != nil {
			runs, stops := false, false
			for _, j := range l.from {
				runs, stops = runs || in[j], stops || barred[j]
			}
			for _, next := range l.to {
				follows[next], barred[next] = follows[next] || runs, barred[next] || stops
			}
			continue
		}
		j := s.job
		reached := from == "" || j.name == from || follows[j]
		barred[j] = barred[j] || reached && j.detached && j.name != from
		in[j] = reached && !barred[j]
	}
	return in
}

// spec makes the job of a node.
func (w *Workflow) spec(n *node, nodes []node, run *Run) haulier.Spec {
	s := haulier.Spec{
		Tenant: run.Tenant, Group: run.ID, Flow: &haulier.Flow{Ref: n.ref},
		Labels: map[string]string{LabelWorkflow: w.Name, LabelRun: run.ID},
	}
	for _, x := range n.needs {
		s.Needs = append(s.Needs, haulier.Need{Ref: nodes[x.node].ref, On: x.on})
	}
	if n.job == nil {
		s.Task.None = &haulier.NoTask{}
		return s
	}
	j := n.job
	s.Labels[LabelJob] = j.name
	if len(n.perm) > 0 {
		s.Labels[LabelMatrix] = j.shown(n.perm)
	}
	for _, l := range j.labels {
		s.Labels[l.name] = l.text.render(n.perm)
	}
	for _, l := range j.runsOn {
		if s.RunsOn == nil {
			s.RunsOn = map[string]string{}
		}
		s.RunsOn[l.name] = l.text.render(n.perm)
	}
	s.Type, s.Queue = j.typ.render(n.perm), j.queue.render(n.perm)
	s.Task = j.task.render(n.perm, w.env(n, run))
	if s.Type == "" && s.Task.Kind() == haulier.KindGo {
		s.Type = j.name
	}
	if s.Payload = []byte(j.payload.render(n.perm)); j.payload == nil {
		s.Payload = nil
		if len(n.needs) == 0 && !j.task.idle() {
			s.Payload = run.Payload
		}
	}
	s.Priority, s.MaxAttempts, s.Backoff, s.Timeout = j.priority, j.maxAttempts, j.backoff, j.timeout
	s.Notify = j.notify
	s.Files = j.files.render(n.perm)
	if !j.task.idle() {
		w.keys(n, s.Flow)
		s.Windows, s.Force = w.calendars(j), run.Force
	}
	return s
}

// keys makes the rules of who may run beside whom. The key of a job's name is
// held by all its permutations, which run beside each other; each has one of its own besides.
func (w *Workflow) keys(n *node, f *haulier.Flow) {
	j := n.job
	key := w.Name + "." + j.name
	f.Holds = []string{key}
	own := w.Name + "." + n.ref
	if own != key {
		f.Holds = append(f.Holds, own)
	}
	if !j.concurrent {
		f.YieldsTo = append(f.YieldsTo, haulier.Yield{Key: own, For: j.patience})
	}
	for _, b := range j.blockedBy {
		other := b.Value
		if !strings.Contains(other, ".") {
			other = w.Name + "." + other
		}
		f.YieldsTo = append(f.YieldsTo, haulier.Yield{Key: other})
	}
	if j.collapse {
		f.Collapse = own
	}
}

// calendars are those that say when a job may start.
func (w *Workflow) calendars(j *job) []string {
	var out []string
	seen := map[string]bool{}
	add := func(names ...string) {
		for _, name := range names {
			if !seen[name] {
				seen[name] = true
				out = append(out, name)
			}
		}
	}
	add(w.windows...)
	add(j.windows...)
	if len(w.freeze) > 0 {
		add(w.Name)
	}
	if len(j.freeze) > 0 {
		add(w.Name + "." + j.name)
	}
	return out
}

// env is the environment of a node's command; what the text says goes before the values of the matrix.
func (w *Workflow) env(n *node, run *Run) map[string]string {
	j := n.job
	if !j.task.takesEnv() {
		return nil
	}
	env := make(map[string]string, len(j.env)+len(n.perm)+3)
	for i, v := range n.perm {
		env[envPrefix+strings.ToUpper(j.axes[i])] = v
	}
	for _, e := range j.env {
		env[e.name] = e.text.render(n.perm)
	}
	maps.Copy(env, map[string]string{EnvWorkflow: w.Name, EnvRun: run.ID, EnvJob: n.name})
	return env
}
