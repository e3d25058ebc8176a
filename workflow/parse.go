package workflow

import (
	"errors"
	"fmt"

	yaml "go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"

	"github.com/haulier/haulier"
)

// Parse reads a workflow. The error is of type Errors and wraps haulier.ErrInvalid: it
// tells all that is wrong, with line and column.
func Parse(src []byte) (*Workflow, error) {
	r := &reader{}
	top := r.load(src)
	if len(r.errs) > 0 {
		return nil, r.errs
	}
	w := r.workflow(top)
	if len(r.errs) > 0 {
		r.errs.sort()
		return nil, r.errs
	}
	return w, nil
}

// load reads the YAML.
func (r *reader) load(src []byte) *yaml.Node {
	if len(src) > MaxSource {
		r.failAt(position{}, "the text has %d bytes: at most %d; put scripts and data into files", len(src), MaxSource)
		return nil
	}
	var doc yaml.Node
	err := yaml.Load(src, &doc, yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(maxDepth))))
	var bad *yaml.LoadError
	switch {
	case len(doc.Content) == 1 && err != nil:
		r.failAt(position{}, "there is more than one document: keep one workflow a file, without a second ---")
	case errors.As(err, &bad) && bad.Mark.Line > 0:
		r.failAt(position{bad.Mark.Line, bad.Mark.Column}, "this is not YAML: %s: mend it here or in the line before", bad.Message)
	case err != nil || len(doc.Content) != 1:
		r.failAt(position{}, "the text is empty: name the jobs in a list called workflow")
	default:
		r.plainTree(&doc)
		return doc.Content[0]
	}
	return nil
}

// workflow reads the whole text. The jobs are read before the order in which they run, wherever they stand.
func (r *reader) workflow(top *yaml.Node) *Workflow {
	w := &Workflow{byName: map[string]*job{}}
	var steps, jobs *yaml.Node
	collapse := false
	later := func(at **yaml.Node) func(*yaml.Node) { return func(n *yaml.Node) { *at = n } }
	r.fields(top, "a workflow", map[string]func(*yaml.Node){
		"name":               func(n *yaml.Node) { w.Name = r.name(n, "the workflow's name", ".") },
		"workflow":           later(&steps),
		"jobs":               later(&jobs),
		"on":                 func(n *yaml.Node) { r.events(w, n) },
		"requires":           func(n *yaml.Node) { r.requires(w, n) },
		"build_periodically": func(n *yaml.Node) { r.periodically(w, n, "") },
		"windows":            func(n *yaml.Node) { w.windows = r.calendarNames(n) },
		"freeze_windows":     func(n *yaml.Node) { w.freeze = r.freezeWindows(n) },
		"collapse":           func(n *yaml.Node) { collapse = r.collapses(w, n) },
	})
	if steps == nil && jobs == nil {
		if top.Kind == yaml.MappingNode {
			r.fail(top, "there are no jobs: name them in a list called workflow")
		}
		return w
	}
	b := &builder{reader: r, w: w, used: map[*job]int{}}
	if jobs != nil {
		b.jobs(jobs)
	}
	if steps != nil {
		b.steps(steps)
	}
	for _, j := range w.jobs {
		j.collapse = (j.collapse || collapse) && !j.task.idle()
	}
	b.finish()
	return w
}

// collapses is true, false, or runs: then whole runs replace one another.
func (r *reader) collapses(w *Workflow, n *yaml.Node) bool {
	if n.Kind == yaml.ScalarNode && n.Value == "runs" {
		w.CollapseRuns = true
		return false
	}
	return r.flag(n, "collapse, unless it is runs,")
}

// name reads the name of a workflow or job.
func (r *reader) name(n *yaml.Node, what, also string) string {
	v, ok := r.word(n, what)
	if !ok {
		return ""
	}
	if why := badName(v, also); why != "" {
		r.fail(n, "%s %s", what, why)
		return ""
	}
	return v
}

func (r *reader) events(w *Workflow, n *yaml.Node) {
	r.fields(n, "on", map[string]func(*yaml.Node){
		"event": func(n *yaml.Node) {
			for _, e := range r.words(n, "event", haulier.MaxKeys) {
				r.label(e, "event")
				w.Triggers = append(w.Triggers, Trigger{Event: e.Value, Line: e.Line})
			}
		},
	})
}

func (r *reader) requires(w *Workflow, n *yaml.Node) {
	for _, e := range r.words(n, "requires", haulier.MaxKeys) {
		if name := r.name(e, "a required workflow", "."); name != "" {
			w.Triggers = append(w.Triggers, Trigger{Workflow: name, Line: e.Line})
		}
	}
}

// periodically reads a schedule, which starts runs at the job.
func (r *reader) periodically(w *Workflow, n *yaml.Node, from string) {
	for _, e := range r.words(n, "build_periodically", haulier.MaxKeys) {
		if len(e.Value) > haulier.MaxName {
			r.fail(e, "build_periodically is longer than %d bytes: use several entries", haulier.MaxName)
		}
		w.Triggers = append(w.Triggers, Trigger{Cron: e.Value, From: from, Line: e.Line})
	}
}

func (r *reader) calendarNames(n *yaml.Node) []string {
	all := r.words(n, "windows", haulier.MaxKeys-2) // two more may be freeze windows, of the workflow and of the job
	for _, c := range all {
		r.label(c, "the calendar's name")
	}
	return texts(all)
}

func (r *reader) freezeWindows(n *yaml.Node) []string {
	all := r.words(n, "freeze_windows", maxFreeze)
	for _, c := range all {
		if len(c.Value) > haulier.MaxName {
			r.fail(c, "a freeze window is longer than %d bytes: use several", haulier.MaxName)
		}
	}
	return texts(all)
}

// label checks a name that others use as well: of a queue, type, calendar or event.
func (r *reader) label(n *yaml.Node, what string) {
	if why := badLabel(n.Value); why != "" {
		r.fail(n, "%s %s", what, why)
	}
}

// badLabel says why a text can't be the name of a queue, type or key.
func badLabel(v string) string {
	if v == "" {
		return "is empty: name it or leave it out"
	}
	if len(v) > haulier.MaxName {
		return fmt.Sprintf("is longer than %d bytes: shorten it", haulier.MaxName)
	}
	for _, c := range v {
		if !inLabel(c) {
			return fmt.Sprintf("%.40q has %q in it: use letters, digits and - _ . : only", v, c)
		}
	}
	return ""
}
