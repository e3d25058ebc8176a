package workflow

import (
	"path/filepath"
	"strings"

	yaml "go.yaml.in/yaml/v4"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/fileset"
)

// files are a job's inputs and outputs.
type files struct {
	inputs  []input
	outputs *output
}

type input struct {
	fileset, to *text
	from        *yaml.Node // the job whose outputs it is
	patterns    []*text
}

type output struct {
	fileset  *text
	patterns []*text
	on       haulier.Condition
	keep     int
}

// inputs reads filesets: their names, or mappings with fileset or from, patterns and to.
func (r *reader) inputs(n *yaml.Node, axes []string) (out []input) {
	all := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		all = r.list(n, "inputs")
	}
	if len(all) > haulier.MaxInputs {
		r.fail(n, "inputs has more than %d entries: leave some out", haulier.MaxInputs)
		return nil
	}
	for _, item := range all {
		var in input
		if item.Kind == yaml.MappingNode {
			r.fields(item, "inputs", map[string]func(*yaml.Node){
				"fileset":  func(v *yaml.Node) { in.fileset = r.filesetName(v, "fileset", axes, true) },
				"from":     func(v *yaml.Node) { r.word(v, "from"); in.from = v },
				"patterns": func(v *yaml.Node) { in.patterns = r.patterns(v, axes) },
				"to":       func(v *yaml.Node) { in.to = r.folder(v, axes) },
			})
			if (in.fileset == nil) == (in.from == nil) {
				r.fail(item, "an input has fileset or from, and not both: name where its files come from")
			}
		} else {
			in.fileset = r.filesetName(item, "inputs", axes, true)
		}
		out = append(out, in)
	}
	return out
}

// outputs reads the name of a fileset, or a mapping with fileset, patterns, on and keep.
func (r *reader) outputs(n *yaml.Node, axes []string) *output {
	o := &output{}
	if n.Kind != yaml.MappingNode {
		o.fileset = r.filesetName(n, "outputs", axes, false)
		return o
	}
	r.fields(n, "outputs", map[string]func(*yaml.Node){
		"fileset":  func(v *yaml.Node) { o.fileset = r.filesetName(v, "fileset", axes, false) },
		"patterns": func(v *yaml.Node) { o.patterns = r.patterns(v, axes) },
		"on":       func(v *yaml.Node) { o.on = r.condition(v, "on") },
		"keep":     func(v *yaml.Node) { o.keep = r.number(v, "keep", 1, 1<<30) },
	})
	if o.fileset == nil {
		r.fail(n, "outputs has no fileset: name what it becomes")
	}
	return o
}

// filesetName reads a name, with @version where one may be said.
func (r *reader) filesetName(n *yaml.Node, what string, axes []string, pinned bool) *text {
	t := r.text(n, what, axes)
	name, _, err := haulier.ParseFilesetRef(n.Value)
	if t == nil || strings.Contains(n.Value, open) { // what becomes of it is checked when a run starts
		return t
	}
	switch {
	case err != nil:
		r.fail(n, "%s: %v", what, err)
	case name != n.Value && !pinned:
		r.fail(n, "%s is %.80q: a new version gets its number by itself, leave the @ out", what, n.Value)
	case badLabel(name) != "" || strings.ContainsAny(name, ":/"):
		r.fail(n, "%s is %.80q, which is no name of a fileset", what, n.Value)
	}
	return t
}

func (r *reader) patterns(n *yaml.Node, axes []string) (out []*text) {
	for _, c := range r.words(n, "patterns", haulier.MaxPatterns) {
		if err := (fileset.Patterns{c.Value}).Check(); err != nil && !strings.Contains(c.Value, open) {
			r.fail(c, "%v", err)
		}
		out = append(out, r.text(c, "patterns", axes))
	}
	return out
}

func (r *reader) folder(n *yaml.Node, axes []string) *text {
	t := r.text(n, "to", axes)
	if t != nil && !filepath.IsLocal(n.Value) {
		r.fail(n, "to is %.80q, which is no folder within the job's: write such as data/in", n.Value)
	}
	return t
}

// checkFiles refuses files of what has no working folder of its own.
func (r *reader) checkFiles(j *job, n *yaml.Node) {
	if len(j.files.inputs) == 0 && j.files.outputs == nil {
		return
	}
	x, ok := j.task.(*execTask)
	switch {
	case !ok:
		r.fail(n, "job %s has inputs or outputs, which only a command has a folder for: give it a task to run, or remove them", j.name)
	case x.dir != nil:
		r.fail(n, "job %s has inputs or outputs, for which it gets a folder of its own: remove dir", j.name)
	}
}

// sources makes a job come after those whose outputs it gets.
func (b *builder) sources(j *job) {
	for i := range j.files.inputs {
		n := j.files.inputs[i].from
		if n == nil {
			continue
		}
		other := b.w.byName[n.Value]
		switch {
		case other == nil:
			b.unknown(n, n.Value)
		case other == j:
			b.fail(n, "job %s can't begin with its own outputs", j.name)
		case other.files.outputs == nil:
			b.fail(n, "job %s has no outputs: give it some, or name another job", n.Value)
		case len(other.perms) != 1 || len(other.perms[0]) > 0:
			b.fail(n, "job %s has a matrix, so its outputs are many: name a fileset instead, as in fileset: dist-linux", n.Value)
		default:
			b.raw = append(b.raw, rawLink{[]*job{other}, []*job{j}})
			b.used[j], b.used[other] = max(b.used[j], 1), max(b.used[other], 1)
		}
	}
}

// render makes them those of a permutation; nil: there are none.
func (f *files) render(perm []string) *haulier.Files {
	inputs := make([]haulier.Input, len(f.inputs))
	for i := range f.inputs {
		in := &f.inputs[i]
		inputs[i] = haulier.Input{Fileset: in.fileset.render(perm), To: in.to.render(perm), Patterns: rendered(in.patterns, perm)}
		if in.from != nil {
			inputs[i].From = in.from.Value
		}
	}
	if f.outputs == nil {
		return haulier.FilesOf(inputs, nil)
	}
	return haulier.FilesOf(inputs, &haulier.Output{
		Fileset: f.outputs.fileset.render(perm), Patterns: rendered(f.outputs.patterns, perm), On: f.outputs.on, Keep: f.outputs.keep,
	})
}

func rendered(list []*text, perm []string) []string {
	var out []string
	for _, t := range list {
		out = append(out, t.render(perm))
	}
	return out
}
