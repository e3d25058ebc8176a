package enginetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/haulier/haulier"
)

var ordering = []behaviour{
	{"a workflow is kept in versions, and a run keeps to its own", workflowVersions},
	{"a run does its jobs in order, and succeeds with the last", runInOrder},
	{"a failed run goes on from where it failed", runRetried},
	{"a run that is cancelled ends", runCancelled},
	{"a run may start at a job", runFrom},
	{"an event starts each workflow that waits for it once", runByEvent},
	{"the success of a workflow starts another", runByWorkflow},
	{"a schedule starts a workflow", runBySchedule},
	{"of runs that wait only the newest is left, if that is wanted", runsCollapse},
	{"freeze windows of a workflow keep its jobs from starting", workflowFrozen},
	{"what is wrong with a workflow is told with its line", workflowRefused},
	{"a removed workflow is started by nothing", workflowRemoved},
}

func (h *Harness) apply(name, source string) haulier.Workflow {
	h.t.Helper()
	w, err := h.ApplyWorkflow(h.t.Context(), "", name, source, "ann")
	if err != nil {
		h.t.Fatalf("apply %s: %v", name, err)
	}
	return w
}

func (h *Harness) startRun(name string) haulier.Run {
	h.t.Helper()
	r, err := h.StartRun(h.t.Context(), haulier.RunRequest{Workflow: name, By: "ann", Payload: []byte(`{"x":1}`)})
	if err != nil {
		h.t.Fatalf("start %s: %v", name, err)
	}
	return r
}

// runs says how the runs of a workflow stand, the newest first.
func (h *Harness) runs(name string) string {
	h.t.Helper()
	list, err := h.Runs(h.t.Context(), "", name, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	var out []string
	for i := range list {
		out = append(out, fmt.Sprintf("%s %s", list[i].ID, list[i].State))
	}
	return strings.Join(out, ", ")
}

func (h *Harness) wantRuns(name, want string) {
	h.t.Helper()
	if got := h.runs(name); got != want {
		h.t.Errorf("runs of %s: %s; want %s", name, got, want)
	}
}

// does claims what may run, in a session for jobs of these names, and ends it; the names that were claimed are returned.
func (h *Harness) does(session haulier.ID, fail ...string) string {
	h.t.Helper()
	var names []string
	for _, j := range h.claim(session, 100) {
		names = append(names, j.Type)
		outcome := haulier.OutcomeOK
		for _, f := range fail {
			if f == j.Type {
				outcome = haulier.OutcomeFailed
			}
		}
		h.finish(session, j, outcome)
	}
	return strings.Join(names, " ")
}

func (h *Harness) openFor(types ...string) haulier.ID {
	return h.open(func(s *haulier.Session) {
		patient(s)
		s.Types = types
	})
}

func workflowVersions(t *testing.T, h *Harness) {
	h.apply("w", "workflow: [A]")
	if w := h.apply("w", "workflow: [A]"); w.Version != 1 {
		t.Errorf("the same text is version %d", w.Version)
	}
	r := h.startRun("w")
	if w := h.apply("w", "workflow: [A, B]"); w.Version != 2 || w.Runs != 1 || len(w.Jobs) != 2 || w.AppliedBy != "ann" {
		t.Errorf("%+v", w)
	}
	if old, err := h.Workflow(t.Context(), "", "w", 1); err != nil || old.Source != "workflow: [A]" {
		t.Errorf("%+v, %v", old, err)
	}
	if g, err := h.WorkflowGraph(t.Context(), "", "", r.ID, false); err != nil || strings.Contains(g, "B") || !strings.Contains(g, "A") {
		t.Errorf("the graph of the run of version 1 is %q, %v", g, err)
	}
	if g, err := h.WorkflowGraph(t.Context(), "", "w", "", true); err != nil || !strings.Contains(g, "<svg") {
		t.Errorf("%q, %v", g, err)
	}
	list, err := h.Workflows(t.Context(), "")
	if err != nil || len(list) != 1 || list[0].Version != 2 || list[0].Source != "" {
		t.Errorf("%+v, %v", list, err)
	}
}

func runInOrder(t *testing.T, h *Harness) {
	h.apply("w", "workflow:\n  - A\n  - parallel: [B, C]\n  - D\n")
	s := h.openFor("A", "B", "C", "D")
	r := h.startRun("w")
	h.wantRuns("w", "w-1 waiting")
	for _, want := range []string{"A", "B C", "D"} {
		jobs := h.claim(s, 10)
		got := ""
		for _, j := range jobs {
			got += " " + j.Type
			if j.Type == "A" && string(j.Payload) != `{"x":1}` {
				t.Errorf("the first job has the payload %q", j.Payload)
			}
			h.ok(s, j)
		}
		if got != " "+want {
			t.Errorf("claimed%s, want %s", got, want)
		}
	}
	h.wantRuns("w", "w-1 succeeded")
	run, err := h.GetRun(t.Context(), "", r.ID)
	if err != nil || run.Counts["succeeded"] != len(run.Jobs) || len(run.Jobs) < 4 || run.EndedAt.IsZero() || run.StartedBy != "ann" {
		t.Errorf("%+v, %v", run, err)
	}
}

func runRetried(t *testing.T, h *Harness) {
	h.apply("w", "workflow: [A, B, C]\njobs:\n  A: {type: A, max_attempts: 1}\n  B: {type: B, max_attempts: 1}\n  C: {type: C}\n  oops: {type: oops, requires: B, when: failed}\n")
	s := h.openFor("A", "B", "C", "oops")
	r := h.startRun("w")
	h.does(s)
	h.does(s, "B")
	if got := h.does(s); got != "oops" {
		t.Errorf("after the failure runs %q", got)
	}
	h.wantRuns("w", "w-1 failed")
	if c, err := h.RetryRun(t.Context(), "", r.ID, "ann"); err != nil || c.N != 1 {
		t.Errorf("%+v, %v", c, err)
	}
	h.wantRuns("w", "w-1 running")
	if got := h.does(s) + " " + h.does(s); got != "B C" {
		t.Errorf("then run %q", got)
	}
	h.wantRuns("w", "w-1 succeeded")
}

func runCancelled(t *testing.T, h *Harness) {
	h.apply("w", "workflow: [A, B]")
	r := h.startRun("w")
	if c, err := h.CancelRun(t.Context(), "", r.ID, "ann", "why not"); err != nil || c.N == 0 {
		t.Errorf("%+v, %v", c, err)
	}
	h.pass(time.Second)
	h.wantRuns("w", "w-1 cancelled")
	if _, err := h.CancelRun(t.Context(), "", "w-9", "ann", ""); !errors.Is(err, haulier.ErrNotFound) {
		t.Errorf("a run that is not there: %v", err)
	}
}

func runFrom(t *testing.T, h *Harness) {
	h.apply("w", "workflow: [A, B, C]")
	s := h.openFor("A", "B", "C")
	if _, err := h.StartRun(t.Context(), haulier.RunRequest{Workflow: "w", From: "B"}); err != nil {
		t.Fatal(err)
	}
	if got := h.does(s) + " " + h.does(s); got != "B C" {
		t.Errorf("from B run %q", got)
	}
	h.wantRuns("w", "w-1 succeeded")
	if _, err := h.StartRun(t.Context(), haulier.RunRequest{Workflow: "w", From: "Z"}); !errors.Is(err, haulier.ErrNotFound) {
		t.Errorf("from a job that is not there: %v", err)
	}
}

func runByEvent(t *testing.T, h *Harness) {
	h.apply("one", "on: {event: pushed}\nworkflow: [A]")
	h.apply("two", "on: {event: [pulled, pushed]}\nworkflow: [B]")
	h.apply("none", "workflow: [C]")
	if err := h.PostEvent(t.Context(), haulier.Signal{Name: "pushed", Payload: []byte(`[7]`), By: "ann"}); err != nil {
		t.Fatal(err)
	}
	h.restart() // whatever happens
	h.pass(time.Second)
	h.wantRuns("one", "one-1 waiting")
	h.wantRuns("two", "two-1 waiting")
	h.wantRuns("none", "")
	s := h.openFor("A")
	if j := h.claimOne(s); string(j.Payload) != "[7]" {
		t.Errorf("payload %q", j.Payload)
	}
	if err := h.PostEvent(t.Context(), haulier.Signal{Name: "workflow:one"}); !errors.Is(err, haulier.ErrInvalid) {
		t.Errorf("an event of a workflow, posted by hand: %v", err)
	}
}

func runByWorkflow(_ *testing.T, h *Harness) {
	h.apply("first", "workflow: [A]\njobs: {A: {type: A, max_attempts: 1}}")
	h.apply("second", "requires: first\nworkflow: [B]")
	s := h.openFor("A", "B")
	h.startRun("first")
	h.does(s, "A")
	h.pass(time.Second)
	h.wantRuns("second", "")
	h.startRun("first")
	h.does(s)
	h.pass(time.Second)
	h.wantRuns("second", "second-1 waiting")
}

func runBySchedule(t *testing.T, h *Harness) {
	h.apply("w", "build_periodically: '@every 10s'\nworkflow: [A]")
	h.pass(25 * time.Second)
	h.wantRuns("w", "w-2 waiting, w-1 waiting")
	if list, err := h.Schedules(t.Context(), ""); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	h.apply("w", "workflow: [A]")
	h.pass(time.Minute)
	h.wantRuns("w", "w-2 waiting, w-1 waiting")
	if list, err := h.Schedules(t.Context(), ""); err != nil || len(list) != 0 {
		t.Errorf("the schedule of an earlier version is left: %+v, %v", list, err)
	}
}

func runsCollapse(_ *testing.T, h *Harness) {
	h.apply("w", "collapse: runs\nworkflow: [A, {parallel: [B, C]}, D]")
	h.apply("next", "requires: w\nworkflow: [E]")
	s := h.openFor("A", "B", "C", "D", "E")
	h.startRun("w")
	if got := h.does(s); got != "A" {
		h.t.Errorf("the first run does %q", got)
	}
	h.startRun("w")
	h.startRun("w")
	h.startRun("w")
	h.wantRuns("w", "w-4 waiting, w-3 collapsed, w-2 collapsed, w-1 running")
	for _, want := range []string{"B C", "D"} {
		if got := h.does(s); got != want {
			h.t.Errorf("the first run does %q, want %s", got, want)
		}
	}
	h.pass(time.Second)
	h.wantRuns("next", "next-1 waiting")
	h.does(s)
	only := h.openFor("A", "B", "C", "D") // and not the E of the run that the end of w-4 starts, however soon
	for range 3 {
		h.does(only)
	}
	h.pass(time.Second)
	h.wantRuns("w", "w-4 succeeded, w-3 collapsed, w-2 collapsed, w-1 succeeded")
	h.wantRuns("next", "next-2 waiting, next-1 succeeded")
}

func workflowFrozen(_ *testing.T, h *Harness) {
	h.apply("w", "freeze_windows: '* 12 ? * *'\nworkflow: [A]")
	h.pass(halfPastNoon)
	s := h.openFor("A")
	h.startRun("w")
	if got := h.does(s); got != "" {
		h.t.Errorf("while it is frozen run %q", got)
	}
	if _, err := h.StartRun(h.t.Context(), haulier.RunRequest{Workflow: "w", Force: true}); err != nil {
		h.t.Fatal(err)
	}
	if got := h.does(s); got != "A" {
		h.t.Errorf("by force runs %q", got)
	}
	h.pass(31 * time.Minute)
	if got := h.does(s); got != "A" {
		h.t.Errorf("after it runs %q", got)
	}
	h.wantRuns("w", "w-2 succeeded, w-1 succeeded")
}

func workflowRefused(t *testing.T, h *Harness) {
	for text, want := range map[string]string{
		"workflow: [A]\njobs:\n  B: {requires: Z}\n":                  "line 3",
		"workflow: [A, A]":                                            "line 1",
		"workflow:\n  - A\n  - B\njobs:\n  A: {requires: B}\n  B: {}": "line",
		"build_periodically: '0 0 30 2 *'\nworkflow: [A]":             "line 1",
	} {
		if _, err := h.ApplyWorkflow(t.Context(), "", "w", text, ""); !errors.Is(err, haulier.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func workflowRemoved(t *testing.T, h *Harness) {
	h.apply("w", "on: {event: e}\nbuild_periodically: '@every 10s'\nworkflow: [A]")
	if err := h.DeleteWorkflow(t.Context(), "", "w"); err != nil {
		t.Fatal(err)
	}
	if err := h.PostEvent(t.Context(), haulier.Signal{Name: "e"}); err != nil {
		t.Fatal(err)
	}
	h.pass(time.Minute)
	if page, err := h.List(t.Context(), haulier.Filter{}, "", 10); err != nil || len(page.Jobs) > 0 {
		t.Errorf("%+v, %v", page.Jobs, err)
	}
	if _, err := h.StartRun(t.Context(), haulier.RunRequest{Workflow: "w"}); !errors.Is(err, haulier.ErrNotFound) {
		t.Errorf("start: %v", err)
	}
}
