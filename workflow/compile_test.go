package workflow_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/blob"
	"github.com/haulier/haulier/engine"
	"github.com/haulier/haulier/store/mem"
	"github.com/haulier/haulier/workflow"
)

const everything = `
name: release
on: {event: [push, tag]}
requires: [nightly]
build_periodically: "H 3 * * *"
workflow:
  - build
  - test
  - parallel: [package, publish]
jobs:
  build:
    task: make
    timeout: 20m
    retries: 2
    backoff: [5s, 1m]
    priority: 3
    labels: {team: core}
    runs_on: {gpu: "true"}
    env: {CGO_ENABLED: 0}
  test:
    task: [go, test, -tags, "${{ matrix.os }}", ./...]
    queue: test-${{ matrix.os }}
    payload: {go: "v${{ matrix.go }}", all: [true, 1.50, null]}
    matrix:
      go: [1.25, 1.26]
      os: [linux, "mac os"]
      exclude: [{os: mac os}]
      include: [{go: 1.27, os: linux}]
  package:
    task: {exec: {shell: "echo $${{ x", dir: /srv, grace: 30s}}
    blocked_by: [publish, other.job]
    concurrent: true
    max_attempts: 1
    backoff: {base: 1s, max: 1m, no_jitter: true}
  publish:
    type: publisher
    concurrent: 5m
    collapse: true
    payload: plain text
  clean:
    task: ./clean
    when: finished
    requires: [package, publish]
  backup:
    task: ./backup
    detached: true
    build_periodically: "@daily"
`

// Everything that a text says of a job is in the job.
func TestFields(t *testing.T) {
	w := parse(t, everything)
	byRef := map[string]haulier.Spec{}
	specs := jobs(t, w, workflow.Run{ID: "r7", Tenant: "acme", Payload: []byte("event")})
	wantOrder(t, specs, "build, test[go:1.25;os:linux]<build, test[go:1.26;os:linux]<build, test[go:1.27;os:linux]<build, "+
		"package<test[go:1.25;os:linux]+test[go:1.26;os:linux]+test[go:1.27;os:linux], "+
		"publish<test[go:1.25;os:linux]+test[go:1.26;os:linux]+test[go:1.27;os:linux], clean<package!finished+publish!finished")
	for _, s := range specs {
		if s.Tenant != "acme" || s.Group != "r7" || s.Labels["workflow"] != "release" || s.Labels["run"] != "r7" {
			t.Errorf("%s is of tenant %q, group %q, labels %v", s.Ref, s.Tenant, s.Group, s.Labels)
		}
		s.Needs = nil
		byRef[s.Ref] = s
	}
	env := func(job string, more ...string) map[string]string {
		m := map[string]string{"HAULIER_WORKFLOW": "release", "HAULIER_RUN": "r7", "HAULIER_WORKFLOW_JOB": job}
		for i := 0; i < len(more); i += 2 {
			m[more[i]] = more[i+1]
		}
		return m
	}
	self := func(key string) []haulier.Yield { return []haulier.Yield{{Key: key}} }
	for ref, want := range map[string]haulier.Spec{
		"build": {
			Task:    haulier.Task{Exec: &haulier.ExecTask{Argv: []string{"make"}, Shell: true, Env: env("build", "CGO_ENABLED", "0")}},
			Payload: []byte("event"), Priority: 3, MaxAttempts: 3, Timeout: haulier.Duration(20 * time.Minute),
			Backoff: &haulier.Backoff{List: []haulier.Duration{haulier.Duration(5 * time.Second), haulier.Duration(time.Minute)}},
			Labels:  map[string]string{"job": "build", "team": "core"}, RunsOn: map[string]string{"gpu": "true"},
			Flow: &haulier.Flow{Holds: []string{"release.build"}, YieldsTo: self("release.build")},
		},
		"test[go:1.27;os:linux]": {
			Queue:   "test-linux",
			Task:    haulier.Task{Exec: &haulier.ExecTask{Argv: []string{"go", "test", "-tags", "linux", "./..."}, Env: env("test[go=1.27,os=linux]", "MATRIX_GO", "1.27", "MATRIX_OS", "linux")}},
			Payload: []byte(`{"go":"v1.27","all":[true,1.5,null]}`),
			Labels:  map[string]string{"job": "test", "matrix": "go=1.27,os=linux"},
			Flow:    &haulier.Flow{Holds: []string{"release.test", "release.test[go:1.27;os:linux]"}, YieldsTo: self("release.test[go:1.27;os:linux]")},
		},
		"package": {
			Task:        haulier.Task{Exec: &haulier.ExecTask{Argv: []string{"echo ${{ x"}, Shell: true, Dir: "/srv", Grace: haulier.Duration(30 * time.Second), Env: env("package")}},
			MaxAttempts: 1, Backoff: &haulier.Backoff{Base: haulier.Duration(time.Second), Max: haulier.Duration(time.Minute), NoJitter: true},
			Labels: map[string]string{"job": "package"},
			Flow:   &haulier.Flow{Holds: []string{"release.package"}, YieldsTo: []haulier.Yield{{Key: "release.publish"}, {Key: "other.job"}}},
		},
		"publish": {
			Type: "publisher", Payload: []byte("plain text"), Labels: map[string]string{"job": "publish"},
			Flow: &haulier.Flow{Holds: []string{"release.publish"}, Collapse: "release.publish", YieldsTo: []haulier.Yield{{Key: "release.publish", For: haulier.Duration(5 * time.Minute)}}},
		},
	} {
		want.Tenant, want.Group, want.Ref = "acme", "r7", ref
		want.Labels["workflow"], want.Labels["run"] = "release", "r7"
		if got := byRef[ref]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s is\n%+v %+v %+v, want\n%+v %+v %+v", ref, got, got.Flow, got.Task.Exec, want, want.Flow, want.Task.Exec)
		}
	}
	want := []workflow.Trigger{
		{Event: "push", Line: 3}, {Event: "tag", Line: 3}, {Workflow: "nightly", Line: 4}, {Cron: "H 3 * * *", Line: 5},
		{Cron: "@daily", From: "backup", Line: 47},
	}
	if !reflect.DeepEqual(w.Triggers, want) {
		t.Errorf("triggers are %+v", w.Triggers)
	}
}

// The engine takes what is compiled, in one request.
func TestEngineAccepts(t *testing.T) {
	blobs, err := blob.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	store := mem.New()
	e, err := engine.New(engine.Config{Store: store, Blobs: blobs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close(); _ = store.Close(); _ = blobs.Close() })
	for _, text := range []string{
		everything,
		"name: Größe.2\nworkflow: [A, B]\njobs:\n  A: {task: x, matrix: {x: [" + strings.Repeat("'a/b,*|= ü', ", 1) + "c, " + strings.Repeat("y", 100) + "]}}\n  B: {task: {none: }}\n",
		"name: wide\nworkflow: [A, B]\njobs:\n  A: {matrix: {x: [1,2,3,4,5,6,7,8,9]}}\n  B: {matrix: {x: [1,2,3,4,5,6,7,8,9]}, when: finished}\n",
	} {
		specs := jobs(t, parse(t, text), workflow.Run{})
		res, err := e.Enqueue(context.Background(), []haulier.EnqueueRequest{{Jobs: specs}})
		if err != nil || res[0].Err != nil {
			t.Errorf("%v, %v for\n%s", err, res[0].Err, text)
			continue
		}
		if len(res[0].IDs) != len(specs) {
			t.Errorf("%d ids for %d jobs", len(res[0].IDs), len(specs))
		}
	}
}

// Wide sets of jobs meet in one job that runs nothing, so that the needs don't grow with their product.
func TestMeetingPoints(t *testing.T) {
	wide := "workflow: [A, B]\njobs:\n  A: {matrix: {x: [1,2,3,4,5,6,7,8,9]}}\n  B: {matrix: {x: [1,2,3,4,5,6,7,8,9]}"
	t.Run("of wide parallels", func(t *testing.T) {
		specs := jobs(t, parse(t, wide+"}\n"), workflow.Run{})
		if len(specs) != 19 || specs[9].Task.Kind() != haulier.KindNone || len(specs[9].Needs) != 9 {
			t.Fatalf("the run is %s", order(specs))
		}
		for _, s := range specs[10:] {
			if len(s.Needs) != 1 || s.Needs[0].Ref != specs[9].Ref || s.Needs[0].On != haulier.OnSucceeded {
				t.Errorf("%s needs %v", s.Ref, s.Needs)
			}
		}
	})
	t.Run("of those that follow when all have finished", func(t *testing.T) {
		specs := jobs(t, parse(t, wide+", when: finished}\n"), workflow.Run{})
		if specs[9].Needs[0].On != haulier.OnFinished || specs[10].Needs[0].On != haulier.OnSucceeded {
			t.Errorf("the run is %s", order(specs))
		}
	})
	t.Run("of those that follow when one has failed", func(t *testing.T) {
		specs := jobs(t, parse(t, "workflow:\n- parallel: [A, B]\n- C\njobs:\n  C: {when: failed}\n"), workflow.Run{})
		wantOrder(t, specs, "A, B, meet.1.failed<A+B, C<meet.1.failed!failed")
		specs = jobs(t, parse(t, "workflow: [A, C]\njobs:\n  C: {when: failed}\n"), workflow.Run{})
		wantOrder(t, specs, "A, C<A!failed")
	})
	t.Run("are no more than is worth it", func(t *testing.T) {
		specs := jobs(t, parse(t, "workflow:\n- parallel: [A, B]\n- parallel: [C, D]\n"), workflow.Run{})
		wantOrder(t, specs, "A, B, C<A+B, D<A+B")
	})
}

// A run may start anywhere, and leaves out what only starts by itself.
func TestParts(t *testing.T) {
	w := parse(t, "workflow:\n- A\n- parallel:\n  - B\n  - [C, D]\n- E\n- F\njobs:\n  D: {detached: true}\n  G: {requires: [B]}\n  H: {requires: [F]}\n")
	for from, want := range map[string]string{
		"":  "A, B<A, C<A, G<B",
		"A": "A, B<A, C<A, G<B",
		"B": "B, G<B, E<B, F<E, H<F",
		"D": "D, E<D, F<E, H<F",
		"C": "C",
		"F": "F, H<F",
	} {
		wantOrder(t, jobs(t, w, workflow.Run{From: from}), want)
	}
	if _, err := w.Jobs(workflow.Run{ID: "r", From: "Z"}); !errors.Is(err, haulier.ErrNotFound) || !strings.Contains(err.Error(), "A, B, C") {
		t.Errorf("from Z: %v", err)
	}
}

// What would not be kept is refused rather than forgotten.
func TestWindows(t *testing.T) {
	w := parse(t, "name: x\nworkflow: [A, B]\nfreeze_windows: ['* 9-17 ? * 1-5']\njobs:\n  A: {windows: night, freeze_windows: '* * ? 12 *'}\n  B: {task: {none: }}\n")
	want := []workflow.Calendar{{Name: "x", Freeze: []string{"* 9-17 ? * 1-5"}}, {Name: "x.A", Freeze: []string{"* * ? 12 *"}}}
	if got := w.Calendars(); !reflect.DeepEqual(got, want) {
		t.Errorf("calendars are %+v", got)
	}
	for _, force := range []bool{false, true} {
		all := jobs(t, w, workflow.Run{Force: force})
		wantOrder(t, all, "A, B<A")
		if a := all[0]; !slices.Equal(a.Windows, []string{"night", "x", "x.A"}) || a.Force != force || len(all[1].Windows) > 0 {
			t.Errorf("windows of A are %v, forced %v", a.Windows, a.Force)
		}
	}
}

func TestNames(t *testing.T) {
	w := parse(t, "workflow: [A]\n")
	for _, name := range []string{"", "a b", "a/b", strings.Repeat("x", workflow.MaxName+1)} {
		w.Name = name
		if _, err := w.Jobs(workflow.Run{ID: "r"}); !errors.Is(err, haulier.ErrInvalid) {
			t.Errorf("a workflow called %q: %v", name, err)
		}
	}
	w.Name = "ok"
	if _, err := w.Jobs(workflow.Run{ID: "a b"}); !errors.Is(err, haulier.ErrInvalid) {
		t.Errorf("a run called a b: %v", err)
	}
}
