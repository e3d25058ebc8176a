package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haulier/haulier"
)

func TestMapPrintsResultsInTheOrderOfTheLines(t *testing.T) {
	s := newSite(t)
	s.work()
	var in, want strings.Builder
	for i := range 330 { // more than a batch of each kind
		fmt.Fprintf(&in, "line %d\n", i)
		fmt.Fprintf(&want, "<line %d>\n", i)
	}
	r := s.do(in.String(), "map", "--", "printf", "<%s>", "{}")
	if r.code != 0 || r.out != want.String() {
		t.Fatalf("code %d, out %.300q, err %q", r.code, r.out, r.errs)
	}
	r.expect(t, 0, "330 jobs in ", ": 330 succeeded")
	t.Run("without {} the line is the last argument", func(t *testing.T) {
		if r := s.do("a b\n\nc\n", "map", "echo", "got"); r.out != "got a b\ngot c\n" {
			t.Errorf("out %q, err %q", r.out, r.errs)
		}
	})
	t.Run("no character of a line is taken for a command", func(t *testing.T) {
		r := s.do("$(echo no) 'x' \"; exit 1\n", "map", "--shell", "--", "echo got {}")
		if r.out != "got $(echo no) 'x' \"; exit 1\n" {
			t.Errorf("out %q, err %q", r.out, r.errs)
		}
	})
	t.Run("no lines are no jobs", func(t *testing.T) {
		s.do("", "map", "--", "true").expect(t, 0, "0 jobs", "nothing to do")
	})
}

func TestMapTellsOfFailures(t *testing.T) {
	s := newSite(t)
	s.work()
	in := "0\n3\n0\n66\n"
	r := s.do(in, "map", "--max-attempts", "1", "--results", "tsv", "--shell", "--", "echo $1; exit $1")
	r.expect(t, 1, "0\tsucceeded\t0\n3\tfailed\t3\n0\tsucceeded\t0\n66\tfailed\t66\n", "4 jobs in", "2 succeeded, 2 failed", "failed: 3: ", "haulier jobs logs ")
	r = s.do(in, "map", "--max-attempts", "1", "-o", "json", "--shell", "--", "echo $1; exit $1")
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	if len(lines) != 5 || r.code != 1 {
		t.Fatalf("code %d, %d lines: %q", r.code, len(lines), r.out)
	}
	var second mapResult
	var last struct{ Summary mapSummary }
	if err := json.Unmarshal([]byte(lines[1]), &second); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(lines[4]), &last); err != nil {
		t.Fatal(err)
	}
	if second.Line != "3" || second.State != "failed" || second.Code != 3 || second.Result != "3" || second.Attempt != 1 {
		t.Errorf("second line: %+v", second)
	}
	if last.Summary.Jobs != 4 || last.Summary.States["failed"] != 2 {
		t.Errorf("summary: %+v", last.Summary)
	}
	s.do(in, "map", "--results", "none", "--", "true").expect(t, 0)
}

func TestMapIsResumableByName(t *testing.T) {
	s := newSite(t)
	s.work()
	in := "a\nb\na\nc\n"
	first := s.do(in, "map", "--name", "twice", "--", "echo")
	again := s.do(in, "map", "--name", "twice", "--", "echo")
	if first.out != "a\nb\na\nc\n" || again.out != first.out || s.jobs() != 4 {
		t.Fatalf("first %q, again %q, %d jobs", first.out, again.out, s.jobs())
	}
	again.expect(t, 0, "4 of them of an earlier run")
	t.Run("lines that were added or moved find their own jobs", func(t *testing.T) {
		r := s.do("new\nc\nb\na\na\na\n", "map", "--name", "twice", "--", "echo")
		if r.code != 0 || r.out != "new\nc\nb\na\na\na\n" || s.jobs() != 6 {
			t.Errorf("code %d, out %q, %d jobs, want 6", r.code, r.out, s.jobs())
		}
	})
	t.Run("another command under the same name is refused", func(t *testing.T) {
		s.do(in, "map", "--name", "twice", "--", "printf").expect(t, 1, "use another --name")
	})
}

func TestMapIsLeftByAnInterrupt(t *testing.T) {
	s := newSite(t) // nobody works yet
	s.env["HAULIER_URL"] = s.url
	in, feed := io.Pipe()
	b := start(t, s.env, in, "map", "--name", "left behind", "--", "echo", "done {}")
	fmt.Fprintln(feed, "one")
	fmt.Fprintln(feed, "two")
	b.await("the jobs wait: no worker is connected")
	b.interrupt()
	if code := b.exit(); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	feed.Close()
	text := b.await("haulier jobs cancel --group 'left behind'")
	if !strings.Contains(text, "Not all lines were read") || !strings.Contains(text, "--name 'left behind'") {
		t.Errorf("it said:\n%s", text)
	}
	s.work()
	if out := s.must("one\ntwo\nthree\n", "map", "--name", "left behind", "--", "echo", "done {}"); out != "done one\ndone two\ndone three\n" {
		t.Errorf("out %q", out)
	}
	if n := s.jobs(); n > 3 {
		t.Errorf("%d jobs, want 3", n)
	}
}

func TestMapCommandLines(t *testing.T) {
	for name, c := range map[string]struct {
		argv  []string
		shell bool
		want  []string
	}{
		"in each argument":      {[]string{"cp", "{}", "{}.bak"}, false, []string{"cp", "L", "L.bak"}},
		"appended":              {[]string{"wc", "-c"}, false, []string{"wc", "-c", "L"}},
		"as the program itself": {[]string{"{}"}, false, []string{"L"}},
		"to a shell":            {[]string{"wc < {}"}, true, []string{`wc < "$1"`, "haulier", "L"}},
	} {
		if got := argvFor(c.argv, c.shell, "L"); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestTallyCountsOnlyItsOwnJobs(t *testing.T) {
	tl := newTally()
	ids := make([]haulier.ID, 4)
	haulier.FillIDs(ids, time.Now())
	tl.seen(ids[0], haulier.Succeeded) // its event comes before its id is known
	for _, id := range ids[:3] {
		tl.known(id, false)
	}
	tl.seen(ids[3], haulier.Failed) // somebody else's
	tl.seen(ids[1], haulier.Running)
	tl.final(ids[2], nil)
	tl.seen(ids[2], haulier.Running) // an old event
	c := tl.counts()
	if c.total != 3 || c.ended != 2 || c.states[haulier.Running] != 1 || c.unhappy() != 1 {
		t.Errorf("%+v", c)
	}
	if words := c.words(); words != "1 running, 1 succeeded, 1 removed" {
		t.Errorf("words %q", words)
	}
}

func TestScreen(t *testing.T) {
	tl := newTally()
	ids := make([]haulier.ID, 4)
	haulier.FillIDs(ids, time.Now())
	for i, id := range ids {
		tl.known(id, false)
		tl.seen(id, []haulier.State{haulier.Succeeded, haulier.Running, haulier.Failed, haulier.Pending}[i])
	}
	tl.complete()
	t.Run("on a terminal a bar is drawn over itself, and taken away for what is printed", func(t *testing.T) {
		var w strings.Builder
		s := &screen{tally: tl, w: &w, width: func() int { return 100 }}
		s.draw(time.Now())
		if err := s.print(&w, []byte("result\n")); err != nil {
			t.Fatal(err)
		}
		want := "\r##############.............. 2 of 4 jobs, 50%, 1 running, 1 not ok\x1b[K\r\x1b[Kresult\n"
		if w.String() != want {
			t.Errorf("%q, want %q", w.String(), want)
		}
	})
	t.Run("on a narrow one it is cut", func(t *testing.T) {
		var w strings.Builder
		s := &screen{tally: tl, w: &w, width: func() int { return 20 }}
		s.draw(time.Now())
		if want := "\r2 of 4 jobs, 50%, …\x1b[K"; w.String() != want {
			t.Errorf("%q, want %q", w.String(), want)
		}
	})
	t.Run("elsewhere there is a line now and then", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var w strings.Builder
			ctx, cancel := context.WithTimeout(t.Context(), 2*lineEvery+time.Second)
			defer cancel()
			(&screen{tally: tl, w: &w}).run(ctx)
			if want := strings.Repeat("2 of 4 jobs, 50%, 1 running, 1 not ok\n", 2); w.String() != want {
				t.Errorf("%q, want %q", w.String(), want)
			}
		})
	})
}
