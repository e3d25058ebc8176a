// Package workflow reads workflows, which are YAML, and compiles a run of one to
// jobs that are enqueued together. It is pure: no store, no clock, no I/O. The
// syntax is described in docs/workflows.md.
//
//	text ── Parse ──► Workflow ── Jobs(run) ──► []haulier.Spec, for one Enqueue
//	                      └────── Graph() ────► text, SVG
//
// A sequence, a parallel, a join and a matrix become needs; "one at a time"
// and blocked_by become keys that jobs hold and yield to.
package workflow

import (
	"fmt"
	"unicode"

	"github.com/haulier/haulier"
)

// Bounds of a workflow.
const (
	MaxSource   = 1 << 20          // bytes of text
	MaxJobs     = haulier.MaxBatch // jobs of a run, with matrices multiplied out and meeting points
	MaxNeeds    = 50_000           // needs of all jobs of a run together
	MaxRendered = 32 << 20         // bytes of the tasks, payloads and labels of a run together
	MaxName     = 64               // bytes of the name of a workflow or job
	maxDepth    = 100              // levels of YAML
	maxTask     = 48 << 10         // bytes of a task, as the engine accepts them
	maxFreeze   = 64               // entries of freeze_windows
)

// Workflow is a text that was read and found right. But for Name it is not
// changed any more, and safe for concurrent use.
type Workflow struct {
	// Name is what the text says, or empty: then whoever stores the workflow sets it before the first use.
	Name string
	// Triggers start runs by themselves.
	Triggers []Trigger
	// CollapseRuns has runs go one after the other; of those that wait only the newest is left.
	CollapseRuns bool

	windows []string // calendars of all jobs
	freeze  []string // freeze windows of all jobs
	jobs    []*job   // in the order of the text
	byName  map[string]*job
	links   []*link
	order   []step // jobs and links, each after what comes before it
}

// Trigger starts runs. One of Cron, Event and Workflow is set.
type Trigger struct {
	Cron     string // a schedule, as text
	Event    string // the name of an event
	Workflow string // a run of this workflow has succeeded
	// From is the job at which the run starts, as in Run.From; empty: the whole workflow.
	From string
	Line int // in the text
}

// Calendar is a set of freeze windows that the workflow brings along. It must
// be known to the engine under Name before jobs of the workflow are enqueued.
type Calendar struct {
	Name   string
	Freeze []string // cron-like sets of minutes in which no job may start
}

// JobNames lists the names of the jobs, in the order of the text: what Run.From may say.
func (w *Workflow) JobNames() []string {
	out := make([]string, len(w.jobs))
	for i, j := range w.jobs {
		out[i] = j.name
	}
	return out
}

// Calendars lists the freeze windows that stand in the text; those of a job are named workflow.job.
func (w *Workflow) Calendars() []Calendar {
	var out []Calendar
	if len(w.freeze) > 0 {
		out = append(out, Calendar{Name: w.Name, Freeze: w.freeze})
	}
	for _, j := range w.jobs {
		if len(j.freeze) > 0 {
			out = append(out, Calendar{Name: w.Name + "." + j.name, Freeze: j.freeze})
		}
	}
	return out
}

// CheckName is an error that wraps haulier.ErrInvalid when a workflow can't have the name.
func CheckName(name string) error {
	if why := badName(name, "."); why != "" {
		return fmt.Errorf("workflow name %.80q: %w: it %s", name, haulier.ErrInvalid, why)
	}
	return nil
}

// badName says what is wrong with a name. Jobs have no full stops in
// theirs, so that workflow.job is the name of one job only.
func badName(name, also string) string {
	switch {
	case name == "":
		return "is empty: give it a name of letters and digits"
	case len(name) > MaxName:
		return fmt.Sprintf("is longer than %d bytes: shorten it", MaxName)
	}
	for _, r := range name {
		if !plain(r) && (also == "" || r != rune(also[0])) {
			return fmt.Sprintf("has %q in it: use letters, digits, - and _", r)
		}
	}
	return ""
}

func plain(r rune) bool {
	return r == '-' || r == '_' || (unicode.IsLetter(r) || unicode.IsDigit(r)) && r != unicode.ReplacementChar
}
