package server_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/joblog"
	"github.com/haulier/haulier/server"
	"github.com/haulier/haulier/wire"
)

// FuzzParseEnqueue: whatever comes is either refused as invalid, or JSON whose payloads are kept as they are.
func FuzzParseEnqueue(f *testing.F) {
	for _, s := range []string{
		`{"jobs":[{"type":"mail","payload":{"a":[1,2.5e3,null]},"delay":"5m","labels":{"k":"v"}}]}`,
		`{"jobs":[{"task":{"exec":{"argv":["ls"],"env":{"A":"b"},"grace":"3s"}},"payload_bytes":"aGk=","backoff":{"list":["1s"]}}]}`,
		`{"jobs":[{"priorty":1}]}`, `{"jobs":[{"delay":1}]}`, `{"jobs":null}`, `[]`, `{"JOBS":[{}]} x`, `{"jobs":[{"payload":` + strings.Repeat("[", 50) + `}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		req, err := server.ParseEnqueue(b, someTime)
		if err != nil {
			if !errors.Is(err, haulier.ErrInvalid) {
				t.Fatalf("not told as invalid: %v", err)
			}
			return
		}
		if !json.Valid(b) || len(req.Jobs) == 0 {
			t.Fatalf("taken: %q", b)
		}
		if bytes.ContainsFunc(b, func(r rune) bool { return r == '\\' || r > 126 }) {
			return // names may be written in other ways than those looked for here
		}
		for i := range req.Jobs {
			j := &req.Jobs[i]
			if !bytes.Contains(bytes.ToLower(b), []byte("payload_bytes")) && !bytes.Contains(b, j.Payload) {
				t.Fatalf("payload %q is not in the request", j.Payload)
			}
			if !j.RunAt.IsZero() && !bytes.Contains(bytes.ToLower(b), []byte("run_at")) && j.RunAt.Before(someTime) {
				t.Fatalf("is to run at %v, before it was enqueued", j.RunAt)
			}
		}
	})
}

// FuzzParseReports: output that is taken consists of whole frames.
func FuzzParseReports(f *testing.F) {
	f.Add([]byte(`{"reports":[{"job":"` + anID + `","attempt":1,"kind":"finish","outcome":"ok","result":7,"then":[{"type":"a"}]}]}`))
	f.Add([]byte(`{"reports":[{"kind":"log","log":[{"stream":"stderr","data_bytes":"/w==","time":"1960-01-01T00:00:00Z"}],"log_from":-3}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		reports, err := server.ParseReports(b, someTime)
		if err != nil {
			if !errors.Is(err, haulier.ErrInvalid) {
				t.Fatalf("not told as invalid: %v", err)
			}
			return
		}
		for _, r := range reports {
			if n, err := joblog.Whole(r.Log); err != nil || n != len(r.Log) {
				t.Fatalf("output of %d bytes, %d whole: %v", len(r.Log), n, err)
			}
		}
	})
}

// FuzzQuery: no query, header or path breaks a reading operation.
func FuzzQuery(f *testing.F) {
	h := newServer(f, server.Config{Queue: &recorder{}}).Handler()
	for _, q := range []string{"state=pending&state=running&label=a%3Db&limit=3&cursor=x", "tail=3&stream=stderr&attempt=2", "follow=true&tail_bytes=9",
		"from=-5&max=10&wait=0s", "tenant=*", "label==", "limit=99999999999999999999", "%zz=1", "a;b", "job=" + anID + "&attempt=1"} {
		f.Add(q, anID, "1/2")
	}
	paths := []string{"/v1/jobs", "/v1/jobs/ID", "/v1/jobs/ID/log", "/v1/jobs/ID/why", "/v1/queues", "/v1/counts", "/v1/events", "/v1/sessions/ID/payload", "/v1/tokens", "/v1/workers"}
	f.Fuzz(func(t *testing.T, query, id, last string) {
		for _, path := range paths {
			for _, accept := range []string{"", wire.ContentType} {
				r := httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost/", nil)
				r.URL.Path, r.URL.RawQuery = strings.Replace(path, "ID", id, 1), query
				r.Header.Set("Last-Event-ID", last)
				r.Header.Set("Accept", accept)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if w.Code >= 500 {
					t.Fatalf("%s?%s: %d %s", path, query, w.Code, w.Body)
				}
			}
		}
	})
}

// FuzzBodies: no body, JSON or binary, breaks an operation.
func FuzzBodies(f *testing.F) {
	h := newServer(f, server.Config{Queue: &recorder{}}).Handler()
	var bodies []request
	for _, op := range operations {
		if op.body != "" {
			bodies = append(bodies, op.request)
			f.Add([]byte(op.body), false)
		}
	}
	bodies = append(bodies, request{method: "POST", path: "/v1/sessions/" + session + "/claim"}, request{method: "POST", path: "/v1/sessions/" + session + "/renew"})
	f.Add(wire.AppendEnqueueRequests(nil, []haulier.EnqueueRequest{{Key: "k", Jobs: []haulier.Spec{{Type: "a", Payload: []byte("p")}}}}), true)
	f.Add(wire.AppendClaimRequest(nil, &haulier.ClaimRequest{N: 3}), true)
	f.Add(wire.AppendReports(nil, []haulier.Report{{Kind: haulier.ReportLog, Log: []byte{1, 1, 1, 65}}}), true)
	f.Fuzz(func(t *testing.T, body []byte, binary bool) {
		if bytes.Contains(body, []byte("wait")) {
			t.Skip("it may wait as long as it is asked to")
		}
		for _, q := range bodies {
			if q.path == "/v1/jobs/wait" {
				continue
			}
			q.body = string(body)
			q.header = map[string]string{"Content-Type": "application/json"}
			if binary {
				q.header["Content-Type"] = wire.ContentType
			}
			if status, _, reply := ask(t, h, q); status >= 500 {
				t.Fatalf("%s: %d %s", q.path, status, reply)
			}
		}
	})
}
