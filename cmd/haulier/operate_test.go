package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/haulier/haulier"
)

func TestQueues(t *testing.T) {
	s := newSite(t)
	s.do("", "queues", "list").expect(t, 0, "No queues")
	s.add(haulier.Spec{Type: "mail", Queue: "out"})
	s.add(haulier.Spec{Type: "mail", Queue: "out", RunAt: time.Now().Add(time.Hour)})
	s.do("", "queues", "weight", "out", "7").expect(t, 0, "queue out has the weight 7")
	s.do("", "queues", "weight", "out", "seven").expect(t, 2, "from 1 to 100")
	s.do("", "queues", "pause", "out").expect(t, 0, "1 queue paused")
	r := s.do("", "queues", "list")
	r.expect(t, 0, "paused now")
	if row := strings.Fields(strings.Split(r.out, "\n")[1]); strings.Join(row[:8], " ") != "default out 1 0 1 0 0 7" {
		t.Errorf("row %q", row)
	}
	s.do("", "queues", "resume", "out").expect(t, 0, "1 queue resumed")
	var list struct{ Queues []haulier.QueueStatus }
	if err := json.Unmarshal([]byte(s.must("", "queues", "list", "-o", "json")), &list); err != nil || len(list.Queues) != 1 || list.Queues[0].Paused {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestWorkers(t *testing.T) {
	s := newSite(t)
	s.do("", "workers", "list").expect(t, 0, "No workers: start one with `haulier worker`")
	s.do("", "workers", "list", "-o", "json").expect(t, 0, `"workers": []`)
	env := home(t)
	b := start(t, env, nil, "worker", "--url", s.url, "--name", "w1", "--state", t.TempDir(), "--queues", "a=3,*", "--types", "x,y", "--label", "room=5", "--concurrency", "2")
	b.await("session opened")
	s.do("", "workers", "list").expect(t, 0, "w1", "0/2", "exec,script", ": x,y", "*,a=3")
	s.do("", "workers", "get", "w1").expect(t, 0, "queues    *,a=3", "room=5", "v0-test")
	s.do("", "workers", "get", "w2").expect(t, 1, "no worker w2 is connected")
	b.interrupt()
	b.await("draining")
	if code := b.exit(); code != 0 {
		t.Errorf("the worker ended with %d", code)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--executors", "docker"}, `no kind "docker"`},
		{[]string{"--queues", "a=0"}, "from 1 to 100"},
		{[]string{"--label", "x"}, "KEY=VALUE"},
		{[]string{"--log-format", "xml"}, "text or json"},
		{[]string{"--log-level", "loud"}, "debug, info, warn or error"},
	} {
		s.do("", append([]string{"worker"}, c.args...)...).expect(t, 2, c.says)
	}
}

func TestTokensAtAServer(t *testing.T) {
	s := newSite(t)
	r := s.do("", "token", "create", "--name", "web", "--role", "producer", "--tenant", "shop", "--expires", "1h")
	r.expect(t, 0, "web: producer of tenant shop", "not shown again")
	if !strings.HasPrefix(r.out, "hlr_") {
		t.Errorf("the secret is %q", r.out)
	}
	var list struct{ Tokens []haulier.Token }
	if err := json.Unmarshal([]byte(s.must("", "token", "list", "-o", "json")), &list); err != nil || len(list.Tokens) != 1 || list.Tokens[0].Role != haulier.RoleProducer {
		t.Fatalf("%+v, %v", list, err)
	}
	s.do("", "token", "list").expect(t, 0, "web", "producer", "shop", "in 59m")
	s.do("", "token", "revoke", list.Tokens[0].ID.String()).expect(t, 0, "1 token revoked")
	s.do("", "token", "list").expect(t, 0, "No tokens")
	s.do("", "token", "create", "--name", "x").expect(t, 2, "role")
	s.do("", "token", "create", "--name", "x", "--role", "king").expect(t, 1, "none of [admin producer worker viewer]")
	s.do("", "token", "create", "--name", "local", "--role", "admin").expect(t, 2, "choose another")
}

func TestFailuresSayWhatToDo(t *testing.T) {
	env := home(t)
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"jobs list --url http://127.0.0.1:9", 1, "no server at http://127.0.0.1:9: start one with `haulier dev`, or set --url"},
		{"run --url http://127.0.0.1:9 -- true", 1, "no server at http://127.0.0.1:9"},
		{"map --url http://127.0.0.1:9 -- true", 1, "no server at http://127.0.0.1:9"},
		{"jobs list --url here", 2, "is not the URL of a server, such as http://127.0.0.1:7480"},
		{"jobs list -o xml", 2, "text or json"},
		{"jobs frobnicate", 2, "--help"},
		{"frobnicate", 2, "--help"},
		{"jobs list --frobnicate", 2, "--help"},
		{"run", 2, "haulier run -- echo hello"},
		{"map", 2, "ls | haulier map -- wc -c {}"},
		{"map --shell -- a b", 2, "one argument"},
		{"map --results all -- a", 2, "lines, tsv or none"},
		{"serve --listen 7480", 2, "such as 127.0.0.1:7480"},
		{"serve --store nosql://x", 2, "pebble:"},
		{"serve --durability none", 2, "sync (survives power loss) or process"},
		{"dev --listen 0.0.0.0:7480", 2, "dev is for this machine alone"},
		{"bench --only speed", 2, "enqueue, batch, drain, latency, memory"},
		{"shim", 2, "dir"},
	} {
		t.Run(c.args, func(t *testing.T) {
			do(t, env, strings.NewReader(""), strings.Fields(c.args)...).expect(t, c.code, c.says)
		})
	}
}
