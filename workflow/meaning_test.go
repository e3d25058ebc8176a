package workflow_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/workflow"
)

// tree is a workflow as its reader understands it: a job, or steps one after the other or beside each other.
type tree struct {
	job      string
	parallel bool
	steps    []*tree
}

func (n *tree) jobs() []string {
	if n.job != "" {
		return []string{n.job}
	}
	var out []string
	for _, s := range n.steps {
		out = append(out, s.jobs()...)
	}
	return out
}

// order says which jobs come before which.
func (n *tree) order(before map[[2]string]bool) {
	for i, s := range n.steps {
		s.order(before)
		for _, later := range n.steps[i+1:] {
			for _, a := range s.jobs() {
				for _, b := range later.jobs() {
					before[[2]string{a, b}] = before[[2]string{a, b}] || !n.parallel
				}
			}
		}
	}
}

func (n *tree) yaml() string {
	if n.job != "" {
		return n.job
	}
	var out []string
	for _, s := range n.steps {
		out = append(out, s.yaml())
	}
	text := "[" + strings.Join(out, ", ") + "]"
	if n.parallel {
		return "{parallel: " + text + "}"
	}
	return text
}

// drawTree makes a workflow of n jobs.
func drawTree(t *rapid.T, first, n int) *tree {
	if n == 1 {
		return &tree{job: fmt.Sprintf("j%d", first)}
	}
	out := &tree{parallel: rapid.Bool().Draw(t, "parallel")}
	for n > 0 {
		k := rapid.IntRange(1, n).Draw(t, "part")
		if k == n && len(out.steps) == 0 {
			k = n - 1
		}
		out.steps = append(out.steps, drawTree(t, first, k))
		first, n = first+k, n-k
	}
	return out
}

// close adds what follows: what comes before what comes before.
func closeOver(names []string, before map[[2]string]bool) {
	for _, k := range names {
		for _, a := range names {
			for _, b := range names {
				if before[[2]string{a, k}] && before[[2]string{k, b}] {
					before[[2]string{a, b}] = true
				}
			}
		}
	}
}

// For any workflow the needs of the compiled jobs mean exactly what its sequences, parallels and requires say: no
// more, and no less.
func TestOrderMeansWhatTheTextSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 12).Draw(t, "jobs")
		root := &tree{steps: []*tree{drawTree(t, 0, n)}}
		names := root.jobs()
		want := map[[2]string]bool{}
		root.order(want)
		perms := map[string]int{}
		text := "workflow: " + root.yaml() + "\njobs:\n"
		for i, name := range names {
			perms[name] = rapid.SampledFrom([]int{1, 1, 1, 2, 9}).Draw(t, "permutations")
			text += "  " + name + ": {"
			if perms[name] > 1 {
				text += "matrix: {x: [" + strings.TrimSuffix(strings.Repeat("%d,", perms[name]), ",") + "]}, "
				text = fmt.Sprintf(text, counts(perms[name])...)
			}
			if other := rapid.IntRange(0, n*2).Draw(t, "requires"); other < i {
				want[[2]string{names[other], name}] = true
				text += "requires: " + names[other]
			}
			text += "}\n"
		}
		closeOver(names, want)
		w, err := workflow.Parse([]byte(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		w.Name = "w"
		specs, err := w.Jobs(workflow.Run{ID: "r"})
		if err != nil {
			t.Fatal(err)
		}
		before := ancestors(specs)
		for _, a := range specs {
			for _, b := range specs {
				ja, jb := a.Labels["job"], b.Labels["job"]
				if ja == "" || jb == "" {
					continue
				}
				if got := before[b.Ref][a.Ref]; got != (want[[2]string{ja, jb}] && ja != jb) {
					t.Fatalf("%s before %s: %v in\n%s", a.Ref, b.Ref, got, text)
				}
			}
		}
		if total := len(specs); total > 0 {
			checkCounts(t, specs, perms)
		}
	})
}

func counts(n int) (out []any) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

// ancestors are the jobs that come before each, by way of others too.
func ancestors(specs []haulier.Spec) map[string]map[string]bool {
	out := map[string]map[string]bool{}
	for _, s := range specs {
		all := map[string]bool{}
		for _, n := range s.Needs {
			all[n.Ref] = true
			for r := range out[n.Ref] {
				all[r] = true
			}
		}
		out[s.Ref] = all
	}
	return out
}

// checkCounts checks that each job is there once for each permutation, and that needs stay few.
func checkCounts(t *rapid.T, specs []haulier.Spec, perms map[string]int) {
	got, needs := map[string]int{}, 0
	for _, s := range specs {
		got[s.Labels["job"]]++
		needs += len(s.Needs)
	}
	for name, n := range perms {
		if got[name] != n {
			t.Fatalf("%d jobs of %s, want %d", got[name], name, n)
		}
	}
	if needs > 100*len(specs) {
		t.Fatalf("%d needs among %d jobs", needs, len(specs))
	}
}
