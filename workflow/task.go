package workflow

import (
	"maps"
	"slices"
	"strings"
	"time"

	yaml "go.yaml.in/yaml/v4"

	"github.com/haulier/haulier"
)

// task is what a job runs. Each kind implements it, and is in taskKinds.
type task interface {
	// render makes the task of a permutation; env is its own to keep, nil unless takesEnv.
	render(values []string, env map[string]string) haulier.Task
	// texts are all that render puts into the task.
	texts() []*text
	// takesEnv reports whether the kind has an environment.
	takesEnv() bool
	// idle reports whether there is nothing to run.
	idle() bool
}

// taskKinds read what stands below the name of a kind in a task.
var taskKinds = map[string]func(r *reader, n *yaml.Node, axes []string) task{
	string(haulier.KindExec): func(r *reader, n *yaml.Node, axes []string) task { return r.exec(n, axes) },
	string(haulier.KindHTTP): func(r *reader, n *yaml.Node, axes []string) task { return r.http(n, axes) },
	string(haulier.KindNone): func(r *reader, n *yaml.Node, _ []string) task {
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!null" {
			r.fields(n, "none", nil)
		}
		return noTask{}
	},
	string(haulier.KindScript): func(r *reader, n *yaml.Node, _ []string) task {
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!null" {
			r.fields(n, "script", nil)
		}
		return scriptTask{}
	},
}

// task reads a string, which is for the shell, a list, which is a program and its arguments, or a kind and what belongs to it.
func (r *reader) task(n *yaml.Node, axes []string) task {
	if n.Kind != yaml.MappingNode {
		return r.exec(n, axes)
	}
	var out task
	known := map[string]func(*yaml.Node){}
	for name, read := range taskKinds {
		known[name] = func(v *yaml.Node) {
			if out != nil {
				r.fail(v, "a task has one kind: remove the others")
			}
			out = read(r, v, axes)
		}
	}
	r.fields(n, "task", known)
	if out == nil {
		if len(n.Content) == 0 {
			r.fail(n, "the task is empty: use one of %s", strings.Join(slices.Sorted(maps.Keys(taskKinds)), ", "))
		}
		return goTask{}
	}
	return out
}

// goTask is a function registered in a worker under the job's type.
type goTask struct{}

func (goTask) render([]string, map[string]string) haulier.Task { return haulier.Task{} }
func (goTask) texts() []*text                                  { return nil }
func (goTask) takesEnv() bool                                  { return false }
func (goTask) idle() bool                                      { return false }

// noTask is nothing to run.
type noTask struct{ goTask }

func (noTask) render([]string, map[string]string) haulier.Task {
	return haulier.Task{None: &haulier.NoTask{}}
}
func (noTask) idle() bool { return true }

// scriptTask is the handler of the job's type.
type scriptTask struct{ goTask }

func (scriptTask) render([]string, map[string]string) haulier.Task {
	return haulier.Task{Script: &haulier.ScriptTask{}}
}

// execTask is a command.
type execTask struct {
	argv  []*text
	shell bool
	dir   *text
	grace haulier.Duration
}

// exec reads a command: a string, a list, or a mapping with shell or argv.
func (r *reader) exec(n *yaml.Node, axes []string) task {
	t := &execTask{}
	argv := func(v *yaml.Node) {
		all := r.list(v, "argv")
		if len(all) > maxArgs {
			r.fail(v, "the command has %d arguments: at most %d; send long input as the payload", len(all), maxArgs)
			return
		}
		for _, a := range all {
			if x := r.text(a, "an argument", axes); x != nil {
				t.argv = append(t.argv, x)
			}
		}
		if len(v.Content) > 0 && v.Content[0].Value == "" && v.Content[0].Kind == yaml.ScalarNode {
			r.fail(v, "the program is empty: name it first")
		}
	}
	shell := func(v *yaml.Node) {
		t.shell = true
		if x := r.text(v, "a command", axes); x != nil {
			t.argv = append(t.argv, x)
			if strings.TrimSpace(v.Value) == "" {
				r.fail(v, "the command is empty: write what is to run")
			}
		}
	}
	switch n.Kind {
	case yaml.SequenceNode:
		argv(n)
		return t
	case yaml.MappingNode:
	default:
		shell(n)
		return t
	}
	commands := 0
	r.fields(n, "exec", map[string]func(*yaml.Node){
		"argv":  func(v *yaml.Node) { commands++; argv(v) },
		"shell": func(v *yaml.Node) { commands++; shell(v) },
		"dir":   func(v *yaml.Node) { t.dir = r.text(v, "dir", axes) },
		"grace": func(v *yaml.Node) {
			if t.grace = r.duration(v, "grace"); time.Duration(t.grace) > maxGrace {
				r.fail(v, "grace must be at most %v", maxGrace)
			}
		},
	})
	if commands != 1 {
		r.fail(n, "exec must have either argv, a list of program and arguments, or shell, a string")
	}
	return t
}

const (
	maxGrace = 24 * time.Hour
	maxArgs  = 4096
)

func (t *execTask) render(values []string, env map[string]string) haulier.Task {
	x := &haulier.ExecTask{Argv: make([]string, len(t.argv)), Shell: t.shell, Env: env, Dir: t.dir.render(values), Grace: t.grace}
	for i, a := range t.argv {
		x.Argv[i] = a.render(values)
	}
	return haulier.Task{Exec: x}
}

func (t *execTask) texts() []*text { return append(slices.Clone(t.argv), t.dir) }
func (*execTask) takesEnv() bool   { return true }
func (*execTask) idle() bool       { return false }
