package server_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/server"
)

// description is what of an OpenAPI document the tests look at.
type description struct {
	OpenAPI string `json:"openapi"`
	Paths   map[string]map[string]struct {
		OperationID string `json:"operationId"`
		Summary     string
		Security    []map[string][]string
		Responses   map[string]struct {
			Content map[string]json.RawMessage
		}
	}
	Components struct {
		Schemas map[string]struct {
			Properties map[string]json.RawMessage
		}
	}
}

func describe(t *testing.T, h http.Handler) (description, string) {
	t.Helper()
	status, header, body := ask(t, h, request{method: "GET", path: "/openapi.json"})
	if status != 200 || header.Get("Content-Type") != "application/openapi+json" {
		t.Fatal(status, header)
	}
	var d description
	if err := json.Unmarshal([]byte(body), &d); err != nil {
		t.Fatal(err)
	}
	return d, body
}

func TestTheDescriptionHasEachOperation(t *testing.T) {
	h := newServer(t, server.Config{Queue: &recorder{}, Auth: tokens{}}).Handler()
	d, body := describe(t, h)
	if d.OpenAPI != "3.1.0" {
		t.Errorf("version %s", d.OpenAPI)
	}
	ids := map[string]bool{}
	n := 0
	for path, ops := range d.Paths {
		for method, op := range ops {
			n++
			if op.OperationID == "" || ids[op.OperationID] || op.Summary == "" || op.Responses["default"].Content["application/problem+json"] == nil {
				t.Errorf("%s %s: %+v", method, path, op)
			}
			ids[op.OperationID] = true
			if open := strings.HasSuffix(path, "z"); open != (op.Security == nil) {
				t.Errorf("%s %s: security %v", method, path, op.Security)
			}
			// What is described is there: without a token it asks for one.
			if status, _, _ := ask(t, h, request{method: strings.ToUpper(method), path: strings.ReplaceAll(path, "{id}", anID)}); status != 401 && status != 200 {
				t.Errorf("%s %s: %d", method, path, status)
			}
		}
	}
	if n != len(operations)+2 {
		t.Errorf("%d operations, %d are tested, besides health", n, len(operations))
	}
	for _, ref := range regexp.MustCompile(`"#/components/schemas/(\w+)"`).FindAllStringSubmatch(body, -1) {
		if s, ok := d.Components.Schemas[ref[1]]; !ok || s.Properties == nil && ref[1] != "NoTask" {
			t.Errorf("schema %s is missing", ref[1])
		}
	}
}

func TestJobsLookAsDescribed(t *testing.T) {
	d, _ := describe(t, newServer(t, server.Config{Queue: &recorder{}}).Handler())
	j := haulier.Job{
		Spec: haulier.Spec{ID: haulier.ID{1}, Parent: haulier.ID{2}, Payload: []byte("{}"), Blob: "b", RetryUntil: someTime, Timeout: 1, Retention: 1,
			Labels: map[string]string{"a": "b"}, Group: "g", Flow: &haulier.Flow{
				Ref: "a", Needs: []haulier.Need{{}}, Holds: []string{"k"}, YieldsTo: []haulier.Yield{{}}, Unique: &haulier.Unique{}, Collapse: "c",
				Limits: []string{"l"}, Then: "next", Signal: "s", Windows: []string{"w"}, Force: true, Chain: true, Batch: haulier.ID{9},
			}},
		Status: haulier.Status{State: haulier.Running, RunAt: someTime, Result: []byte{0xff}, Percent: 1, Step: "s", StartedAt: someTime,
			FinishedAt: someTime, PurgeAt: someTime, History: []haulier.Change{{}}, HistoryCut: 1, Session: haulier.ID{3}, Standing: &haulier.Standing{
				NeedsLeft: 1, Needed: true, Gate: "k", CalledAt: someTime, Held: []string{"k"}, Waived: []string{"k"}, Frozen: "w", Forced: true, Survivor: haulier.ID{4}, Cause: haulier.ID{5},
			}},
	}
	for _, c := range []struct {
		schema string
		value  any
	}{{"JobDocument", j}, {"Session", haulier.Session{}}, {"QueueStatus", haulier.QueueStatus{PausedAt: time.Now()}}, {"Problem", server.Problem{Instance: "x"}}} {
		b, err := json.Marshal(c.value)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(b, &fields); err != nil {
			t.Fatal(err)
		}
		for name := range fields {
			if d.Components.Schemas[c.schema].Properties[name] == nil {
				t.Errorf("%s.%s is not described", c.schema, name)
			}
		}
	}
}

func TestTheDocsNeedNothingFromOtherHosts(t *testing.T) {
	h := newServer(t, server.Config{Queue: &recorder{}}).Handler()
	link := regexp.MustCompile(`(?:src|href)="(/[^"#]*)"`)
	_, header, page := ask(t, h, request{method: "GET", path: "/docs"})
	if !strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Error("the page may load from anywhere")
	}
	for _, m := range link.FindAllStringSubmatch(page, -1) {
		status, header, body := ask(t, h, request{method: "GET", path: m[1]})
		if status != 200 || header.Get("Content-Type") == "" {
			t.Errorf("%s: %d", m[1], status)
		}
		if m[1] != "/openapi.json" {
			page += body
		}
	}
	if other := regexp.MustCompile(`https?://|@import|url\(`).FindString(page); other != "" {
		t.Errorf("the page names something elsewhere: %s", other)
	}
}
