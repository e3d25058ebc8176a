package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haulier/haulier/webhook"
)

// TestCallsInLines carries out the example of docs/executors.md.
func TestCallsInLines(t *testing.T) {
	t.Setenv(programVariable, "1")
	env := home(t)
	b := start(t, env, nil, "dev", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data"), "--concurrency", "20")
	env["HAULIER_URL"] = readyAt.FindStringSubmatch(b.await("Stop with Ctrl-C."))[1]
	t.Chdir(t.TempDir())
	secret := strings.TrimSpace(do(t, env, nil, "secrets", "set", "ops").out)
	var calls, lines atomic.Int32
	r := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		if q.URL.Path == "/mail" {
			if err := webhook.Verify(secret, q.Header, body, time.Now()); err != nil || string(body) != "{\"to\":\"ann\"}\n" {
				t.Errorf("%q: %v", body, err)
			}
			return
		}
		calls.Add(1)
		for l := range strings.Lines(string(body)) {
			lines.Add(1)
			if strings.Contains(l, "bob") {
				io.WriteString(w, "#J: log|"+l)
			}
			io.WriteString(w, "200 sent\n")
		}
	}))
	defer r.Close()
	one := strings.TrimSpace(do(t, env, nil, "enqueue", "mail", "--http", r.URL+"/mail", "--http-lines", "--http-secret", "ops", "--payload", `{"to":"ann"}`).out)
	do(t, env, nil, "jobs", "wait", one).expect(t, 0)

	os.WriteFile("mails.txt", []byte(strings.Repeat("{\"to\":\"ann\"}\n", 29)+"{\"to\":\"bob\"}\n"), 0o644)
	all := do(t, env, nil, "enqueue", "mail", "--http", r.URL+"/mails", "--http-batch", "10", "--chain", "--lines", "mails.txt")
	all.expect(t, 0)
	do(t, env, nil, append([]string{"jobs", "wait"}, strings.Fields(all.out)...)...).expect(t, 0)
	if n := calls.Load(); lines.Load() != 30 || n >= 30 {
		t.Errorf("%d calls for %d jobs", n, lines.Load())
	}
	do(t, env, nil, "jobs", "list", "--type", "log").expect(t, 0, `{"to":"bob"}`)
	do(t, env, nil, "jobs", "get", strings.Fields(all.out)[0]).expect(t, 0, "sent")
}
