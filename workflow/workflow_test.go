package workflow_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/workflow"
)

// parse reads a workflow that is right, and names it when it has no name.
func parse(t testing.TB, text string) *workflow.Workflow {
	t.Helper()
	w, err := workflow.Parse([]byte(text))
	if err != nil {
		t.Fatalf("parse:\n%v\nof\n%s", err, text)
	}
	if w.Name == "" {
		w.Name = "w"
	}
	return w
}

// jobs compiles a run.
func jobs(t testing.TB, w *workflow.Workflow, run workflow.Run) []haulier.Spec {
	t.Helper()
	if run.ID == "" {
		run.ID = "r1"
	}
	specs, err := w.Jobs(run)
	if err != nil {
		t.Fatalf("jobs: %v", err)
	}
	return specs
}

// order is what a run comes to, in short: "A, B<A, C<B".
func order(specs []haulier.Spec) string {
	var out []string
	for i := range specs {
		s := specs[i].Ref
		var needs []string
		for _, n := range specs[i].Needs {
			need := n.Ref
			if n.On != haulier.OnSucceeded {
				need += "!" + string(n.On)
			}
			needs = append(needs, need)
		}
		if len(needs) > 0 {
			s += "<" + strings.Join(needs, "+")
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

func wantOrder(t *testing.T, specs []haulier.Spec, want string) {
	t.Helper()
	if got := order(specs); got != want {
		t.Errorf("the run is\n  %s, want\n  %s", got, want)
	}
}

// The examples of the executor queue's document mean what it says of them.
func TestRequiredExamples(t *testing.T) {
	read := func(name string) *workflow.Workflow {
		b, err := os.ReadFile(filepath.Join("testdata", "required", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		return parse(t, string(b))
	}
	t.Run("when A succeeds B starts, and then C", func(t *testing.T) {
		wantOrder(t, jobs(t, read("triggers"), workflow.Run{}), "A, B<A, C<B")
	})
	t.Run("D waits for B and C", func(t *testing.T) {
		wantOrder(t, jobs(t, read("join"), workflow.Run{}), "A, B<A, C<A, D<B+C")
	})
	t.Run("of runs that come meanwhile only the newest is left", func(t *testing.T) {
		for _, s := range jobs(t, read("collapse"), workflow.Run{}) {
			key := "w." + s.Type
			if s.Collapse != key || !slices.Equal(s.Holds, []string{key}) || len(s.YieldsTo) != 1 || s.YieldsTo[0].Key != key {
				t.Errorf("%s has %+v", s.Ref, s.Flow)
			}
		}
	})
	t.Run("detached jobs start by themselves", func(t *testing.T) {
		w := read("detached")
		if specs, err := w.Jobs(workflow.Run{ID: "r"}); !errors.Is(err, haulier.ErrInvalid) || len(specs) > 0 {
			t.Errorf("the whole workflow gave %s, %v; nothing of it may start", order(specs), err)
		}
		wantOrder(t, jobs(t, w, workflow.Run{From: "A"}), "A")
		wantOrder(t, jobs(t, w, workflow.Run{From: "B"}), "B, C<B")
	})
}
