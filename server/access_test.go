package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/server"
	"github.com/haulier/haulier/wire"
)

const (
	anID    = "0199c3f0-7d3a-7000-8000-1b2c3d4e5f60"
	session = "07000000-0000-0000-0000-000000000000" // of the recorder
)

// operations are a request of each kind, with the roles besides admin that may make it.
var operations = []struct {
	request
	roles string
}{
	{request{method: "POST", path: "/v1/jobs", body: `{"jobs":[{"type":"mail"}]}`}, "producer"},
	{request{method: "GET", path: "/v1/jobs"}, "producer worker viewer"},
	{request{method: "GET", path: "/v1/jobs/" + anID}, "producer worker viewer"},
	{request{method: "POST", path: "/v1/jobs/get", body: `{"ids":["` + anID + `"]}`}, "producer worker viewer"},
	{request{method: "POST", path: "/v1/jobs/wait", body: `{"ids":["` + anID + `"],"wait":"0s"}`}, "producer worker viewer"},
	{request{method: "GET", path: "/v1/jobs/" + anID + "/why"}, "producer worker viewer"},
	{request{method: "GET", path: "/v1/jobs/" + anID + "/log"}, "producer worker viewer"},
	{request{method: "POST", path: "/v1/jobs/" + anID + "/cancel"}, "producer"},
	{request{method: "POST", path: "/v1/jobs/" + anID + "/retry"}, "producer"},
	{request{method: "DELETE", path: "/v1/jobs/" + anID}, ""},
	{request{method: "POST", path: "/v1/jobs/cancel", body: `{"filter":{}}`}, "producer"},
	{request{method: "POST", path: "/v1/jobs/retry", body: `{"filter":{}}`}, "producer"},
	{request{method: "POST", path: "/v1/jobs/delete", body: `{"filter":{}}`}, ""},
	{request{method: "GET", path: "/v1/queues"}, "producer worker viewer"},
	{request{method: "POST", path: "/v1/queues/q/pause"}, ""},
	{request{method: "POST", path: "/v1/queues/q/resume"}, ""},
	{request{method: "PUT", path: "/v1/queues/q", body: `{"weight":3}`}, ""},
	{request{method: "GET", path: "/v1/limits"}, "producer worker viewer"},
	{request{method: "PUT", path: "/v1/limits/api", body: `{"rate":3}`}, ""},
	{request{method: "DELETE", path: "/v1/limits/api"}, ""},
	{request{method: "GET", path: "/v1/schedules"}, "producer worker viewer"},
	{request{method: "GET", path: "/v1/schedules/s"}, "producer worker viewer"},
	{request{method: "PUT", path: "/v1/schedules/s", body: `{"cron":"@daily","job":{"type":"t"}}`}, ""},
	{request{method: "DELETE", path: "/v1/schedules/s"}, ""},
	{request{method: "POST", path: "/v1/schedules/s/run"}, ""},
	{request{method: "POST", path: "/v1/schedules/s/pause"}, ""},
	{request{method: "POST", path: "/v1/schedules/s/resume"}, ""},
	{request{method: "GET", path: "/v1/outcomes"}, "producer worker viewer"},
	{request{method: "GET", path: "/metrics"}, "producer worker viewer"},
	{request{method: "POST", path: "/v1/batches", body: `{"jobs":[{"type":"t"}]}`}, "producer"},
	{request{method: "GET", path: "/v1/batches"}, "producer worker viewer"},
	{request{method: "GET", path: "/v1/batches/" + anID}, "producer worker viewer"},
	{request{method: "POST", path: "/v1/batches/" + anID + "/close"}, "producer"},
	{request{method: "GET", path: "/v1/windows"}, "producer worker viewer"},
	{request{method: "PUT", path: "/v1/windows/w", body: `{"mode":"freeze","rules":["mon"]}`}, ""},
	{request{method: "DELETE", path: "/v1/windows/w"}, ""},
	{request{method: "POST", path: "/v1/jobs/" + anID + "/force"}, ""},
	{request{method: "POST", path: "/v1/jobs/force", body: `{"filter":{}}`}, ""},
	{request{method: "GET", path: "/v1/workflows"}, "producer worker viewer"},
	{request{method: "GET", path: "/v1/workflows/w"}, "producer worker viewer"},
	{request{method: "PUT", path: "/v1/workflows/w", body: `{"source":"workflow: [a]"}`}, ""},
	{request{method: "DELETE", path: "/v1/workflows/w"}, ""},
	{request{method: "POST", path: "/v1/workflows/w/runs"}, "producer"},
	{request{method: "GET", path: "/v1/workflows/w/runs"}, "producer worker viewer"},
	{request{method: "GET", path: "/v1/workflows/w/graph"}, "producer worker viewer"},
	{request{method: "GET", path: "/v1/runs/w-1"}, "producer worker viewer"},
	{request{method: "GET", path: "/v1/runs/w-1/graph?format=svg"}, "producer worker viewer"},
	{request{method: "POST", path: "/v1/runs/w-1/cancel"}, "producer"},
	{request{method: "POST", path: "/v1/runs/w-1/retry"}, "producer"},
	{request{method: "POST", path: "/v1/events", body: `{"name":"e"}`}, "producer"},
	{request{method: "GET", path: "/v1/handlers"}, "producer worker viewer"},
	{request{method: "GET", path: "/v1/handlers/t?version=1"}, "producer worker viewer"},
	{request{method: "GET", path: "/v1/handlers/t/versions"}, "producer worker viewer"},
	{request{method: "PUT", path: "/v1/handlers/t", body: `{"lang":"sh","body":"true"}`}, ""},
	{request{method: "POST", path: "/v1/handlers/t/rollback"}, ""},
	{request{method: "DELETE", path: "/v1/handlers/t"}, ""},
	{request{method: "GET", path: "/v1/hooks"}, "producer worker viewer"},
	{request{method: "GET", path: "/v1/hooks/h"}, "producer worker viewer"},
	{request{method: "PUT", path: "/v1/hooks/h", body: `{"url":"http://a","events":["before_enqueue"]}`}, ""},
	{request{method: "POST", path: "/v1/hooks/h/test"}, ""},
	{request{method: "DELETE", path: "/v1/hooks/h"}, ""},
	{request{method: "GET", path: "/v1/secrets"}, "producer worker viewer"},
	{request{method: "PUT", path: "/v1/secrets/s", body: `{}`}, ""},
	{request{method: "DELETE", path: "/v1/secrets/s"}, ""},
	{request{method: "GET", path: "/v1/counts"}, "producer worker viewer"},
	{request{method: "GET", path: "/v1/workers"}, "producer worker viewer"},
	{request{method: "GET", path: "/v1/events"}, "producer worker viewer"},
	{request{method: "POST", path: "/v1/sessions", body: `{"worker":"w"}`}, "worker"},
	{request{method: "POST", path: "/v1/sessions/" + session + "/renew"}, "worker"},
	{request{method: "POST", path: "/v1/sessions/" + session + "/claim"}, "worker"},
	{request{method: "GET", path: "/v1/sessions/" + session + "/payload?job=" + anID + "&attempt=1"}, "worker"},
	{request{method: "POST", path: "/v1/sessions/" + session + "/reports", body: `{"reports":[{"job":"` + anID + `","attempt":1,"kind":"start"}]}`}, "worker"},
	{request{method: "POST", path: "/v1/sessions/" + session + "/hooks", body: `{"job":"` + anID + `","attempt":1,"event":"before_perform"}`}, "worker"},
	{request{method: "DELETE", path: "/v1/sessions/" + session}, "worker"},
	{request{method: "POST", path: "/v1/sessions/" + session + "/files", body: `{"job":"` + anID + `","attempt":1}`}, "worker"},
	{request{method: "PUT", path: "/v1/blobs/a", body: "x", header: map[string]string{"Content-Type": "application/octet-stream"}}, "producer worker"},
	{request{method: "GET", path: "/v1/blobs/a"}, "producer worker viewer"},
	{request{method: "POST", path: "/v1/blobs/missing", body: `{"addresses":["a"]}`}, "producer worker"},
	{request{method: "POST", path: "/v1/filesets/f", body: `{"manifest":"a"}`}, "producer worker"},
	{request{method: "GET", path: "/v1/filesets"}, "producer worker viewer"},
	{request{method: "GET", path: "/v1/filesets/f"}, "producer worker viewer"},
	{request{method: "DELETE", path: "/v1/filesets/f"}, ""},
	{request{method: "POST", path: "/v1/tokens", body: `{"name":"n","role":"viewer"}`}, ""},
	{request{method: "GET", path: "/v1/tokens"}, ""},
	{request{method: "DELETE", path: "/v1/tokens/" + anID}, ""},
}

func TestEachRoleMayDoWhatItIsFor(t *testing.T) {
	q := &recorder{sessions: []haulier.Session{{ID: haulier.ID{7}, Tenants: []string{"acme"}}}}
	h := newServer(t, server.Config{Queue: q, Auth: tokens{}}).Handler()
	for _, op := range operations {
		for _, role := range []string{"producer", "worker", "viewer", "admin", "stranger"} {
			op.token = role + "@acme"
			q.take()
			if role == "admin" || strings.Contains(op.roles, role) {
				if status, _, body := ask(t, h, op.request); status >= 300 {
					t.Errorf("%s: %s %s: %d %s", role, op.method, op.path, status, body)
				}
				continue
			}
			problem(t, h, op.request, http.StatusForbidden, "forbidden")
			if calls := q.take(); calls != "" {
				t.Errorf("%s: %s %s reached the queue: %s", role, op.method, op.path, calls)
			}
		}
		op.token = ""
		problem(t, h, op.request, http.StatusUnauthorized, "unauthenticated")
	}
}

func TestWhoIsNotKnownIsTold(t *testing.T) {
	h := newServer(t, server.Config{Queue: &recorder{}, Auth: tokens{}}).Handler()
	for _, authorization := range []string{"", "Bearer", "Bearer ", "Basic abc", "Bearer unknown"} {
		q := request{method: "GET", path: "/v1/jobs", header: map[string]string{"Authorization": authorization}}
		problem(t, h, q, http.StatusUnauthorized, "unauthenticated")
		if _, header, _ := ask(t, h, q); !strings.HasPrefix(header.Get("WWW-Authenticate"), "Bearer ") {
			t.Errorf("%q: no WWW-Authenticate", authorization)
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/openapi.json", "/docs"} {
		if status, _, _ := ask(t, h, request{method: "GET", path: path}); status != 200 {
			t.Errorf("%s needs a token", path)
		}
	}
}

func TestATokenStaysInItsTenant(t *testing.T) {
	q := &recorder{}
	h := newServer(t, server.Config{Queue: q, Auth: tokens{}}).Handler()
	enqueue := func(token, tenant string) request {
		return request{method: "POST", path: "/v1/jobs", token: token, body: `{"jobs":[{"type":"mail","tenant":"` + tenant + `"}]}`}
	}
	get := func(token, path string) request { return request{method: "GET", path: path, token: token} }
	post := func(token, path, body string) request {
		return request{method: "POST", path: path, token: token, body: body}
	}
	for _, c := range []struct {
		request
		want string // what reaches the queue; "": forbidden
	}{
		{enqueue("producer@acme", ""), `enqueue [acme] by "producer@acme" key ""`},
		{enqueue("producer@acme", "acme"), `enqueue [acme] by "producer@acme" key ""`},
		{enqueue("producer@acme", "other"), ""},
		{enqueue("producer@*", ""), `enqueue [default] by "producer@*" key ""`},
		{enqueue("producer@*", "other"), `enqueue [other] by "producer@*" key ""`},
		{get("viewer@acme", "/v1/jobs"), `list {"tenant":"acme"} "" 100`},
		{get("viewer@acme", "/v1/jobs?tenant=other"), ""},
		{get("viewer@acme", "/v1/jobs?tenant=*"), ""},
		{get("viewer@*", "/v1/jobs"), `list {} "" 100`},
		{get("viewer@*", "/v1/jobs?tenant=*"), `list {} "" 100`},
		{get("viewer@*", "/v1/jobs?tenant=acme"), `list {"tenant":"acme"} "" 100`},
		{get("viewer@acme", "/v1/jobs/"+anID), `get "acme"`},
		{get("viewer@*", "/v1/jobs/"+anID), `get ""`},
		{get("viewer@acme", "/v1/jobs/"+anID+"?tenant=other"), ""},
		{get("viewer@acme", "/v1/jobs/"+anID+"/why"), `why "acme"`},
		{get("viewer@acme", "/v1/jobs/"+anID+"/log"), `log "acme" 0 0 0`},
		{get("viewer@acme", "/v1/events"), `events "acme"`},
		{get("viewer@acme", "/v1/events?tenant=other"), ""},
		{get("viewer@acme", "/v1/queues"), `queues "acme"`},
		{get("viewer@acme", "/v1/counts?tenant=other"), ""},
		{get("viewer@acme", "/v1/workers"), `sessions "acme"`},
		{post("viewer@acme", "/v1/jobs/get", `{"tenant":"other","ids":["`+anID+`"]}`), ""},
		{post("viewer@acme", "/v1/jobs/wait", `{"tenant":"other","ids":["`+anID+`"]}`), ""},
		{post("producer@acme", "/v1/jobs/cancel", `{"filter":{"tenant":"other"}}`), ""},
		{post("producer@acme", "/v1/jobs/cancel", `{"filter":{"queue":"q"},"reason":"why"}`), `cancel(why) "acme" 0 {"tenant":"acme","queue":"q"} by "producer@acme"`},
		{post("producer@acme", "/v1/jobs/retry", `{"ids":["`+anID+`"]}`), `retry "acme" 1 - by "producer@acme"`},
		{post("admin@*", "/v1/jobs/delete", `{"filter":{}}`), `delete "" 0 {} by "admin@*"`},
		{post("admin@acme", "/v1/queues/q/pause", ""), `pause "acme" "q" true by "admin@acme"`},
		{post("admin@acme", "/v1/queues/q/pause?tenant=other", ""), ""},
		{request{method: "PUT", path: "/v1/limits/queue:q", body: `{"running":3,"rate":2,"per":"1m"}`, token: "admin@acme"}, `limit "acme" "queue:q" 3 2 1m0s`},
		{request{method: "PUT", path: "/v1/schedules/s", body: `{"cron":"@daily","job":{"type":"t"}}`, token: "admin@acme"}, `set schedule "acme" "s" @daily`},
		{post("admin@acme", "/v1/schedules/s/run", ""), `run schedule "acme" "s" by "admin@acme"`},
		{post("admin@acme", "/v1/schedules/s/run?tenant=other", ""), ""},
		{post("producer@acme", "/v1/workflows/w/runs", `{"from":"a","payload":{"x":1}}`), `start "acme" "w" from "a" with {"x":1} by "producer@acme"`},
		{post("producer@acme", "/v1/batches", `{"name":"n","jobs":[{"type":"t"},{"type":"t"}]}`), `create batch "acme" "n" of 2 by "producer@acme"`},
		{post("producer@acme", "/v1/events", `{"name":"e","payload":[1]}`), `post "acme" "e" with [1] by "producer@acme"`},
		{post("producer@acme", "/v1/events?tenant=other", `{"name":"e"}`), ""},
		{request{method: "PUT", path: "/v1/hooks/h", body: `{"url":"http://a","tenant":"other"}`, token: "admin@acme"}, `set hook "acme" "h" http://a`},
		{get("viewer@acme", "/v1/hooks/h?tenant=other"), ""},
		{request{method: "PUT", path: "/v1/secrets/s", body: `{"value":"v"}`, token: "admin@acme"}, `set secret "acme" "s" "v"`},
		{get("viewer@acme", "/v1/secrets?tenant=other"), ""},
		{request{method: "PUT", path: "/v1/blobs/abcdef", body: "x", token: "worker@acme", header: map[string]string{"Content-Type": "application/octet-stream"}}, `put blob "acme" abcd x`},
		{get("viewer@acme", "/v1/blobs/abcdef?tenant=other"), ""},
		{post("producer@acme", "/v1/filesets/f", `{"manifest":"m","keep":3}`), `add fileset "acme" "f" "m" keep 3 by "producer@acme"`},
		{post("producer@acme", "/v1/filesets/f?tenant=other", `{"manifest":"m"}`), ""},
		{get("viewer@acme", "/v1/filesets/f?version=3"), `fileset "acme" "f" 3`},
		{get("viewer@acme", "/v1/filesets?name=f&after=f@2"), `filesets "acme" "f" "f@2" 100`},
		{post("admin@*", "/v1/queues/q/resume", ""), `pause "default" "q" false by "admin@*"`},
		{post("worker@acme", "/v1/sessions", `{"worker":"w"}`), `open [acme]`},
		{post("worker@acme", "/v1/sessions", `{"worker":"w","tenants":["acme","other"]}`), ""},
		{post("worker@acme", "/v1/sessions", `{"worker":"w","tenants":["*"]}`), ""},
		{post("worker@*", "/v1/sessions", `{"worker":"w","tenants":["*"]}`), `open [*]`},
		{post("worker@*", "/v1/sessions", `{"worker":"w","tenants":["acme","other"]}`), `open [acme other]`},
		{post("admin@acme", "/v1/tokens", `{"name":"n","role":"viewer","tenant":"*"}`), ""},
		{post("admin@acme", "/v1/tokens", `{"name":"n","role":"viewer"}`), `create token n viewer "acme"`},
		{post("admin@*", "/v1/tokens", `{"name":"n","role":"admin","tenant":"*"}`), `create token n admin "*"`},
		{get("admin@acme", "/v1/tokens"), `tokens "acme"`},
		{request{method: "DELETE", path: "/v1/tokens/" + anID, token: "admin@acme"}, `revoke "acme"`},
		{request{method: "DELETE", path: "/v1/tokens/" + anID, token: "admin@*"}, `revoke ""`},
	} {
		if c.want == "" {
			p := problem(t, h, c.request, http.StatusForbidden, "forbidden")
			if !strings.Contains(p.Detail, c.token) {
				t.Errorf("%s does not name the token", p.Detail)
			}
			if calls := q.take(); calls != "" {
				t.Errorf("%s %s reached the queue: %s", c.method, c.path, calls)
			}
			continue
		}
		status, _, body := ask(t, h, c.request)
		if calls := q.take(); status >= 300 || calls != c.want {
			t.Errorf("%s %s %s by %s: %d %s; the queue was asked: %s, want %s", c.method, c.path, c.body, c.token, status, body, calls, c.want)
		}
	}
}

func TestASessionIsForTokensOfItsTenants(t *testing.T) {
	id := haulier.ID{9}
	q := &recorder{sessions: []haulier.Session{{ID: id, Tenants: []string{"acme"}}}}
	h := newServer(t, server.Config{Queue: q, Auth: tokens{}}).Handler()
	claim := func(token string, session haulier.ID) request {
		return request{method: "POST", path: "/v1/sessions/" + session.String() + "/claim", token: token}
	}
	// It was opened at another server: its tenants are looked up once.
	if status, _, body := ask(t, h, claim("worker@acme", id)); status != 200 {
		t.Fatal(status, body)
	}
	if calls := q.take(); calls != `sessions ""; claim 1 0s` {
		t.Fatal(calls)
	}
	problem(t, h, claim("worker@other", id), http.StatusForbidden, "forbidden")
	if status, _, body := ask(t, h, claim("worker@*", id)); status != 200 {
		t.Fatal(status, body)
	}
	problem(t, h, claim("worker@acme", haulier.ID{8}), http.StatusGone, "lease_lost")
	q.take()
	resume := request{method: "POST", path: "/v1/sessions", token: "worker@other", body: `{"worker":"w","id":"` + id.String() + `"}`}
	problem(t, h, resume, http.StatusForbidden, "forbidden")
	if calls := q.take(); calls != "" {
		t.Errorf("a session of another tenant was resumed: %s", calls)
	}
}

func TestJoinedRequestsOfAnotherTenantFailAlone(t *testing.T) {
	q := &recorder{}
	h := newServer(t, server.Config{Queue: q, Auth: tokens{}}).Handler()
	body := wire.AppendEnqueueRequests(nil, []haulier.EnqueueRequest{
		{Jobs: []haulier.Spec{{Type: "a", Tenant: "other"}}, By: "forged"}, {Jobs: []haulier.Spec{{Type: "b"}, {Type: "c"}}, By: "forged"},
	})
	status, _, reply := ask(t, h, request{method: "POST", path: "/v1/jobs", token: "producer@acme", body: string(body),
		header: map[string]string{"Content-Type": wire.ContentType}})
	results, err := wire.ParseEnqueueResults([]byte(reply))
	if err != nil || status != 200 || len(results) != 2 {
		t.Fatal(status, err, reply)
	}
	if wire.ErrorCode(results[0].Err) != "forbidden" || results[1].Err != nil || len(results[1].IDs) != 2 {
		t.Errorf("results %+v", results)
	}
	if calls := q.take(); calls != `enqueue [acme acme] by "producer@acme" key ""` {
		t.Error(calls)
	}
}

func TestWithoutTokensForeignPagesAreKeptOut(t *testing.T) {
	h := newServer(t, server.Config{Queue: &recorder{}, Hosts: []string{"haulier.lan"}}).Handler()
	for _, c := range []struct {
		host, origin string
		ok           bool
	}{
		{"localhost:7480", "", true},
		{"127.0.0.1:7480", "http://127.0.0.1:7480", true},
		{"[::1]:7480", "", true},
		{"haulier.lan", "", true},
		{"dev.localhost", "", true},
		{"evil.example:7480", "", false},
		{"10.1.2.3:7480", "", false},
		{"localhost.evil.example", "", false},
		{"localhost:7480", "http://evil.example", false},
		{"localhost:7480", "http://localhost:3000", false},
		{"localhost:7480", "null", false},
	} {
		q := request{method: "GET", path: "/v1/jobs", header: map[string]string{"Host": c.host}}
		if c.origin != "" {
			q.header["Origin"] = c.origin
		}
		if !c.ok {
			problem(t, h, q, http.StatusForbidden, "forbidden")
		} else if status, _, body := ask(t, h, q); status != 200 {
			t.Errorf("host %s origin %s: %d %s", c.host, c.origin, status, body)
		}
	}
	open := newServer(t, server.Config{Queue: &recorder{}, Hosts: []string{"*"}}).Handler()
	if status, _, _ := ask(t, open, request{method: "GET", path: "/v1/jobs", header: map[string]string{"Host": "any.example"}}); status != 200 {
		t.Error("a host was refused though all are allowed")
	}
	guarded := newServer(t, server.Config{Queue: &recorder{}, Auth: tokens{}}).Handler()
	if status, _, _ := ask(t, guarded, request{method: "GET", path: "/v1/jobs", token: "viewer@acme", header: map[string]string{"Host": "any.example", "Origin": "https://board.example"}}); status != 200 {
		t.Error("a host was refused though there are tokens")
	}
}
