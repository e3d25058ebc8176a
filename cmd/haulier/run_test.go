package main

import (
	"strings"
	"testing"

	"github.com/haulier/haulier"
)

func TestRunPassesOnWhatTheCommandDid(t *testing.T) {
	s := newSite(t)
	s.work()
	t.Run("its streams come out apart and its exit code is this program's", func(t *testing.T) {
		r := s.do("", "run", "--", "sh", "-c", "echo to out; echo to err >&2; exit 7")
		if r.code != 7 || r.out != "to out\n" || r.errs != "to err\n" {
			t.Errorf("code %d, out %q, err %q", r.code, r.out, r.errs)
		}
	})
	t.Run("arguments arrive as they are", func(t *testing.T) {
		if r := s.do("", "run", "printf", "%s|", "a b", "*", ""); r.out != "a b|*||" || r.code != 0 {
			t.Errorf("code %d, out %q, err %q", r.code, r.out, r.errs)
		}
	})
	t.Run("a shell, its input and its environment are there when asked for", func(t *testing.T) {
		r := s.do("b\na\n", "run", "--shell", "--stdin", "--env", "GREETING=hello", "--dir", "/", "--", "sort; echo $GREETING; pwd")
		if r.out != "a\nb\nhello\n/\n" {
			t.Errorf("code %d, out %q, err %q", r.code, r.out, r.errs)
		}
	})
	t.Run("a command that is not there fails with the reason", func(t *testing.T) {
		s.do("", "run", "--", "no-such-program-here").expect(t, s.do("", "run", "--", "no-such-program-here").code, "no-such-program-here")
		if r := s.do("", "run", "--", "no-such-program-here"); r.code == 0 {
			t.Error("it ended with 0")
		}
	})
	t.Run("detached, it prints the id and goes", func(t *testing.T) {
		id := strings.TrimSpace(s.must("", "run", "--detach", "--", "true"))
		s.do("", "jobs", "wait", id).expect(t, 0, "succeeded")
		s.do("", "run", "--detach", "-o", "json", "--", "true").expect(t, 0, `"ids": [`)
	})
	t.Run("every attempt is followed", func(t *testing.T) {
		r := s.do("", "run", "--max-attempts", "2", "--backoff", "10ms", "--", "sh", "-c", "echo attempt $HAULIER_ATTEMPT; exit 3")
		if r.code != 3 || r.out != "attempt 1\nattempt 2\n" {
			t.Errorf("code %d, out %q", r.code, r.out)
		}
	})
}

func TestRunAndInterrupts(t *testing.T) {
	s := newSite(t)
	s.work()
	s.env["HAULIER_URL"] = s.url
	t.Run("the first cancels the job and waits for its end", func(t *testing.T) {
		b := start(t, s.env, strings.NewReader(""), "run", "--", "sh", "-c", "trap 'echo bye; exit 1' TERM; echo ready; while :; do sleep 0.05; done")
		b.await("ready\n")
		b.interrupt()
		if code := b.exit(); code != 130 {
			t.Errorf("exit code %d, want 130", code)
		}
		if text := b.await("was cancelled"); !strings.Contains(text, "bye") {
			t.Errorf("what the command said in the end is missing: %q", text)
		}
	})
	t.Run("the second leaves the job", func(t *testing.T) {
		b := start(t, s.env, strings.NewReader(""), "run", "--grace", "20s", "--", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done")
		b.await("ready\n")
		b.interrupt()
		b.await("another Ctrl-C")
		b.interrupt()
		if code := b.exit(); code != 130 {
			t.Errorf("exit code %d, want 130", code)
		}
		b.await("haulier jobs get")
	})
}

func TestRunSaysWhatAJobWaitsFor(t *testing.T) {
	s := newSite(t)
	s.env["HAULIER_URL"] = s.url
	b := start(t, s.env, strings.NewReader(""), "run", "--", "true")
	b.await("no worker is connected: start one with `haulier worker`")
	s.work()
	if code := b.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestPassingOnTheEndOfAJob(t *testing.T) {
	for name, c := range map[string]struct {
		status haulier.Status
		code   int
		words  string
	}{
		"an exit code alone needs no words": {haulier.Status{State: haulier.Failed, Outcome: haulier.OutcomeError, Code: 9, Error: "exit status 9", Reason: "attempt 1 of 1: exit status 9"}, 9, ""},
		"a timeout is told":                 {haulier.Status{State: haulier.Failed, Outcome: haulier.OutcomeError, Code: 143, Error: "timeout after 1s", Reason: "attempt 1 of 1: timeout after 1s"}, 143, "timeout after 1s"},
		"poison has no code of its own":     {haulier.Status{State: haulier.Failed, Outcome: haulier.OutcomeError, Reason: "poison"}, 1, "poison"},
		"cancelled is interrupted":          {haulier.Status{State: haulier.Cancelled, Reason: "by hand"}, 130, "cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			var said strings.Builder
			p := &program{errs: &said}
			code := p.conclude(p.passOn(&haulier.Job{Status: c.status}))
			if code != c.code || !strings.Contains(said.String(), c.words) || c.words == "" && said.Len() > 0 {
				t.Errorf("code %d, said %q", code, said.String())
			}
		})
	}
}
