package workflow

import (
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v4"

	"github.com/haulier/haulier"
)

// job is one entry of jobs, or a name in the order that has none.
type job struct {
	name string
	at   position
	task task
	*matrix

	described   bool // it has a task or a type
	typ, queue  *text
	payload     *text
	env, labels []named
	runsOn      []named // labels of its worker
	maxAttempts int
	backoff     *haulier.Backoff
	timeout     haulier.Duration
	priority    int

	detached   bool
	collapse   bool
	concurrent bool             // several of them may run at once
	patience   haulier.Duration // after which it runs beside another all the same; 0: never
	blockedBy  []*yaml.Node
	windows    []string
	freeze     []string
	requires   []*yaml.Node
	when       haulier.Condition
	cron       *yaml.Node
	notify     []haulier.Notify
	files      files
}

// named is a text with a name.
type named struct {
	name string
	text *text
}

// Labels that each job of a run has; a text can't set them.
const (
	LabelWorkflow = "workflow" // name of the workflow
	LabelRun      = "run"      // Run.ID
	LabelJob      = "job"      // name of the job
	LabelMatrix   = "matrix"   // of a job with a matrix, which permutation it is: go=1.26,os=linux
)

var ownLabels = []string{LabelWorkflow, LabelRun, LabelJob, LabelMatrix}

// newJob is a job as it is when nothing is said of it.
func newJob(name string, at position) *job {
	return &job{name: name, at: at, task: goTask{}, matrix: single(), when: haulier.OnSucceeded}
}

// job reads an entry of jobs.
func (r *reader) job(name string, key, n *yaml.Node) *job {
	j := newJob(name, position{key.Line, key.Column})
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return j
	}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == "matrix" { // the texts need it
			j.matrix = r.matrix(n.Content[i+1])
		}
	}
	var attempts, env *yaml.Node
	once := func(v *yaml.Node, tries int) {
		if attempts != nil {
			r.fail(v, "%s has both retries and max_attempts: use one", name)
		}
		attempts, j.maxAttempts = v, tries
	}
	r.fields(n, "job "+name, map[string]func(*yaml.Node){
		"matrix":       func(*yaml.Node) {},
		"task":         func(v *yaml.Node) { j.task, j.described = r.task(v, j.axes), true },
		"type":         func(v *yaml.Node) { j.typ, j.described = r.text(v, "type", j.axes), true },
		"queue":        func(v *yaml.Node) { j.queue = r.text(v, "queue", j.axes) },
		"payload":      func(v *yaml.Node) { j.payload = r.payload(v, j.axes) },
		"env":          func(v *yaml.Node) { env = v },
		"labels":       func(v *yaml.Node) { j.labels = r.labels(v, j.axes) },
		"runs_on":      func(v *yaml.Node) { j.runsOn = r.runsOn(v, j.axes) },
		"retries":      func(v *yaml.Node) { once(v, 1+r.number(v, "retries", 0, haulier.MaxAttemptLimit-1)) },
		"max_attempts": func(v *yaml.Node) { once(v, r.number(v, "max_attempts", 1, haulier.MaxAttemptLimit)) },
		"backoff":      func(v *yaml.Node) { j.backoff = r.backoff(v) },
		"timeout":      func(v *yaml.Node) { j.timeout = r.duration(v, "timeout") },
		"priority": func(v *yaml.Node) {
			j.priority = r.number(v, "priority", -haulier.MaxPriority, haulier.MaxPriority)
		},
		"detached":           func(v *yaml.Node) { j.detached = r.flag(v, "detached") },
		"collapse":           func(v *yaml.Node) { j.collapse = r.flag(v, "collapse") },
		"concurrent":         func(v *yaml.Node) { r.concurrent(j, v) },
		"blocked_by":         func(v *yaml.Node) { j.blockedBy = r.words(v, "blocked_by", haulier.MaxKeys-1) },
		"requires":           func(v *yaml.Node) { j.requires = r.words(v, "requires", MaxJobs) },
		"when":               func(v *yaml.Node) { j.when = r.condition(v, "when") },
		"inputs":             func(v *yaml.Node) { j.files.inputs = r.inputs(v, j.axes) },
		"outputs":            func(v *yaml.Node) { j.files.outputs = r.outputs(v, j.axes) },
		"notify":             func(v *yaml.Node) { j.notify = r.notify(v) },
		"windows":            func(v *yaml.Node) { j.windows = r.calendarNames(v) },
		"freeze_windows":     func(v *yaml.Node) { j.freeze = r.freezeWindows(v) },
		"build_periodically": func(v *yaml.Node) { j.cron = v },
	})
	if env != nil {
		j.env = r.env(env, j)
	}
	r.checkIdle(j, n)
	r.checkFiles(j, n)
	r.checkRendered(j, n)
	return j
}

// concurrent is true, false, or for how long a job waits for the one before it.
func (r *reader) concurrent(j *job, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" {
		j.patience = r.duration(n, "concurrent, unless it is true or false,")
		return
	}
	j.concurrent = r.flag(n, "concurrent")
}

func (r *reader) condition(n *yaml.Node, what string) haulier.Condition {
	if c := haulier.Condition(n.Value); n.Kind == yaml.ScalarNode && c != "" && c.Valid() {
		return c
	}
	r.fail(n, "%s must be succeeded, failed or finished, and is %s", what, kind(n))
	return haulier.OnSucceeded
}

// labels reads labels whose number leaves room for those of every run.
func (r *reader) labels(n *yaml.Node, axes []string) (out []named) {
	for _, p := range r.pairs(n, "labels") {
		switch {
		case p.key == "" || len(p.key) > haulier.MaxName:
			r.fail(p.node, "the name of a label must have from 1 to %d bytes", haulier.MaxName)
		case slices.Contains(ownLabels, p.key):
			r.fail(p.node, "label %s is set by the workflow itself: choose another name", p.key)
		case len(out) == haulier.MaxLabels-len(ownLabels):
			r.fail(p.node, "there are more than %d labels: leave some out", haulier.MaxLabels-len(ownLabels))
			return out
		default:
			if t := r.text(p.value, "label "+p.key, axes); t != nil {
				out = append(out, named{p.key, t})
			}
		}
	}
	return out
}

// runsOn reads labels that a worker must have.
func (r *reader) runsOn(n *yaml.Node, axes []string) (out []named) {
	for _, p := range r.pairs(n, "runs_on") {
		switch {
		case badLabel(p.key) != "":
			r.fail(p.node, "runs_on: the name of a label %s", badLabel(p.key))
		case len(out) == haulier.MaxRunsOn:
			r.fail(p.node, "runs_on has more than %d labels: leave some out", haulier.MaxRunsOn)
			return out
		default:
			if t := r.text(p.value, "label "+p.key, axes); t != nil {
				out = append(out, named{p.key, t})
			}
		}
	}
	return out
}

// env reads variables of a command's environment.
func (r *reader) env(n *yaml.Node, j *job) (out []named) {
	if !j.task.takesEnv() {
		r.fail(n, "env is for tasks that are commands: give job %s one, or send the values as its payload", j.name)
		return nil
	}
	for _, p := range r.pairs(n, "env") {
		switch {
		case p.key == "" || strings.ContainsAny(p.key, "=\x00"):
			r.fail(p.node, "%.40q can't be the name of a variable: use letters, digits and _", p.key)
		case strings.HasPrefix(p.key, "HAULIER_"):
			r.fail(p.node, "%.40s: variables that begin with HAULIER_ are set for the job: choose another name", p.key)
		default:
			if t := r.text(p.value, "variable "+p.key, j.axes); t != nil {
				out = append(out, named{p.key, t})
			}
		}
	}
	return out
}

// backoff is one delay, a list of them by attempt, or a mapping with base and max.
func (r *reader) backoff(n *yaml.Node) *haulier.Backoff {
	b := &haulier.Backoff{}
	switch n.Kind {
	case yaml.SequenceNode:
		all := r.list(n, "backoff")
		if len(all) > haulier.MaxBackoffList {
			r.fail(n, "backoff has more than %d delays: the last goes on, leave the others out", haulier.MaxBackoffList)
			return b
		}
		for _, c := range all {
			b.List = append(b.List, r.duration(c, "a delay of backoff"))
		}
	case yaml.MappingNode:
		r.fields(n, "backoff", map[string]func(*yaml.Node){
			"base":      func(v *yaml.Node) { b.Base = r.duration(v, "base") },
			"max":       func(v *yaml.Node) { b.Max = r.duration(v, "max") },
			"no_jitter": func(v *yaml.Node) { b.NoJitter = r.flag(v, "no_jitter") },
		})
	default:
		b.Constant = r.duration(n, "backoff")
	}
	return b
}

// checkIdle refuses what makes no sense where there is nothing to run.
func (r *reader) checkIdle(j *job, n *yaml.Node) {
	if j.task.idle() && (len(j.runsOn)+len(j.blockedBy)+len(j.windows)+len(j.freeze) > 0 || j.collapse) {
		r.fail(n, "job %s has nothing to run, so it waits for nothing: remove runs_on, blocked_by, windows, freeze_windows and collapse", j.name)
	}
}
