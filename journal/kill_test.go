package journal_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haulier/haulier/journal"
)

// childVariable makes the test binary a process that uses the journal in a folder until it is killed.
const childVariable = "HAULIER_TEST_JOURNAL"

// child writes and ends lines, and prints what was acknowledged.
func child(dir string) {
	j, err := journal.Open(dir, journal.Options{SegmentBytes: 5000})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	ctx := context.Background()
	var out sync.Mutex
	say := func(what, text string) {
		out.Lock()
		defer out.Unlock()
		fmt.Println(what, text)
	}
	for w := range 4 {
		go func() {
			for i := 0; ; i++ {
				text := fmt.Sprintf("%s:%d:%d", os.Getenv(childVariable+"_ROUND"), w, i)
				if _, _, err := j.Write(ctx, jobs(text, text+"+")); err != nil {
					say("error", err.Error())
				}
				if err := j.Sync(ctx); err != nil {
					say("error", err.Error())
				}
				say("written", text)
			}
		}()
	}
	for {
		if err := j.Wait(ctx); err != nil {
			say("error", err.Error())
		}
		token, err := j.Reserve(20, time.Minute)
		if err != nil {
			say("error", err.Error())
			continue
		}
		if token == 0 {
			continue
		}
		entries, err := j.Read(token)
		if err == nil {
			say("tried", texts(entries))
			err = j.Done(ctx, token)
		}
		if err != nil {
			say("error", err.Error())
		}
		say("done", texts(entries))
	}
}

// TestKill: what was acknowledged before a kill is there after it, until it is done, and not after that.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	written, tried, done := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for round := range 8 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), childVariable+"="+dir, fmt.Sprintf("%s_ROUND=%d", childVariable, round))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			if n == 150+37*round {
				cmd.Process.Kill() // what it said before is read still
			}
			what, text, _ := strings.Cut(lines.Text(), " ")
			for _, l := range strings.Fields(text) {
				switch what {
				case "written":
					written[l], written[l+"+"] = true, true
				case "tried":
					tried[l] = true
				case "done":
					if done[l] {
						t.Errorf("%s came again after it was done", l)
					}
					done[l] = true
				case "error":
					t.Fatal(text)
				}
			}
		}
		_ = cmd.Wait() // it was killed
	}
	j := open(t, dir, journal.Options{})
	left := map[string]bool{}
	for _, l := range strings.Fields(rest(t, j)) {
		if done[l] || left[l] {
			t.Errorf("%s comes again", l)
		}
		left[l] = true
	}
	for l := range written {
		if !left[l] && !done[l] && !tried[l] { // what was tried may have been done before the kill
			t.Errorf("%s was acknowledged, and is lost", l)
		}
	}
	for l := range left {
		if other := strings.TrimSuffix(l, "+"); !tried[l] && (!left[other] || !left[other+"+"]) {
			t.Errorf("of the request of %s, a part is there", l)
		}
	}
	t.Logf("%d written, %d done, %d left", len(written), len(done), len(left))
}
