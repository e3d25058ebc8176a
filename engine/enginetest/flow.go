package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/joblog"
)

var flowing = []behaviour{
	{"a job that asks for it takes the result of one that is alike, without running", func(t *testing.T, h *Harness) {
		like := func(change func(*haulier.Spec)) haulier.ID {
			return h.add(func(s *haulier.Spec) {
				s.Payload, s.Flow = []byte(`{"n":1}`), &haulier.Flow{Memo: &haulier.Memo{MaxAge: haulier.Duration(time.Hour)}}
				if change != nil {
					change(s)
				}
			})
		}
		s := h.open(func(s *haulier.Session) { s.Tenants, s.Lease = []string{"*"}, haulier.Duration(haulier.MaxLease) })
		first := like(nil)
		j := h.claimOne(s)
		like(nil) // none has succeeded yet
		if errs := h.report(s, haulier.Report{Ref: ref(j), Kind: haulier.ReportFinish, Outcome: haulier.OutcomeOK, Result: []byte(`{"sum":7}`)}); errs[0] != nil {
			t.Fatal(errs[0])
		}
		h.finish(s, h.claimOne(s), haulier.OutcomeFailed)
		h.restart()
		second := like(func(s *haulier.Spec) { s.Flow.Notify = []haulier.Notify{{URL: "http://x.example"}} })
		got := h.want(second, haulier.Succeeded)
		if string(got.Result) != `{"sum":7}` || got.MemoOf != first || got.Attempt != 0 || !strings.Contains(got.Reason, first.String()) {
			t.Errorf("%+v %+v", got.Status, got.Standing)
		}
		for name, change := range map[string]func(*haulier.Spec){
			"payload": func(s *haulier.Spec) { s.Payload = []byte(`{"n":2}`) },
			"type":    func(s *haulier.Spec) { s.Type = "other" },
			"tenant":  func(s *haulier.Spec) { s.Tenant = "foreign" },
			"task":    func(s *haulier.Spec) { s.Task.Exec = &haulier.ExecTask{Argv: []string{"true"}} },
			"fresh":   func(s *haulier.Spec) { s.Memo.Fresh = true },
			"later":   func(s *haulier.Spec) { s.RunAt = time.Now().Add(time.Minute) },
			"unasked": func(s *haulier.Spec) { s.Flow = nil },
		} {
			if j := h.get(like(change)); j.State.Terminal() {
				t.Errorf("another %s: %v", name, j.State)
			}
		}
		h.pass(time.Hour + time.Second)
		h.want(like(nil), haulier.Pending) // too old
		h.pass(8 * 24 * time.Hour)         // the first is purged
		anyAge := like(func(s *haulier.Spec) { s.Memo.MaxAge = 0 })
		h.want(anyAge, haulier.Pending)
	}},
	{"a job starts when all that it needs has succeeded", needsAll},
	{"a failed job cancels what needs it, and brings it back when it runs again", needsBarred},
	{"a condition on failure or any end is met by it", needsConditions},
	{"jobs of one request name each other, and circles are refused", needsRefs},
	{"a job finds the results of those that it needs", needsResults},
	{"a job with nothing to run succeeds when its needs are met", needsNothing},
	{"of jobs that yield to the key they hold one runs at a time, in order", oneAtATime},
	{"a running limit holds for a key, and a new limit counts at once", limitRunning},
	{"a rate spreads starts evenly", limitRate},
	{"readers share, writers do not, and no writer starves", readersWriters},
	{"a key of a lost or cancelled job is free again", lostHolder},
	{"who was called and does not come loses its turn", calledAndPaused},
	{"a job may stop waiting for a key", yieldFor},
	{"a unique job is not enqueued twice", unique},
	{"a newer job of a collapse key replaces what waits", collapse},
	{"a job that succeeds brings the one that follows, with its result", follows},
	{"lines of output bring jobs, each once", chains},
}

// ok ends an attempt well, with a result.
func (h *Harness) ok(session haulier.ID, j haulier.Job) {
	h.t.Helper()
	r := haulier.Report{Ref: ref(j), Kind: haulier.ReportFinish, Outcome: haulier.OutcomeOK, Result: []byte(`{"a":1}`)}
	if errs := h.report(session, r); errs[0] != nil {
		h.t.Fatalf("finish: %v", errs[0])
	}
}

// patient is a session that outlives the waits of a test.
func patient(s *haulier.Session) { s.Lease = haulier.Duration(haulier.MaxLease) }

func withFlow(w haulier.Flow) haulier.Spec {
	return haulier.Spec{Type: "work", MaxAttempts: 1, Flow: &w}
}

func needing(ids ...haulier.ID) haulier.Flow {
	var w haulier.Flow
	for _, id := range ids {
		w.Needs = append(w.Needs, haulier.Need{Job: id})
	}
	return w
}

func needsAll(_ *testing.T, h *Harness) {
	s := h.open(nil)
	a, b := h.add(nil), h.add(nil)
	c := h.enqueue(withFlow(needing(a, b)))[0]
	h.want(c, haulier.Blocked)
	for range 2 {
		h.want(c, haulier.Blocked)
		h.ok(s, h.claim(s, 1)[0])
	}
	h.want(c, haulier.Pending)
	h.ok(s, h.claimOne(s))
	d := h.enqueue(withFlow(needing(a, c)))[0]
	h.want(d, haulier.Pending)
}

func needsBarred(_ *testing.T, h *Harness) {
	s := h.open(nil)
	a := h.add(func(s *haulier.Spec) { s.MaxAttempts = 1 })
	b := h.enqueue(withFlow(needing(a)))[0]
	c := h.enqueue(withFlow(needing(b)))[0]
	h.finish(s, h.claimOne(s), haulier.OutcomeFailed)
	h.want(b, haulier.Cancelled)
	h.want(c, haulier.Cancelled)
	if _, err := h.Retry(h.t.Context(), haulier.Selection{IDs: []haulier.ID{a}}, "test"); err != nil {
		h.t.Fatal(err)
	}
	h.want(b, haulier.Blocked)
	h.want(c, haulier.Blocked)
	h.ok(s, h.claimOne(s))
	h.ok(s, h.claimOne(s))
	h.ok(s, h.claimOne(s))
	h.want(c, haulier.Succeeded)
}

func needsConditions(_ *testing.T, h *Harness) {
	s := h.open(nil)
	a := h.add(func(s *haulier.Spec) { s.MaxAttempts = 1 })
	failed := needing(a)
	failed.Needs[0].On = haulier.OnFailed
	any := needing(a)
	any.Needs[0].On = haulier.OnFinished
	ids := h.enqueue(withFlow(failed), withFlow(any), withFlow(needing(a)))
	h.finish(s, h.claimOne(s), haulier.OutcomeFailed)
	h.want(ids[0], haulier.Pending)
	h.want(ids[1], haulier.Pending)
	h.want(ids[2], haulier.Cancelled)
}

func needsRefs(_ *testing.T, h *Harness) {
	ref := func(name string, needs ...string) haulier.Spec {
		w := haulier.Flow{Ref: name}
		for _, n := range needs {
			w.Needs = append(w.Needs, haulier.Need{Ref: n})
		}
		return withFlow(w)
	}
	res, err := h.Enqueue(h.t.Context(), []haulier.EnqueueRequest{
		{Jobs: []haulier.Spec{ref("a", "b"), ref("b", "c"), ref("c", "a")}},
		{Jobs: []haulier.Spec{ref("a", "x")}},
		{Jobs: []haulier.Spec{ref("d", "b", "c"), ref("a"), ref("b", "a"), ref("c", "a")}},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	if !errors.Is(res[0].Err, haulier.ErrInvalid) || !errors.Is(res[1].Err, haulier.ErrInvalid) || res[2].Err != nil {
		h.t.Fatalf("%v, %v, %v", res[0].Err, res[1].Err, res[2].Err)
	}
	s := h.open(nil)
	h.ok(s, h.claimOne(s))
	two := h.claim(s, 10)
	if len(two) != 2 {
		h.t.Fatalf("%d jobs to claim", len(two))
	}
	h.ok(s, two[0])
	h.want(res[2].IDs[0], haulier.Blocked)
	h.ok(s, two[1])
	h.want(res[2].IDs[0], haulier.Pending)
}

func needsResults(t *testing.T, h *Harness) {
	s := h.open(nil)
	named := haulier.Flow{Ref: "build"}
	child := haulier.Flow{Needs: []haulier.Need{{Ref: "build"}}}
	h.enqueue(withFlow(named), withFlow(child))
	build := h.claimOne(s)
	h.ok(s, build)
	j := h.claimOne(s)
	result, ok := j.NeedResult("build")
	if !ok || string(result) != `{"a":1}` || j.Results[0].Job != build.ID || j.Results[0].State != haulier.Succeeded {
		t.Errorf("results %+v", j.Results)
	}
	if string(j.Payload) != `{"build":{"a":1}}` {
		t.Errorf("the payload is %s", j.Payload)
	}
	own := withFlow(haulier.Flow{Needs: []haulier.Need{{Job: build.ID}}})
	own.Payload = []byte("mine")
	h.enqueue(own)
	if j := h.claimOne(s); string(j.Payload) != "mine" {
		t.Errorf("the payload is %s", j.Payload)
	}
}

func needsNothing(_ *testing.T, h *Harness) {
	s := h.open(nil)
	a := h.add(nil)
	w := needing(a)
	meet := h.enqueue(haulier.Spec{Task: haulier.Task{None: &haulier.NoTask{}}, Flow: &w})[0]
	last := h.enqueue(withFlow(needing(meet)))[0]
	h.ok(s, h.claimOne(s))
	h.want(meet, haulier.Succeeded)
	h.want(last, haulier.Pending)
}

// mutex is a job that runs alone among those of its key.
func mutex(key string) haulier.Flow {
	return haulier.Flow{Holds: []string{key}, YieldsTo: []haulier.Yield{{Key: key}}}
}

func oneAtATime(_ *testing.T, h *Harness) {
	s := h.open(nil)
	var ids []haulier.ID
	for range 5 {
		ids = append(ids, h.enqueue(withFlow(mutex("k")))[0])
		h.pass(time.Millisecond)
	}
	urgent := withFlow(mutex("k"))
	for i := range ids {
		j := h.claimOne(s)
		if i < 1 && j.ID != ids[i] {
			h.t.Fatalf("job %d runs before its turn", i)
		}
		if i == 0 {
			urgent.Priority = 5
			ids = append(ids[:1], append(h.enqueue(urgent), ids[1:]...)...)
			if more := h.claim(s, 10); len(more) != 0 {
				h.t.Fatalf("%d more may run", len(more))
			}
			h.want(ids[1], haulier.Blocked)
		}
		if j.ID != ids[i] {
			h.t.Fatalf("job %d runs before its turn", i)
		}
		h.ok(s, j)
	}
	h.ok(s, h.claimOne(s))
}

func limitRunning(_ *testing.T, h *Harness) {
	s := h.open(nil)
	limit := func(n int) {
		h.t.Helper()
		if err := h.SetLimit(h.t.Context(), "default", "api", haulier.Limit{Running: n}); err != nil {
			h.t.Fatal(err)
		}
	}
	limit(2)
	for range 10 {
		h.enqueue(withFlow(haulier.Flow{Limits: []string{"api"}}))
	}
	first := h.claim(s, 10)
	if len(first) != 2 {
		h.t.Fatalf("%d run at once", len(first))
	}
	limit(5)
	if more := h.claim(s, 10); len(more) != 3 {
		h.t.Fatalf("%d more run at once", len(more))
	}
	limit(0)
	if more := h.claim(s, 10); len(more) != 5 {
		h.t.Fatalf("%d more run at once", len(more))
	}
}

func limitRate(_ *testing.T, h *Harness) {
	s := h.open(patient)
	if err := h.SetLimit(h.t.Context(), "default", "queue:default", haulier.Limit{Rate: 2, Per: haulier.Duration(time.Minute)}); err != nil {
		h.t.Fatal(err)
	}
	for range 4 {
		h.add(nil)
		h.pass(time.Millisecond)
	}
	for range 4 {
		j := h.claimOne(s)
		if more := h.claim(s, 10); len(more) != 0 {
			h.t.Fatalf("%d start at once", len(more))
		}
		h.ok(s, j)
		h.pass(29 * time.Second)
		if more := h.claim(s, 10); len(more) != 0 {
			h.t.Fatalf("%d start too early", len(more))
		}
		h.pass(2 * time.Second)
	}
}

func readersWriters(_ *testing.T, h *Harness) {
	s := h.open(nil)
	reader := haulier.Flow{Holds: []string{"r"}, YieldsTo: []haulier.Yield{{Key: "w"}}}
	writer := haulier.Flow{Holds: []string{"w"}, YieldsTo: []haulier.Yield{{Key: "w"}, {Key: "r"}}}
	var order []haulier.ID
	for _, w := range []haulier.Flow{reader, reader, writer, reader} {
		order = append(order, h.enqueue(withFlow(w))[0])
		h.pass(time.Millisecond)
	}
	readers := h.claim(s, 10)
	if len(readers) != 3 { // the writer does not hold r: it is those behind it that wait for it once it stands in the line
		h.t.Logf("%d readers", len(readers))
	}
	late := h.enqueue(withFlow(reader))[0]
	if more := h.claim(s, 10); len(more) != 0 {
		h.t.Fatalf("%d pass the writer", len(more))
	}
	for _, j := range readers {
		h.ok(s, j)
	}
	w := h.claimOne(s)
	if w.ID != order[2] {
		h.t.Fatalf("the writer's turn has not come")
	}
	h.ok(s, w)
	if next := h.claim(s, 10); len(next) == 0 || next[len(next)-1].ID != late {
		h.t.Fatalf("the late reader does not come")
	}
}

func lostHolder(_ *testing.T, h *Harness) {
	s := h.open(func(s *haulier.Session) { s.Lease = haulier.Duration(10 * time.Second) })
	a := h.enqueue(withFlow(mutex("k")))[0]
	h.claimOne(s)
	h.pass(time.Millisecond)
	b := h.enqueue(withFlow(mutex("k")))[0]
	if more := h.claim(s, 10); len(more) != 0 {
		h.t.Fatal("two hold the key")
	}
	h.want(b, haulier.Blocked)
	h.pass(11 * time.Second)
	h.want(a, haulier.Failed) // its one attempt
	s = h.open(nil)
	if j := h.claimOne(s); j.ID != b {
		h.t.Fatal("the key is not free")
	}
	c := h.enqueue(withFlow(mutex("k")))[0]
	d := h.enqueue(withFlow(mutex("k")))[0]
	h.claim(s, 10)
	if _, err := h.Cancel(h.t.Context(), haulier.Selection{IDs: []haulier.ID{c}}, "test", ""); err != nil {
		h.t.Fatal(err)
	}
	h.ok(s, *h.want(b, haulier.Claimed))
	if j := h.claimOne(s); j.ID != d {
		h.t.Fatal("the next is not called")
	}
}

func calledAndPaused(_ *testing.T, h *Harness) {
	s := h.open(nil)
	h.enqueue(withFlow(mutex("k")))
	running := h.claimOne(s)
	other := withFlow(mutex("k"))
	other.Queue = "slow"
	a := h.enqueue(other)[0]
	h.pass(time.Millisecond)
	b := h.enqueue(withFlow(mutex("k")))[0]
	h.claim(s, 10)
	if err := h.PauseQueue(h.t.Context(), "default", "slow", true, "test"); err != nil {
		h.t.Fatal(err)
	}
	h.ok(s, running)
	h.want(a, haulier.Pending)
	if more := h.claim(s, 10); len(more) != 0 {
		h.t.Fatal("the turn of who was called is not kept")
	}
	h.pass(11 * time.Second)
	if j := h.claimOne(s); j.ID != b {
		h.t.Fatal("the next does not pass")
	}
}

func yieldFor(_ *testing.T, h *Harness) {
	s := h.open(patient)
	h.enqueue(withFlow(mutex("k")))
	h.claimOne(s)
	w := mutex("k")
	w.YieldsTo[0].For = haulier.Duration(time.Minute)
	b := h.enqueue(withFlow(w))[0]
	if more := h.claim(s, 10); len(more) != 0 {
		h.t.Fatal("it does not wait")
	}
	h.pass(61 * time.Second)
	if j := h.claimOne(s); j.ID != b {
		h.t.Fatal("it waits on")
	}
}

func unique(_ *testing.T, h *Harness) {
	s := h.open(nil)
	spec := func(u haulier.Unique) haulier.Spec {
		j := withFlow(haulier.Flow{Unique: &u})
		j.Payload = []byte(`{"id":7,"n":1}`)
		return j
	}
	a := h.enqueue(spec(haulier.Unique{}))[0]
	res, err := h.Enqueue(h.t.Context(), []haulier.EnqueueRequest{{Jobs: []haulier.Spec{{Type: "work"}, spec(haulier.Unique{})}}})
	if err != nil || res[0].Err != nil || res[0].IDs[1] != a || len(res[0].Existing) != 1 || res[0].Existing[0] != 1 {
		h.t.Fatalf("a second job was added: %+v, %v", res, err)
	}
	if _, err := h.Cancel(h.t.Context(), haulier.Selection{IDs: res[0].IDs[:1]}, "test", ""); err != nil {
		h.t.Fatal(err)
	}
	res, err = h.Enqueue(h.t.Context(), []haulier.EnqueueRequest{{Jobs: []haulier.Spec{spec(haulier.Unique{Duplicate: haulier.DuplicateReject})}}})
	if err != nil || !errors.Is(res[0].Err, haulier.ErrConflict) {
		h.t.Fatalf("%v, %v", err, res)
	}
	c := h.enqueue(spec(haulier.Unique{Duplicate: haulier.DuplicateReplace}))[0]
	h.want(a, haulier.Cancelled)
	j := h.claimOne(s)
	if j.ID != c {
		h.t.Fatal("another job was claimed")
	}
	if d := h.enqueue(spec(haulier.Unique{}))[0]; d == c {
		h.t.Fatal("a running job keeps others out of the scope of those that wait")
	}
	active := haulier.Unique{Fields: []string{"id"}, Scope: haulier.UniqueActive}
	e := h.enqueue(spec(active))[0]
	for range 2 {
		h.claim(s, 10)
		if f := h.enqueue(spec(active))[0]; f != e {
			h.t.Fatal("it runs twice")
		}
	}
	h.ok(s, *h.want(e, haulier.Claimed))
	if f := h.enqueue(spec(active))[0]; f == e {
		h.t.Fatal("the key is not free")
	}
}

func collapse(_ *testing.T, h *Harness) {
	s := h.open(nil)
	w := mutex("job")
	w.Collapse = "job"
	a1 := h.enqueue(withFlow(w))[0]
	run := h.claimOne(s)
	var a []haulier.ID
	var kids []haulier.ID
	for range 2 {
		h.pass(time.Second)
		id := h.enqueue(withFlow(w))[0]
		a = append(a, id)
		kids = append(kids, h.enqueue(withFlow(needing(id)))[0])
		h.claim(s, 10)
	}
	if j := h.want(a[0], haulier.Collapsed); j.Survivor != a[1] {
		h.t.Fatalf("the survivor is %v", j.Survivor)
	}
	h.want(a[1], haulier.Blocked)
	h.ok(s, run)
	h.want(a1, haulier.Succeeded)
	h.ok(s, h.claimOne(s))
	h.want(a[1], haulier.Succeeded)
	for _, k := range kids {
		h.want(k, haulier.Pending)
	}
}

func follows(_ *testing.T, h *Harness) {
	s := h.open(nil)
	h.enqueue(withFlow(haulier.Flow{Then: "other"}))
	j := h.claimOne(s)
	h.ok(s, j)
	next := h.claimOne(s)
	if next.Type != "other" || next.Parent != j.ID || string(next.Payload) != `{"a":1}` {
		h.t.Fatal(fmt.Sprint(next))
	}
}

// chains feeds output in pieces, some twice, and lets a second attempt write the same again.
func chains(t *testing.T, h *Harness) {
	s := h.open(patient)
	text := "hello\nJ: mail|{\"to\":1}\nJ: no job\nnot J: mail|x\nJ: mail|a|b\r\nJ: a/b|x\n J: mail|x\nJ: last|no newline"
	spec := haulier.Spec{Type: "work", Queue: "default", Group: "g", Priority: 3, Backoff: &haulier.Backoff{Constant: haulier.Duration(time.Second)}, Flow: &haulier.Flow{Chain: true}}
	id := h.enqueue(spec)[0]
	for attempt := 1; attempt <= 2; attempt++ {
		j := h.claimOne(s)
		var sent []byte
		for at := 0; at < len(text); at += 7 {
			piece := joblog.Append(nil, joblog.Stdout, time.Now(), []byte(text[at:min(at+7, len(text))]))
			piece = joblog.Append(piece, joblog.Stderr, time.Now(), []byte("J: mail|stderr\n"))
			for range 1 + at%2 {
				if errs := h.report(s, haulier.Report{Ref: ref(j), Kind: haulier.ReportLog, Log: piece, LogFrom: int64(len(sent))}); errs[0] != nil {
					t.Errorf("attempt %d, at %d: %v", attempt, at, errs[0])
				}
			}
			sent = append(sent, piece...)
			if at == 21 && attempt == 1 {
				h.restart()
			}
		}
		h.finish(s, j, []haulier.Outcome{haulier.OutcomeError, haulier.OutcomeOK}[attempt-1])
		h.pass(2 * time.Second)
	}
	page, err := h.List(t.Context(), haulier.Filter{Group: "g"}, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, j := range page.Jobs {
		if j.ID == id {
			continue
		}
		got = append(got, fmt.Sprintf("%s %s %d", j.Type, j.Payload, j.Priority))
		if j.Parent != id || j.Tenant != "default" {
			t.Errorf("%+v", j.Spec)
		}
	}
	slices.Sort(got)
	if want := []string{"last no newline 3", `mail a|b 3`, `mail {"to":1} 3`}; !slices.Equal(got, want) {
		t.Errorf("it brought %q, want %q", got, want)
	}
	plain := h.add(nil)
	j := h.claimOne(s)
	h.report(s, haulier.Report{Ref: ref(j), Kind: haulier.ReportLog, Log: joblog.Append(nil, joblog.Stdout, time.Now(), []byte("J: mail|x\n"))})
	h.finish(s, j, haulier.OutcomeOK)
	if page, err := h.List(t.Context(), haulier.Filter{}, "", 100); err != nil || len(page.Jobs) != 5 {
		t.Errorf("a job that does not say so brought one: %d, %v, %v", len(page.Jobs), plain, err)
	}
}
