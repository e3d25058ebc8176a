package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haulier/haulier/client"
)

// TestFlow carries out the examples of docs/flow.md.
func TestFlow(t *testing.T) {
	// The worker of dev starts this binary as the supervisor of its commands.
	t.Setenv(programVariable, "1")
	env := home(t)
	b := start(t, env, nil, "dev", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data"))
	env["HAULIER_URL"] = readyAt.FindStringSubmatch(b.await("Stop with Ctrl-C."))[1]
	until := func(words string, args ...string) {
		t.Helper()
		for !strings.Contains(do(t, env, nil, args...).out, words) {
			if t.Context().Err() != nil {
				t.Fatalf("%v never says %q", args, words)
			}
		}
	}
	id := func(args ...string) string {
		t.Helper()
		r := do(t, env, nil, args...)
		if r.code != 0 {
			t.Fatalf("%v: %+v", args, r)
		}
		return strings.TrimSpace(r.out)
	}

	t.Run("a job starts when what it needs has succeeded", func(t *testing.T) {
		build := id("run", "--detach", "--", "sh", "-c", "echo '{\"tag\":7}'")
		do(t, env, nil, "run", "--needs", build, "--", "echo", "tested").expect(t, 0, "tested")
	})
	t.Run("a result that is there already is taken", func(t *testing.T) {
		count := filepath.Join(t.TempDir(), "count")
		sum := []string{"run", "--memo", "24h", "--", "sh", "-c", "echo ran >>" + count + "; echo computed"}
		do(t, env, nil, sum...).expect(t, 0, "computed")
		again := id(append([]string{"run", "--detach"}, sum[1:]...)...)
		do(t, env, nil, "jobs", "get", again).expect(t, 0, "succeeded", "memoised: the result is that of job", "computed")
		do(t, env, nil, append([]string{"run", "--no-memo"}, sum[1:]...)...).expect(t, 0, "computed")
		if got, err := os.ReadFile(count); err != nil || string(got) != "ran\nran\n" {
			t.Errorf("it ran %q, %v", got, err)
		}
	})
	t.Run("and has its result in its environment", func(t *testing.T) {
		body := `{"jobs":[{"ref":"build","task":{"exec":{"argv":["echo","{\"tag\":7}"]}}},
			{"group":"tests","task":{"exec":{"argv":["printenv","HAULIER_NEED_BUILD"]}},"needs":[{"ref":"build"}]}]}`
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, env["HAULIER_URL"]+"/v1/jobs", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+client.LocalToken(env["HAULIER_URL"], func(k string) string { return env[k] }))
		answer, err := http.DefaultClient.Do(r)
		if err != nil || answer.StatusCode != http.StatusCreated {
			t.Fatal(answer, err)
		}
		defer answer.Body.Close()
		var added struct{ IDs []string }
		if err := json.NewDecoder(answer.Body).Decode(&added); err != nil {
			t.Fatal(err)
		}
		do(t, env, nil, "jobs", "wait", added.IDs[1]).expect(t, 0)
		do(t, env, nil, "jobs", "logs", added.IDs[1]).expect(t, 0, `{"tag":7}`)
	})
	t.Run("and is cancelled when that fails, until it runs again", func(t *testing.T) {
		build := id("run", "--detach", "--max-attempts", "1", "--", "sh", "-c", "exit 65")
		do(t, env, nil, "jobs", "wait", build)
		test := id("run", "--detach", "--needs", build, "--", "echo", "tested")
		do(t, env, nil, "jobs", "why", test).expect(t, 0, "for the sake of job "+build)
		do(t, env, nil, "run", "--needs", build+":failed", "--", "echo", "cleaned").expect(t, 0, "cleaned")
		do(t, env, nil, "jobs", "retry", test).expect(t, 1, "run that one again")
	})
	t.Run("one at a time of a key", func(t *testing.T) {
		first := id("run", "--detach", "--alone", "deploy", "--", "sleep", "60")
		until("running", "jobs", "get", first)
		second := id("run", "--detach", "--alone", "deploy", "--", "true")
		until("key deploy, held by 1 job: "+first, "jobs", "why", second)
		do(t, env, nil, "jobs", "cancel", first).expect(t, 0)
		do(t, env, nil, "jobs", "wait", second).expect(t, 0)
	})
	t.Run("a unique job is enqueued once", func(t *testing.T) {
		first := id("enqueue", "report", "--unique", "report-today")
		if second := id("enqueue", "report", "--unique", "report-today"); second != first {
			t.Errorf("%s, then %s", first, second)
		}
		do(t, env, nil, "enqueue", "report", "--unique", "report-today", "--duplicate", "reject").expect(t, 1, first)
	})
	t.Run("the newest of those that wait replaces the others", func(t *testing.T) {
		old := id("enqueue", "site", "--collapse", "site")
		newest := id("enqueue", "site", "--collapse", "site")
		do(t, env, nil, "jobs", "why", old).expect(t, 0, "collapsed", newest)
	})
	t.Run("limits count at once", func(t *testing.T) {
		do(t, env, nil, "limits", "set", "queue:mail", "--running", "2", "--rate", "5/s").expect(t, 0, "queue:mail is limited")
		do(t, env, nil, "limits", "set", "queue:mail").expect(t, 2, "--running or --rate")
		do(t, env, nil, "limits", "set", "queue:mail", "--rate", "x").expect(t, 2, "5/s")
		do(t, env, nil, "limits", "list").expect(t, 0, "queue:mail", "5/1s")
		do(t, env, nil, "limits", "clear", "queue:mail").expect(t, 0, "1 key")
		do(t, env, nil, "limits", "list").expect(t, 0, "No limits")
	})
	t.Run("a job that follows gets the result", func(t *testing.T) {
		do(t, env, nil, "run", "--then", "publish", "--", "sh", "-c", "echo '{\"tag\":7}'").expect(t, 0)
		do(t, env, nil, "jobs", "list").expect(t, 0, "publish", `{"tag":7}`)
	})
	t.Run("lines of output are jobs, and so is what a running job enqueues", func(t *testing.T) {
		do(t, env, nil, "run", "--chain", "--", "sh", "-c", `echo "J: mail|{\"to\":\"ann\"}"`).expect(t, 0)
		do(t, env, nil, "jobs", "list", "--type", "mail").expect(t, 0, `{"to":"ann"}`)
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		state := "XDG_STATE_HOME=" + env["XDG_STATE_HOME"]
		do(t, env, nil, "run", "--env", programVariable+"=1", "--env", state, "--env", "HOME="+env["HOME"], "--", self, "enqueue", "letter").expect(t, 0)
		do(t, env, nil, "jobs", "list", "--type", "letter").expect(t, 0, "letter")
	})
	t.Run("a batch calls back when all have succeeded", func(t *testing.T) {
		batch := id("batches", "create", "--name", "import", "--on-success", "publish")
		id("run", "--detach", "--batch", batch, "--", "true")
		id("run", "--detach", "--batch", batch, "--", "sh", "-c", "sleep 0.1")
		do(t, env, nil, "batches", "close", batch).expect(t, 0, "import")
		do(t, env, nil, "batches", "wait", batch).expect(t, 0, "100")
		until("pending", "jobs", "list", "--label", "batch="+batch, "--type", "publish")
		do(t, env, nil, "batches", "list").expect(t, 0, "import", "yes")
	})
	b.interrupt()
	if code := b.exit(); code != 0 {
		said, _ := b.said()
		t.Errorf("exit code %d:\n%s", code, said)
	}
}
