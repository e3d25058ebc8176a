package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/server"
	"github.com/haulier/haulier/wire"
)

func TestEachErrorOfTheQueueHasItsStatus(t *testing.T) {
	q := &recorder{}
	h := newServer(t, server.Config{Queue: q}).Handler()
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{fmt.Errorf("job x: %w", haulier.ErrNotFound), 404, "not_found"},
		{fmt.Errorf("job x: %w", haulier.ErrConflict), 409, "conflict"},
		{fmt.Errorf("session x: %w", haulier.ErrLeaseLost), 410, "lease_lost"},
		{fmt.Errorf("x: %w", haulier.ErrInvalid), 400, "invalid"},
		{&haulier.FieldError{Field: "a.b", Msg: "is wrong"}, 400, "invalid"},
		{fmt.Errorf("x: %w", haulier.ErrTooLarge), 413, "too_large"},
		{fmt.Errorf("x: %w", haulier.ErrUnauthenticated), 401, "unauthenticated"},
		{fmt.Errorf("x: %w", haulier.ErrForbidden), 403, "forbidden"},
		{fmt.Errorf("x: %w", haulier.ErrUnavailable), 503, "unavailable"},
		{fmt.Errorf("secret path: %w", haulier.ErrCorrupt), 500, "corrupt"},
		{errors.New("secret path"), 500, "internal"},
	} {
		q.fail = c.err
		for _, path := range []string{"/v1/jobs", "/v1/jobs/" + anID, "/v1/queues", "/v1/jobs/" + anID + "/log"} {
			p := problem(t, h, request{method: "GET", path: path}, c.status, c.code)
			if c.status == 500 && (strings.Contains(p.Detail, "secret") || !strings.HasPrefix(p.Instance, "urn:uuid:")) {
				t.Errorf("%v is told as %+v", c.err, p)
			}
		}
		problem(t, h, request{method: "POST", path: "/v1/jobs", body: `{"jobs":[{"type":"a"}]}`}, c.status, c.code)
		problem(t, h, request{method: "POST", path: "/v1/sessions/" + anID + "/claim"}, c.status, c.code)
	}
	q.fail = &haulier.FieldError{Field: "jobs[3].priority", Msg: "is 99"}
	if p := problem(t, h, request{method: "GET", path: "/v1/jobs"}, 400, "invalid"); len(p.Errors) != 1 || p.Errors[0].Field != "jobs[3].priority" || p.Errors[0].Message != "is 99" {
		t.Errorf("fields %+v", p.Errors)
	}
	q.fail = &haulier.RetryAfterError{After: 1500 * time.Millisecond, Cause: errors.New("full")}
	if _, header, _ := ask(t, h, request{method: "GET", path: "/v1/jobs"}); header.Get("Retry-After") != "2" {
		t.Errorf("Retry-After %q", header.Get("Retry-After"))
	}
}

func TestRequestsThatAreNotHTTPAsItShouldBe(t *testing.T) {
	h := newServer(t, server.Config{Queue: &recorder{}}).Handler()
	good := `{"jobs":[{"type":"a"}]}`
	with := func(k, v string) map[string]string { return map[string]string{k: v} }
	for _, c := range []struct {
		name string
		request
		status int
		code   string
	}{
		{"unknown route", request{method: "GET", path: "/v1/nothing"}, 404, "not_found"},
		{"root", request{method: "GET", path: "/"}, 404, "not_found"},
		{"wrong method", request{method: "PATCH", path: "/v1/jobs"}, 405, "method_not_allowed"},
		{"form", request{method: "POST", path: "/v1/jobs", body: good, header: with("Content-Type", "application/x-www-form-urlencoded")}, 415, "unsupported_media_type"},
		{"plain text", request{method: "POST", path: "/v1/jobs", body: good, header: with("Content-Type", "text/plain")}, 415, "unsupported_media_type"},
		{"no type", request{method: "POST", path: "/v1/jobs", body: good, header: with("Content-Type", "")}, 415, "unsupported_media_type"},
		{"binary where there is none", request{method: "POST", path: "/v1/tokens", body: "x", header: with("Content-Type", wire.ContentType)}, 415, "unsupported_media_type"},
		{"compressed", request{method: "POST", path: "/v1/jobs", body: good, header: with("Content-Encoding", "gzip")}, 415, "unsupported_media_type"},
		{"long URL", request{method: "GET", path: "/v1/jobs?label=a=" + strings.Repeat("x", 9000)}, 414, "uri_too_long"},
		{"long header", request{method: "GET", path: "/v1/jobs", header: with("X-Long", strings.Repeat("x", 40000))}, 431, "header_too_large"},
		{"long body", request{method: "POST", path: "/v1/jobs/get", body: `{"ids":[` + strings.Repeat(" ", 5<<20) + `]}`}, 413, "too_large"},
	} {
		t.Run(c.name, func(t *testing.T) { problem(t, h, c.request, c.status, c.code) })
	}
	if _, header, _ := ask(t, h, request{method: "PATCH", path: "/v1/jobs"}); header.Get("Allow") != "GET, POST" {
		t.Errorf("Allow %q", header.Get("Allow"))
	}
	if status, _, body := ask(t, h, request{method: "POST", path: "/v1/jobs", body: good, header: with("Content-Type", "application/json; charset=utf-8")}); status != http.StatusCreated {
		t.Errorf("JSON with a charset: %d %s", status, body)
	}
}

func TestWrongFieldsAreNamedByTheirPath(t *testing.T) {
	h := newServer(t, server.Config{Queue: &recorder{}}).Handler()
	jobs := func(job string) request {
		return request{method: "POST", path: "/v1/jobs", body: `{"jobs":[{"type":"a"},` + job + `]}`}
	}
	post := func(path, body string) request { return request{method: "POST", path: path, body: body} }
	get := func(path string) request { return request{method: "GET", path: path} }
	report := func(fields string) request {
		return post("/v1/sessions/"+anID+"/reports", `{"reports":[{"job":"`+anID+`","attempt":1,`+fields+`}]}`)
	}
	for _, c := range []struct {
		request
		field string
	}{
		{jobs(`{"typ":"a"}`), "jobs[1].typ"},
		{jobs(`{"type":1}`), "jobs[1].type"},
		{jobs(`{"priority":"high"}`), "jobs[1].priority"},
		{jobs(`{"priority":1.5}`), "jobs[1].priority"},
		{jobs(`{"delay":60}`), "jobs[1].delay"},
		{jobs(`{"delay":"soon"}`), "jobs[1].delay"},
		{jobs(`{"delay":"-1s"}`), "jobs[1].delay"},
		{jobs(`{"delay":"1s","run_at":"2026-01-31T09:30:00Z"}`), "jobs[1].delay"},
		{jobs(`{"run_at":"tomorrow"}`), "jobs[1].run_at"},
		{jobs(`{"retry_for":"1h","retry_until":"2026-01-31T09:30:00Z"}`), "jobs[1].retry_for"},
		{jobs(`{"retry_for":"-1h"}`), "jobs[1].retry_for"},
		{jobs(`{"payload":1,"payload_bytes":"aGk="}`), "jobs[1].payload_bytes"},
		{jobs(`{"payload_bytes":"%%"}`), "jobs[1].payload_bytes"},
		{jobs(`{"task":{"exec":{"argv":"ls"}}}`), "jobs[1].task.exec.argv"},
		{jobs(`{"task":{"exec":{"argv":["ls",3]}}}`), "jobs[1].task.exec.argv[1]"},
		{jobs(`{"task":{"docker":{}}}`), "jobs[1].task.docker"},
		{jobs(`{"labels":{"a":1}}`), "jobs[1].labels.a"},
		{jobs(`{"backoff":{"list":["1s",2]}}`), "jobs[1].backoff.list[1]"},
		{jobs(`7`), "jobs[1]"},
		{post("/v1/jobs", `{"jobs":[]}`), "jobs"},
		{post("/v1/jobs", `{}`), "jobs"},
		{post("/v1/jobs", `{"jobs":7}`), "jobs"},
		{post("/v1/jobs", `[]`), "body"},
		{post("/v1/jobs?dry=1", `{"jobs":[{"type":"a"}]}`), "query.dry"},
		{get("/v1/jobs?limit=0"), "query.limit"},
		{get("/v1/jobs?limit=1&limit=2"), "query.limit"},
		{get("/v1/jobs?limit=many"), "query.limit"},
		{get("/v1/jobs?state=done"), "query.state"},
		{get("/v1/jobs?label=x"), "query.label"},
		{get("/v1/jobs?label=x=1&label=x=2"), "query.label"},
		{get("/v1/jobs?statee=pending"), "query.statee"},
		{get("/v1/jobs?a=%zz"), "query"},
		{get("/v1/jobs/17"), "path.id"},
		{get("/v1/jobs/" + anID + "/log?stream=both"), "query.stream"},
		{get("/v1/jobs/" + anID + "/log?tail=-1"), "query.tail"},
		{get("/v1/jobs/" + anID + "/log?tail=1&tail_bytes=1"), "query.tail_bytes"},
		{get("/v1/jobs/" + anID + "/log?follow=perhaps"), "query.follow"},
		{get("/v1/jobs/" + anID + "/log?wait=1d"), "query.wait"},
		{request{method: "GET", path: "/v1/jobs/" + anID + "/log?follow=true", header: map[string]string{"Last-Event-ID": "x"}}, "header.Last-Event-ID"},
		{post("/v1/jobs/get", `{"ids":[]}`), "ids"},
		{post("/v1/jobs/get", `{"ids":["17"]}`), "ids[0]"},
		{post("/v1/jobs/wait", `{"ids":["`+anID+`"],"wait":"2h"}`), "wait"},
		{post("/v1/jobs/cancel", `{}`), "ids"},
		{post("/v1/jobs/cancel", `{"ids":["`+anID+`"],"filter":{}}`), "filter"},
		{post("/v1/jobs/cancel", `{"tenant":"a","filter":{"tenant":"b"}}`), "filter.tenant"},
		{post("/v1/jobs/cancel", `{"filter":{"state":"pending"}}`), "filter.state"},
		{post("/v1/jobs/"+anID+"/cancel", `{"why":"x"}`), "why"},
		{post("/v1/sessions", `{"worker":"w","connected":true}`), "connected"},
		{post("/v1/sessions/"+anID+"/claim", `{"n":0}`), "n"},
		{post("/v1/sessions/"+anID+"/claim", `{"n":1001}`), "n"},
		{post("/v1/sessions/"+anID+"/claim", `{"wait":"2m"}`), "wait"},
		{post("/v1/sessions/"+anID+"/renew", `{"wait":"-1s"}`), "wait"},
		{get("/v1/sessions/" + anID + "/payload?job=x&attempt=1"), "query.job"},
		{get("/v1/sessions/" + anID + "/payload?job=" + anID), "query.attempt"},
		{post("/v1/sessions/"+anID+"/reports", `{"reports":[]}`), "reports"},
		{report(`"kind":"end"`), "reports[0].kind"},
		{report(`"kind":"finish","outcome":"fine"`), "reports[0].outcome"},
		{report(`"kind":"log","log":[{"stream":"stdin"}]`), "reports[0].log[0].stream"},
		{report(`"kind":"log","log_from":-1`), "reports[0].log_from"},
		{report(`"kind":"finish","outcome":"ok","then":[{"delay":"-1s"}]`), "reports[0].then[0].delay"},
		{post("/v1/tokens", `{"name":"n","role":"king"}`), "role"},
	} {
		p := problem(t, h, c.request, 400, "invalid")
		if len(p.Errors) != 1 || p.Errors[0].Field != c.field || p.Errors[0].Message == "" {
			t.Errorf("%s %s %s: fields %+v, want %s", c.method, c.path, c.body, p.Errors, c.field)
		}
	}
}

func TestAllWrongFieldsAreNamedAtOnce(t *testing.T) {
	h := newServer(t, server.Config{Queue: &recorder{}}).Handler()
	p := problem(t, h, request{method: "POST", path: "/v1/jobs", body: `{"jobs":[{"typ":"a"},{"delay":1}],"more":1}`}, 400, "invalid")
	var fields []string
	for _, e := range p.Errors {
		fields = append(fields, e.Field)
	}
	if got := strings.Join(fields, " "); got != "jobs[0].typ jobs[1].delay more" {
		t.Errorf("fields %s", got)
	}
}

func TestBodiesThatAreNotJSON(t *testing.T) {
	h := newServer(t, server.Config{Queue: &recorder{}}).Handler()
	for body, says := range map[string]string{
		`{"jobs":`:                             "ends early",
		`{"jobs":[}`:                           "byte",
		`{"jobs":[{"type":"a"}]} {}`:           "more follows",
		"  ":                                   "empty",
		strings.Repeat(`[`, 20000):             "body",
		`{"jobs":[{"type":"` + "\x01" + `"}]}`: "byte",
	} {
		if p := problem(t, h, request{method: "POST", path: "/v1/jobs", body: body}, 400, "invalid"); !strings.Contains(p.Detail, says) {
			t.Errorf("%.20q: %s", body, p.Detail)
		}
	}
	for _, path := range []string{"/v1/jobs", "/v1/sessions/" + anID + "/claim", "/v1/sessions/" + anID + "/renew", "/v1/sessions/" + anID + "/reports"} {
		problem(t, h, request{method: "POST", path: path, body: "\xff\xff\xff", header: map[string]string{"Content-Type": wire.ContentType}}, 400, "invalid")
	}
}

func TestLimitsOfABatch(t *testing.T) {
	h := newServer(t, server.Config{Queue: &recorder{}}).Handler()
	post := func(body string) request { return request{method: "POST", path: "/v1/jobs", body: body} }
	many := `{"jobs":[` + strings.Repeat(`{"type":"a"},`, haulier.MaxBatch) + `{"type":"a"}]}`
	problem(t, h, post(many), 413, "too_large")
	large := strings.Repeat("x", 17<<20)
	problem(t, h, post(`{"jobs":[{"type":"a"},{"type":"a","payload":"`+large+`"}]}`), 413, "too_large")
	if status, _, body := ask(t, h, post(`{"jobs":[{"type":"a","payload":"`+large+`"}]}`)); status != 201 {
		t.Errorf("one large payload: %d %s", status, clipped(body))
	}
}

func TestAPanicIsAnError(t *testing.T) {
	h := newServer(t, server.Config{Queue: panicking{}}).Handler()
	problem(t, h, request{method: "GET", path: "/v1/queues"}, 500, "internal")
}

// panicking panics whatever it is asked.
type panicking struct{ haulier.Queue }

func TestReadyTellsWhetherTheServerCanWork(t *testing.T) {
	var fail error
	h := newServer(t, server.Config{Queue: &recorder{}, Version: "v9", Ready: func(context.Context) error { return fail }}).Handler()
	if status, _, body := ask(t, h, request{method: "GET", path: "/readyz"}); status != 200 || !strings.Contains(body, `"v9"`) {
		t.Error(status, body)
	}
	fail = errors.New("secret: the disk is gone")
	if p := problem(t, h, request{method: "GET", path: "/readyz"}, 503, "unavailable"); strings.Contains(p.Detail, "secret") {
		t.Error(p.Detail)
	}
	if status, _, _ := ask(t, h, request{method: "GET", path: "/healthz"}); status != 200 {
		t.Error("not healthy though it answers")
	}
}
