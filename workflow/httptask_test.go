package workflow_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/workflow"
)

func TestCallsAndNotifications(t *testing.T) {
	w, err := workflow.Parse([]byte(`name: site
workflow: [build, tell]
jobs:
  build:
    task: {http: {url: "https://ci.example/build?os=${{ matrix.os }}", method: PUT, headers: {X-Team: a}, secret: ops}}
    matrix: {os: [linux]}
    notify: [{url: "https://ops.example/bad", on: failed, secret: ops}]
  tell:
    task: {http: https://ops.example/done}
    notify: https://ops.example/end
`))
	if err != nil {
		t.Fatal(err)
	}
	specs := map[string]haulier.Spec{}
	for _, s := range jobs(t, w, workflow.Run{ID: "r1"}) {
		specs[s.Labels[workflow.LabelJob]] = s
	}
	want := &haulier.HTTPTask{URL: "https://ci.example/build?os=linux", Method: "PUT", Headers: map[string]string{"X-Team": "a"}, Secret: "ops"}
	if got := specs["build"].Task.HTTP; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := specs["build"].Notify; len(got) != 1 || got[0] != (haulier.Notify{URL: "https://ops.example/bad", On: haulier.OnFailed, Secret: "ops"}) {
		t.Errorf("notifies %+v", got)
	}
	if s := specs["tell"]; s.Task.HTTP.URL != "https://ops.example/done" || len(s.Notify) != 1 || s.Notify[0].URL != "https://ops.example/end" {
		t.Errorf("%+v", s)
	}
	for what, says := range map[string]string{
		"task: {http: {method: GET}}":                  "no url",
		"task: {http: {url: http://a, verb: GET}}":     `"verb" is not known`,
		"notify: [{on: failed}]":                       "no url",
		"notify: [{url: http://a, on: now}]":           "succeeded, failed or finished",
		"notify: []":                                   "empty list",
		"{task: {http: {url: http://a}}, env: {A: b}}": "env is for tasks that are commands",
	} {
		src := "name: x\nworkflow: [a]\njobs:\n  a:\n    " + what + "\n"
		if strings.HasPrefix(what, "{") {
			src = "name: x\nworkflow: [a]\njobs:\n  a: " + what + "\n"
		}
		if _, err := workflow.Parse([]byte(src)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestAHandlerRunsTheJobOfAWorkflow(t *testing.T) {
	w, err := workflow.Parse([]byte("name: site\nworkflow: [shrink]\njobs:\n  shrink: {task: {script: }, type: thumbnail}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range jobs(t, w, workflow.Run{ID: "r1"}) {
		if s.Labels[workflow.LabelJob] == "shrink" && (s.Task.Script == nil || s.Type != "thumbnail") {
			t.Errorf("%+v", s)
		}
	}
	if _, err := workflow.Parse([]byte("name: a\nworkflow: [b]\njobs:\n  b: {task: {script: {lang: sh}}, type: c}\n")); err == nil {
		t.Error("a script with fields is taken")
	}
}
