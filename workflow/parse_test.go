package workflow_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/workflow"
)

// Every fault is told with its place.
func TestFaults(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"no YAML", "workflow: [A\njobs: {", "line 2, column 5: this is not YAML"},
		{"empty", "# nothing\n", "line 1, column 1: the text is empty"},
		{"two documents", "workflow: [A]\n---\nworkflow: [B]\n", "line 1, column 1: there is more than one document"},
		{"a list at the top", "- A\n- B\n", "line 1, column 1: a workflow must be a mapping of names to values, and is a list"},
		{"no jobs", "name: x\n", "line 1, column 1: there are no jobs"},
		{"an unknown key", "workflow: [A]\ncolapse: true\n", `line 2, column 1: "colapse" is not known in a workflow: use one of build_periodically, collapse,`},
		{"an unknown key of a job", "jobs:\n  A:\n    tsak: x\nworkflow: [A]\n", `line 3, column 5: "tsak" is not known in job A`},
		{"an empty workflow", "workflow: []\n", "line 1, column 11: workflow is an empty list"},
		{"a workflow that is no list", "workflow: A\n", `line 1, column 11: workflow must be a list, and is "A"`},
		{"an empty parallel", "workflow:\n- A\n- parallel: []\n", "line 3, column 13: parallel is an empty list"},
		{"a step that is unknown", "workflow:\n- A\n- serial: [B]\n", `line 3, column 3: "serial" is not known in a step: use one of parallel`},
		{"a job twice in the order", "workflow:\n- A\n- B\n- A\n", "line 4, column 3: job A stands in the workflow for the second time, after line 2"},
		{"a job defined twice", "workflow: [A]\njobs:\n  A: {task: x}\n  A: {task: y}\n", `line 4, column 3: "A" stands in jobs for the second time, after line 3`},
		{"an unknown name", "workflow: [A, tset]\njobs:\n  A: {task: x}\n  test: {task: y}\n", "line 1, column 15: there is no job tset: is test meant?"},
		{"a job that is never used", "workflow: [A]\njobs:\n  A: {task: x}\n  B: {task: y}\n", "line 4, column 3: job B is never used"},
		{"a name that can't be", "workflow: [a b]\n", `line 1, column 12: a step has ' ' in it`},
		{"a full stop in a job's name", "workflow: [a.b]\n", `line 1, column 12: a step has '.' in it`},
		{"a cycle", "workflow: [A, B, C]\njobs:\n  A:\n    requires: [C]\n", "line 4, column 16: the jobs wait for each other in a cycle, A → B → C → A"},
		{"a job that requires itself", "workflow: [A]\njobs:\n  A: {requires: A}\n", "line 3, column 17: job A requires itself"},
		{"an unknown requirement", "workflow: [A]\njobs:\n  A: {requires: [B]}\n", "line 3, column 18: there is no job B"},
		{"an unknown blocker", "workflow: [A]\njobs:\n  A: {blocked_by: [B]}\n", "line 3, column 20: there is no job B"},
		{"a job blocked by itself", "workflow: [A]\njobs:\n  A: {blocked_by: A}\n", "line 3, column 19: job A is kept from running beside itself anyway"},
		{"an axis without values", "workflow: [A]\njobs:\n  A: {matrix: {go: []}}\n", "line 3, column 20: the matrix is empty: axis go has no values"},
		{"a matrix without axes", "workflow: [A]\njobs:\n  A: {matrix: {}}\n", "line 3, column 15: the matrix is empty"},
		{"a matrix of which all is excluded", "workflow: [A]\njobs:\n  A: {matrix: {go: [1], exclude: [{go: 1}]}}\n", "line 3, column 15: the matrix is empty"},
		{"an exclude that hits nothing", "workflow: [A]\njobs:\n  A: {matrix: {go: [1], exclude: [{go: 2}]}}\n", "line 3, column 35: exclude: no permutation is like this"},
		{"an include that is there", "workflow: [A]\njobs:\n  A: {matrix: {go: [1], include: [{go: 1}]}}\n", "line 3, column 35: include: the matrix has this permutation already"},
		{"an include without an axis", "workflow: [A]\njobs:\n  A: {matrix: {go: [1], os: [x], include: [{go: 1}]}}\n", "line 3, column 44: include: an entry must have a value for each axis: go, os"},
		{"a value twice", "workflow: [A]\njobs:\n  A: {matrix: {go: [1, 1]}}\n", `line 3, column 24: axis go names "1" for the second time`},
		{"an expression that is none", "workflow: [A]\njobs:\n  A: {task: 'x ${{ secrets.y }}'}\n", "line 3, column 13: ${{ secrets.y }} is not known"},
		{"an axis that is none", "workflow: [A]\njobs:\n  A: {task: 'x ${{ matrix.os }}', matrix: {go: [1]}}\n", "line 3, column 13: ${{ matrix.os }} names no axis of the matrix: use one of go"},
		{"an expression without a matrix", "workflow: [A]\njobs:\n  A: {task: 'x ${{ matrix.os }}'}\n", "line 3, column 13: ${{ matrix.os }} is used in a job without a matrix"},
		{"an expression that is open", "workflow: [A]\njobs:\n  A: {task: 'x ${{ matrix.os'}\n", "line 3, column 13: \"${{ matrix.os\" is not closed"},
		{"a flag that is none", "workflow: [A]\njobs:\n  A: {detached: maybe}\n", `line 3, column 17: detached must be true or false, and is "maybe"`},
		{"a number out of bounds", "workflow: [A]\njobs:\n  A: {priority: 11}\n", "line 3, column 17: priority must be a number from -10 to 10"},
		{"a time without a unit", "workflow: [A]\njobs:\n  A: {timeout: 90}\n", "line 3, column 16: timeout must be a time such as 90s, 15m or 1h30m"},
		{"two ways to say how often", "workflow: [A]\njobs:\n  A: {retries: 1, max_attempts: 2}\n", "line 3, column 33: A has both retries and max_attempts"},
		{"a variable for a function", "workflow: [A]\njobs:\n  A: {env: {X: y}}\n", "line 3, column 12: env is for tasks that are commands"},
		{"a variable of the server", "workflow: [A]\njobs:\n  A: {task: x, env: {HAULIER_RUN: y}}\n", `line 3, column 22: HAULIER_RUN: variables that begin with HAULIER_`},
		{"a label of the workflow", "workflow: [A]\njobs:\n  A: {labels: {run: y}}\n", "line 3, column 16: label run is set by the workflow itself"},
		{"a kind that is unknown", "workflow: [A]\njobs:\n  A: {task: {podman: x}}\n", `line 3, column 14: "podman" is not known in task: use one of exec, http, none`},
		{"two kinds", "workflow: [A]\njobs:\n  A: {task: {exec: x, none: }}\n", "a task has one kind"},
		{"an empty command", "workflow: [A]\njobs:\n  A: {task: ''}\n", "line 3, column 13: the command is empty"},
		{"a queue that can't be", "workflow: [A]\njobs:\n  A: {queue: 'a/b'}\n", "line 3, column 14: queue \"a/b\" has '/' in it"},
		{"a queue that one permutation can't have", "workflow: [A]\njobs:\n  A: {queue: 'q-${{ matrix.x }}', matrix: {x: [a, 'b c']}}\n", "line 3, column 14: queue \"q-b c\" has ' ' in it"},
		{"keys where nothing runs", "workflow: [A, B]\njobs:\n  A: {task: {none: }, blocked_by: B}\n  B: {task: x}\n", "line 3, column 6: job A has nothing to run"},
		{"a reference", "workflow: &x [A]\njobs: *x\n", "line 1, column 11: &x marks a place to refer to"},
		{"a type of one's own", "workflow: [!foo A]\n", "line 1, column 12: !foo is a type of its own"},
		{"a number that is none in JSON", "workflow: [A]\njobs:\n  A: {payload: {x: .inf}}\n", "line 3, column 20: JSON has no .inf"},
		{"a NUL byte", "workflow: [A]\njobs:\n  A: {task: \"x\\0\"}\n", "line 3, column 13: a command has a NUL byte in it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := workflow.Parse([]byte(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got  %v\nwant %s", err, c.want)
			}
			if !errors.Is(err, haulier.ErrInvalid) {
				t.Errorf("%v is no ErrInvalid", err)
			}
		})
	}
}

// One reading tells all faults, by line.
func TestFaultsTogether(t *testing.T) {
	_, err := workflow.Parse([]byte("workflow:\n  - A\n  - B\njobs:\n  B:\n    task: {podman: x}\n    retries: many\n  A:\n    timeout: 5\n  C: {task: x}\ntitle: y\n"))
	var all workflow.Errors
	if !errors.As(err, &all) {
		t.Fatalf("%T is not Errors", err)
	}
	var lines []int
	for _, e := range all {
		lines = append(lines, e.Line)
	}
	if got := fmt.Sprint(lines); got != "[6 7 9 10 11]" {
		t.Errorf("faults in lines %s of\n%v", got, err)
	}
}

// However much a text asks for, little is done.
func TestBounds(t *testing.T) {
	list := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "%d,", i)
		}
		return "[" + b.String() + "]"
	}
	matrix := func(name string, n int) string {
		return fmt.Sprintf("  %s: {task: x, matrix: {x: %s}}\n", name, list(n))
	}
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'j'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat("*"+string(c-1)+",", 9), ","))
	}
	chain := "jobs:\n  all: {requires: [" // of jobs each of which requires all before it
	for i := range 400 {
		chain += fmt.Sprintf("j%d,", i)
	}
	chain += "]}\n"
	for i := range 400 {
		var before []string
		for k := range i {
			before = append(before, fmt.Sprintf("j%d", k))
		}
		chain += fmt.Sprintf("  j%d: {requires: [%s]}\n", i, strings.Join(before, ","))
	}
	for _, c := range []struct{ name, text, want string }{
		{"a long text", strings.Repeat("#\n", workflow.MaxSource), "at most 1048576"},
		{"references that multiply", bomb, "references aren't read"},
		{"a deep text", "workflow: " + strings.Repeat("[", 5000), "not YAML"},
		{"axes that multiply", "workflow: [A]\njobs:\n  A: {matrix: {a: " + list(200) + ", b: " + list(200) + "}}\n", "more than 10000 permutations"},
		{"matrices that add up", "workflow: [A, B]\njobs:\n" + matrix("A", 6000) + matrix("B", 6000), "comes to 12001 jobs"},
		{"needs that add up", strings.Replace(chain, "requires: []", "priority: 1", 1), "wait for each other 80200 times"},
		{"a script that is multiplied", "workflow: [A]\njobs:\n  A: {task: '" + strings.Repeat("x", 40000) + "', matrix: {x: " + list(5000) + "}}\n", "with all permutations: at most"},
		{"values that are multiplied", "workflow: [A]\njobs:\n  A: {task: '" + strings.Repeat("${{matrix.x}}", 3000) + "', matrix: {x: [" + strings.Repeat("y", 100) + "]}}\n", "the task of A comes to 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := workflow.Parse([]byte(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %.300v, want %s", err, c.want)
			}
		})
	}
	t.Run("ten thousand jobs are not too many", func(t *testing.T) {
		w := parse(t, "workflow: [A, B]\njobs:\n"+matrix("A", 5000)+matrix("B", 4999))
		specs := jobs(t, w, workflow.Run{})
		if len(specs) != haulier.MaxBatch {
			t.Fatalf("%d jobs", len(specs))
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"workflow:\n- A\n- parallel:\n  - B\n  - [C, D]\n- E\n",
		"name: x\non: {event: push}\nrequires: [y]\nbuild_periodically: H * * * *\nworkflow: [A]\njobs:\n  A:\n    task: [echo, '${{ matrix.x }}', $${{]\n    matrix: {x: [1, 2], y: [a], include: [{x: 3, y: b}], exclude: [{x: 1}]}\n",
		"jobs:\n  a: {task: {exec: {shell: x, dir: /, grace: 1s}}, backoff: [1s, 2s], detached: true}\n  b: {task: {none: }, requires: a, when: finished}\n  c: {task: {script: }, type: thumbnail}\n",
		"workflow: [A]\njobs:\n  A: {payload: {a: [1, .5, true, null, 'x', 2020-01-01]}, blocked_by: [o.x], labels: {l: v}, concurrent: 5m}\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		w, err := workflow.Parse(text)
		if err != nil {
			var all workflow.Errors
			if !errors.As(err, &all) || len(all) == 0 || len(all) > 50 {
				t.Fatalf("%T: %v", err, err)
			}
			for _, e := range all {
				if e.Line < 1 || e.Column < 1 || e.Msg == "" {
					t.Fatalf("%+v", e)
				}
			}
			return
		}
		if w.Name == "" {
			w.Name = "w"
		}
		for _, from := range append(w.JobNames()[:min(3, len(w.JobNames()))], "") {
			specs, err := w.Jobs(workflow.Run{ID: "r", From: from, Force: true})
			if err != nil && from != "" {
				t.Fatal(err)
			}
			closed(t, specs)
		}
		if g := w.Graph(); len(g.Nodes) <= 100 {
			_, _ = g.Text(nil), g.SVG(nil)
		}
	})
}

// closed checks what the engine asks of a request: each need names a job before it, no name comes twice.
func closed(t *testing.T, specs []haulier.Spec) {
	t.Helper()
	seen := map[string]bool{}
	for i := range specs {
		needs := map[string]bool{}
		for _, n := range specs[i].Needs {
			if !seen[n.Ref] || needs[n.Ref] {
				t.Fatalf("%s needs %q, which is not before it or named twice", specs[i].Ref, n.Ref)
			}
			needs[n.Ref] = true
		}
		if seen[specs[i].Ref] {
			t.Fatalf("%s stands there twice", specs[i].Ref)
		}
		seen[specs[i].Ref] = true
	}
}
