package workflow_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/workflow"
)

func TestInputsAndOutputs(t *testing.T) {
	w, err := workflow.Parse([]byte(`name: site
workflow: [build, {parallel: [test, lint]}, pack]
jobs:
  build:
    task: make
    inputs: [sources@3, {fileset: data, patterns: ["**/*.dat", "!tmp/**"], to: in}]
    outputs: {fileset: dist, patterns: [bin/*], on: finished, keep: 5}
  test:
    task: make test
    matrix: {os: [linux, mac]}
    inputs: {from: build, to: dist}
    outputs: "report-${{ matrix.os }}"
  lint: {task: make lint}
  pack: {task: make pack, inputs: [{from: build}, report-linux]}
`))
	if err != nil {
		t.Fatal(err)
	}
	specs := map[string]haulier.Spec{}
	for _, s := range jobs(t, w, workflow.Run{ID: "r1"}) {
		specs[s.Ref] = s
	}
	for ref, want := range map[string]*haulier.Files{
		"build": {
			Inputs:  []haulier.Input{{Fileset: "sources@3"}, {Fileset: "data", Patterns: []string{"**/*.dat", "!tmp/**"}, To: "in"}},
			Outputs: &haulier.Output{Fileset: "dist", Patterns: []string{"bin/*"}, On: haulier.OnFinished, Keep: 5},
		},
		"test[os:mac]": {Inputs: []haulier.Input{{From: "build", To: "dist"}}, Outputs: &haulier.Output{Fileset: "report-mac"}},
		"pack":         {Inputs: []haulier.Input{{From: "build"}, {Fileset: "report-linux"}}},
		"lint":         nil,
	} {
		if got := specs[ref].Files; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", ref, got, want)
		}
	}
	needed := func(s haulier.Spec) bool {
		for _, n := range s.Needs {
			if n.Ref == "build" {
				return true
			}
		}
		return false
	}
	if !needed(specs["pack"]) {
		t.Errorf("pack needs %+v: not the job whose outputs it gets", specs["pack"].Needs)
	}
	if _, err := w.Jobs(workflow.Run{ID: "r2", From: "pack"}); err == nil || !strings.Contains(err.Error(), "outputs of build, which does not run") {
		t.Errorf("a run that leaves out whose outputs are needed: %v", err)
	}
	if _, err := w.Jobs(workflow.Run{ID: "r3", From: "build"}); err != nil {
		t.Errorf("a run from the job whose outputs are needed: %v", err)
	}
}

func TestFilesThatCantBe(t *testing.T) {
	for text, says := range map[string]string{
		"a: {task: x, inputs: {from: b}}":                                                      "no job b",
		"a: {task: x, inputs: {from: a}}":                                                      "can't begin with its own",
		"a: {task: x, inputs: {from: c}}\n  c: {task: x}":                                      "has no outputs",
		"a: {task: x, inputs: {from: c}}\n  c: {task: x, matrix: {n: [1, 2]}, outputs: \"o\"}": "has a matrix",
		"a: {task: x, inputs: {from: c}}\n  c: {task: x, outputs: o, requires: a}":             "cycle",
		"a: {task: x, inputs: [{to: b}]}":                                                      "has fileset or from",
		"a: {task: x, inputs: [{fileset: b, from: c}]}":                                        "has fileset or from",
		"a: {task: x, inputs: [{fileset: b, to: ../c}]}":                                       "no folder within",
		"a: {task: x, inputs: [{fileset: b, patterns: \"[\"}]}":                                "no pattern",
		"a: {task: x, inputs: b@x}":                                                            "no version after the @",
		"a: {task: x, outputs: b@2}":                                                           "leave the @ out",
		"a: {task: x, outputs: {keep: 2}}":                                                     "no fileset",
		"a: {task: x, outputs: {fileset: b, on: later}}":                                       "on must be",
		"a: {type: x, outputs: b}":                                                             "only a command",
		"a: {task: {http: http://a}, inputs: b}":                                               "only a command",
		"a: {task: {exec: {argv: [x], dir: /tmp}}, inputs: b}":                                 "remove dir",
	} {
		_, err := workflow.Parse([]byte("name: w\nworkflow: [a]\njobs:\n  " + text + "\n"))
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "line 4, ") && !strings.Contains(err.Error(), "line 5, ") {
			t.Errorf("%s: %v; want %q with its line", text, err, says)
		}
	}
}
