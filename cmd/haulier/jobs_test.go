package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/haulier/haulier"
)

// idsOf are the ids that a command printed.
func idsOf(t *testing.T, out string) []string {
	t.Helper()
	ids := strings.Fields(out)
	for _, id := range ids {
		if _, err := haulier.ParseID(id); err != nil {
			t.Fatal(err)
		}
	}
	return ids
}

func TestEnqueue(t *testing.T) {
	s := newSite(t)
	t.Run("a job with all that can be said of it", func(t *testing.T) {
		id := idsOf(t, s.must("", "enqueue", "mail", "--payload", `{"to":"ann"}`, "--queue", "out", "--priority", "3", "--in", "1h",
			"--max-attempts", "4", "--timeout", "1m", "--backoff", "1s,2s", "--retry-for", "24h", "--label", "a=b", "--group", "g"))[0]
		parsed, _ := haulier.ParseID(id)
		j := s.job(parsed)
		if string(j.Payload) != `{"to":"ann"}` || j.Queue != "out" || j.Priority != 3 || j.MaxAttempts != 4 || j.Labels["a"] != "b" || j.Group != "g" ||
			j.Timeout != haulier.Duration(time.Minute) || len(j.Backoff.List) != 2 || j.State != haulier.Scheduled || j.RetryUntil.IsZero() {
			t.Errorf("the job is %+v", j)
		}
	})
	t.Run("a payload from a file", func(t *testing.T) {
		id := idsOf(t, s.must("from here", "enqueue", "mail", "--payload-file", "-"))[0]
		parsed, _ := haulier.ParseID(id)
		if got := string(s.job(parsed).Payload); got != "from here" {
			t.Errorf("payload %q", got)
		}
	})
	t.Run("a job a line, and none twice with a key", func(t *testing.T) {
		in := "# remark\none\n\ntwo\r\n" + strings.Repeat("x\n", 1500)
		before := s.jobs()
		first := idsOf(t, s.must(in, "enqueue", "mail", "--lines", "-", "--key", "k"))
		again := idsOf(t, s.must(in, "enqueue", "mail", "--lines", "-", "--key", "k"))
		if len(first) != 1502 || strings.Join(first, " ") != strings.Join(again, " ") || s.jobs() != before+1502 {
			t.Errorf("%d ids, then %d; %d jobs", len(first), len(again), s.jobs()-before)
		}
		second, _ := haulier.ParseID(first[1])
		if got := string(s.job(second).Payload); got != "two" {
			t.Errorf("second payload %q", got)
		}
	})
	t.Run("what is wrong is said, and nothing is added", func(t *testing.T) {
		before := s.jobs()
		s.do("", "enqueue").expect(t, 2, "arg")
		s.do("", "enqueue", "mail", "--at", "soon").expect(t, 2, "--at", "18:00")
		s.do("", "enqueue", "mail", "--at", "18:00", "--in", "1h").expect(t, 2, "exclude")
		s.do("", "enqueue", "mail", "--label", "x").expect(t, 2, "KEY=VALUE")
		s.do("", "enqueue", "mail", "--priority", "11").expect(t, 1, "priority", "from -10 to 10")
		s.do("", "enqueue", "mail", "--payload", "x", "--lines", "y").expect(t, 2, "none of the others can be")
		if s.jobs() != before {
			t.Error("jobs were added")
		}
	})
}

func TestParseTime(t *testing.T) {
	now := time.Date(2026, 12, 31, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2027-01-02T03:04:05Z": time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC),
		"2027-01-02 03:04":     time.Date(2027, 1, 2, 3, 4, 0, 0, time.UTC),
		"13:30":                time.Date(2026, 12, 31, 13, 30, 0, 0, time.UTC),
		"11:30":                time.Date(2027, 1, 1, 11, 30, 0, 0, time.UTC),
	} {
		if got, err := parseTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestListAndGet(t *testing.T) {
	s := newSite(t)
	s.do("", "jobs", "list").expect(t, 0, "No jobs.")
	var ids []haulier.ID
	for i := range 3 {
		ids = append(ids, s.add(haulier.Spec{Type: "mail", Group: "g", Payload: []byte("\x1b[31mred\n"), Priority: i}))
	}
	exec := s.add(haulier.Spec{Task: haulier.Task{Exec: &haulier.ExecTask{Argv: []string{"echo", "a b"}}}, RunAt: time.Now().Add(time.Hour)})
	t.Run("a table for people", func(t *testing.T) {
		r := s.do("", "jobs", "list")
		r.expect(t, 0, "ID", "STATE", ids[0].String(), "·[31mred", "echo 'a b'", "scheduled", "in 59m")
		if lines := strings.Split(strings.TrimSpace(r.out), "\n"); len(lines) != 5 || !strings.HasPrefix(lines[1], exec.String()) {
			t.Errorf("not the newest first:\n%s", r.out)
		}
	})
	t.Run("filters and limits", func(t *testing.T) {
		s.do("", "jobs", "list", "--group", "g", "--limit", "2").expect(t, 0, "There are more")
		if r := s.do("", "jobs", "list", "--state", "scheduled"); strings.Count(r.out, "\n") != 2 {
			t.Errorf("of state scheduled:\n%s", r.out)
		}
		s.do("", "jobs", "list", "--state", "asleep").expect(t, 2, "none of blocked, scheduled")
	})
	t.Run("JSON for tools", func(t *testing.T) {
		var list struct {
			Jobs []haulier.Job
			More bool
		}
		if err := json.Unmarshal([]byte(s.must("", "jobs", "list", "-o", "json", "--limit", "3")), &list); err != nil || len(list.Jobs) != 3 || !list.More {
			t.Errorf("%+v, %v", list, err)
		}
		if got := s.must("", "jobs", "list", "-o", "json", "--type", "none"); !strings.Contains(got, `"jobs": []`) {
			t.Errorf("of nothing: %s", got)
		}
	})
	t.Run("one job in full", func(t *testing.T) {
		s.do("", "jobs", "get", exec.String()).expect(t, 0, "command     echo 'a b'", "state       scheduled", "attempt     0 of 10", "history", "lane        default/default/exec (exec)")
		missing := haulier.NewID(time.Now()).String()
		s.do("", "jobs", "get", ids[0].String(), missing).expect(t, 1, ids[0].String(), "not found: "+missing, "haulier jobs list")
		s.do("", "jobs", "get", "17").expect(t, 2, `"17" is no id of a job`)
	})
}

func TestChangingJobs(t *testing.T) {
	s := newSite(t)
	one := s.add(haulier.Spec{Type: "mail"}).String()
	for range 5 {
		s.add(haulier.Spec{Type: "mail", Group: "g"})
	}
	s.do("", "jobs", "cancel").expect(t, 2, "give ids of jobs, or a filter")
	s.do("", "jobs", "cancel", one, "--group", "g").expect(t, 2, "not both")
	s.do("", "jobs", "cancel", one, "--reason", "no longer needed").expect(t, 0, "1 job cancelled")
	s.do("", "jobs", "get", one).expect(t, 0, "no longer needed")
	s.do("", "jobs", "cancel", one).expect(t, 1, "0 jobs cancelled", "conflict", one)
	s.do("", "jobs", "cancel", "--group", "g", "-o", "json").expect(t, 0, `"changed": 5`)
	s.do("", "jobs", "retry", "--group", "g").expect(t, 0, "5 jobs to run again")
	s.do("", "jobs", "delete", "--state", "cancelled").expect(t, 0, "1 job deleted")
	s.do("", "jobs", "cancel", "--all").expect(t, 0, "5 jobs cancelled")
	s.do("", "jobs", "wait", "--group", "g").expect(t, 0)
	s.do("", "jobs", "delete", "--all").expect(t, 0, "5 jobs deleted")
	if n := s.jobs(); n != 0 {
		t.Errorf("%d jobs are left", n)
	}
}

func TestWait(t *testing.T) {
	s := newSite(t)
	s.work()
	good := strings.TrimSpace(s.must("", "run", "--detach", "--", "true"))
	bad := strings.TrimSpace(s.must("", "run", "--detach", "--", "false"))
	s.do("", "jobs", "wait", good).expect(t, 0, "succeeded")
	s.do("", "jobs", "wait", good, bad).expect(t, 1, "1 of 2 jobs did not succeed")
	never := s.add(haulier.Spec{Type: "nobody"}).String()
	s.do("", "jobs", "wait", "--timeout", "20ms", never).expect(t, 1, "time is up", "haulier jobs why")
}

func TestLogs(t *testing.T) {
	s := newSite(t)
	s.work()
	id := strings.TrimSpace(s.must("", "run", "--detach", "--max-attempts", "2", "--backoff", "1ms", "--", "sh", "-c", "printf 'one\\ntwo\\nthree'; echo attempt $HAULIER_ATTEMPT >&2; exit 1"))
	s.do("", "jobs", "wait", id)
	if r := s.do("", "jobs", "logs", id); r.out != "one\ntwo\nthree" || r.errs != "attempt 2\n" || r.code != 0 {
		t.Errorf("out %q, err %q", r.out, r.errs)
	}
	if r := s.do("", "jobs", "logs", "--attempt", "1", id); r.errs != "attempt 1\n" {
		t.Errorf("of the first attempt: %q", r.errs)
	}
	s.do("", "jobs", "logs", "-t", id).expect(t, 0, "Z one\n"[1:], ":")
	s.do("", "jobs", "logs", haulier.NewID(time.Now()).String()).expect(t, 1, "not found")

	t.Run("following goes on until the job has ended", func(t *testing.T) {
		s.env["HAULIER_URL"] = s.url
		id := strings.TrimSpace(s.must("", "run", "--detach", "--stdin", "--", "sh", "-c", "echo begun; sleep 0.3; echo over"))
		b := start(t, s.env, nil, "jobs", "logs", "-f", id)
		b.await("begun\nover\n")
		if code := b.exit(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
}

func TestTail(t *testing.T) {
	s := newSite(t)
	s.work()
	id := strings.TrimSpace(s.must("", "run", "--detach", "--", "sh", "-c", "for i in 1 2 3 4 5; do echo line $i; done"))
	s.do("", "jobs", "wait", id)
	for n, want := range map[string]string{"0": "", "1": "line 5\n", "3": "line 3\nline 4\nline 5\n", "9": "line 1\nline 2\nline 3\nline 4\nline 5\n"} {
		if r := s.do("", "jobs", "logs", "--tail", n, id); r.out != want {
			t.Errorf("the last %s: %q, want %q", n, r.out, want)
		}
	}
}

func TestWhy(t *testing.T) {
	s := newSite(t)
	id := s.add(haulier.Spec{Type: "mail"}).String()
	s.do("", "queues", "pause", "default").expect(t, 0, "1 queue paused")
	s.do("", "jobs", "why", id).expect(t, 0, "is pending since", "queue default is paused", "haulier queues resume default", "no worker is connected")
	s.do("", "jobs", "why", id, "-o", "json").expect(t, 0, `"reasons": [`)
	later := s.add(haulier.Spec{Type: "mail", RunAt: time.Now().Add(time.Hour)}).String()
	s.do("", "jobs", "why", later).expect(t, 0, "It can start at", "in 59m")
}
