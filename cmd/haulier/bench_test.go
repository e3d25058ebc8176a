package main

import (
	"encoding/json"
	"os"
	"testing"
)

func TestBench(t *testing.T) {
	t.Setenv(programVariable, "1") // its processes are this binary
	r := do(t, home(t), nil, "bench", "-o", "json", "--reps", "1", "--span", "50ms", "--callers", "1,3", "--jobs", "500", "--waiting", "1000",
		"--only", "enqueue,batch,drain,latency,memory", "--durability", "process", "--dir", t.TempDir())
	if r.code != 0 {
		t.Fatalf("code %d\n%s", r.code, r.errs)
	}
	var report struct {
		Machine      facts
		Durability   string
		Measurements []measurement
	}
	if err := json.Unmarshal([]byte(r.out), &report); err != nil {
		t.Fatal(err)
	}
	if report.Machine.CPUs < 1 || report.Durability != "process" || len(report.Measurements) != 11 {
		t.Errorf("%s", r.out)
	}
	for _, m := range report.Measurements {
		if len(m.Values) != 1 || m.Values[0] <= 0 {
			t.Errorf("%s: %v", m.Name, m.Values)
		}
	}
	t.Run("it tells people what they measured", func(t *testing.T) {
		r := do(t, home(t), nil, "bench", "--reps", "1", "--jobs", "200", "--only", "drain", "--dir", t.TempDir())
		r.expect(t, 0, "CPUs", "durability sync", "MEDIAN", "drain of 200", "SERVER PER 100K")
	})
	t.Run("it clears up in a server that is not its own", func(t *testing.T) {
		s := newSite(t)
		s.do("", "bench", "--url", s.url, "--reps", "1", "--span", "50ms", "--callers", "2", "--only", "enqueue,drain", "--jobs", "100").expect(t, 0, "a server that runs already")
		if n := s.jobs(); n > 100 { // those that were drained go by themselves, a minute later
			t.Errorf("%d jobs are left", n)
		}
	})
}

func TestProcessUse(t *testing.T) {
	if u := processStat(os.Getpid()); u.RSS < 1<<20 {
		t.Errorf("this process has %+v", u)
	}
	if u := processStat(1 << 30); u != (processUse{}) {
		t.Errorf("no process has %+v", u)
	}
}
