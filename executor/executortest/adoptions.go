package executortest

import (
	"strings"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
)

func adopted(c Features) bool { return c.Adopted && c.Output }

var adoptions = []test{
	{"of a worker killed before the start nothing is left", adopted, func(f *fixture) {
		f.kill("prepared", f.job("out=ran"))
		if left := f.again(); len(left) > 0 {
			f.t.Errorf("left: %v", left[0].Ref())
		}
	}},
	{"what runs when its worker is killed goes on", adopted, func(f *fixture) {
		j := f.job("out=one", "sleep=1s", "out=two", "exit=75")
		f.kill("writing", j)
		a := f.one(j)
		out := f.start(a)
		if r := f.wait(a); r.Outcome != haulier.OutcomeRetry || r.Code != 75 || r.Stopped || r.Lapsed {
			f.t.Errorf("got %+v", r)
		}
		if got := out.text(f.t); got != "one\ntwo\n" && got != "two\n" {
			f.t.Errorf("output goes on with %q", got)
		}
		a.Close()
	}},
	{"what ended without a worker is told to the next one", adopted, func(f *fixture) {
		j := f.job("out=begin", "out=middle", "out=end", "exit=66")
		f.kill("ended", j)
		a := f.one(j)
		out := f.start(a)
		if r := f.wait(a); r.Outcome != haulier.OutcomeFailed || r.Code != 66 || string(r.Result) != "end" {
			f.t.Errorf("got %+v, result %q", r, r.Result)
		}
		const said = "begin\nmiddle\nend\n"
		if got := out.text(f.t); !strings.HasSuffix(said, got) {
			f.t.Errorf("output goes on with %q", got)
		}
		a.Close()
	}},
	{"what was adopted can be stopped", adopted, func(f *fixture) {
		j := f.job("term", "out=ready", "sleep=1m")
		f.kill("writing", j)
		a := f.one(j)
		f.start(a)
		a.Stop(-1)
		if r := f.wait(a); !r.Stopped {
			f.t.Errorf("got %+v", r)
		}
		a.Close()
	}},
	{"what nobody wants any more is closed unseen", adopted, func(f *fixture) {
		j := f.job("out=ready", "sleep=1m")
		f.kill("writing", j)
		f.one(j).Close()
	}},
	{"when nobody comes in time it is ended", adopted, func(f *fixture) {
		if testing.Short() {
			f.t.Skip("waits for the end of the patience")
		}
		j := f.job("out=ready", "sleep=1m")
		begin := time.Now()
		f.kill("writing", j)
		if f.Left == nil {
			f.t.Skip("nothing shows that it has ended")
		}
		eventually(f.t, "it still runs", func() bool { return len(f.Left(f.t)) == 0 })
		if alone := time.Since(begin); alone < patience {
			f.t.Errorf("ended after %v, before the patience of %v", alone, patience)
		}
	}},
	{"without a lease nothing goes on", adopted, func(f *fixture) {
		a := f.prepare(f.job("out=ready", "sleep=1m"))
		f.start(a).await(f.t, "ready")
		f.x.Lease(time.Now().Add(200 * time.Millisecond))
		if r := f.wait(a); !r.Lapsed || r.Outcome != haulier.OutcomeError {
			f.t.Errorf("got %+v", r)
		}
		a.Close()
		if r, _ := f.run(f.job("exit=0")); !r.Lapsed {
			f.t.Errorf("what is started without a lease ends with %+v", r)
		}
		f.x.Lease(time.Now().Add(time.Hour))
		if r, _ := f.run(f.job("exit=0")); r.Outcome != haulier.OutcomeOK {
			f.t.Errorf("with a lease again it ends with %+v", r)
		}
	}},
}

// again takes the place of a worker that was killed.
func (f *fixture) again() []executor.Attempt {
	f.t.Helper()
	if err := f.x.Close(); err != nil {
		f.t.Error(err)
	}
	next, left := f.open(f.t, f.dir)
	f.x = next.x
	return left
}

// one takes over the one job that a worker left.
func (f *fixture) one(j *haulier.Job) executor.Attempt {
	f.t.Helper()
	left := f.again()
	if want := (haulier.Ref{Job: j.ID, Attempt: j.Attempt}); len(left) != 1 || left[0].Ref() != want {
		f.t.Fatalf("left are %v, want %v", left, want)
	}
	return left[0]
}

// eventually waits for what nobody tells of.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(soon); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}
