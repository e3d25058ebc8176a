package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/client"
	"github.com/haulier/haulier/joblog"
)

func worker(t *testing.T, c *client.Client) haulier.Session {
	t.Helper()
	s, err := c.OpenSession(t.Context(), haulier.Session{
		Worker: "w1", Tenants: []string{"default"}, Queues: map[string]int{"*": 1}, Kinds: []haulier.Kind{haulier.KindGo, haulier.KindExec},
		Types: []string{"mail"}, Concurrency: 10, Host: "here", Labels: map[string]string{"zone": "a"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.ID.IsNil() || s.Lease == 0 || s.Worker != "w1" {
		t.Fatalf("session %+v", s)
	}
	return s
}

func add(t *testing.T, q haulier.Producer, specs ...haulier.Spec) []haulier.ID {
	t.Helper()
	res, err := q.Enqueue(t.Context(), []haulier.EnqueueRequest{{Jobs: specs}})
	if err != nil || res[0].Err != nil {
		t.Fatal(err, res)
	}
	return res[0].IDs
}

func claim(t *testing.T, q haulier.Consumer, session haulier.ID, n int) []haulier.Job {
	t.Helper()
	jobs, err := q.Claim(t.Context(), haulier.ClaimRequest{Session: session, N: n, Wait: 10 * time.Second})
	if err != nil || len(jobs) != n {
		t.Fatalf("claimed %d of %d: %v", len(jobs), n, err)
	}
	return jobs
}

func TestAJobGoesItsWholeWayOverTheNetwork(t *testing.T) {
	c := dial(t, serve(t, newEngine(t), nil, "127.0.0.1:0").addr, "")
	ctx := t.Context()
	payload := []byte("{ \"to\" : \"<a&b>\" }") // not as a JSON encoder would write it
	id := add(t, c, haulier.Spec{Type: "mail", Payload: payload, Priority: 3, Labels: map[string]string{"k": "v"}, Group: "g"})[0]
	s := worker(t, c)
	j := claim(t, c, s.ID, 1)[0]
	if j.ID != id || !bytes.Equal(j.Payload, payload) || j.Priority != 3 || j.Labels["k"] != "v" {
		t.Fatalf("claimed %+v", j)
	}
	ref := haulier.Ref{Job: id, Attempt: j.Attempt}
	out := joblog.Append(nil, joblog.Stdout, time.Now(), []byte("hello\n"))
	errs, err := c.Report(ctx, s.ID, []haulier.Report{
		{Ref: ref, Kind: haulier.ReportStart},
		{Ref: ref, Kind: haulier.ReportProgress, Percent: 50, Step: "half", Log: out},
		{Ref: haulier.Ref{Job: id, Attempt: 7}, Kind: haulier.ReportStart},
	})
	if err != nil || errs[0] != nil || errs[1] != nil || !errors.Is(errs[2], haulier.ErrLeaseLost) {
		t.Fatalf("reports: %v, %v", errs, err)
	}
	chunk, err := c.Log(ctx, haulier.LogRequest{Job: id, Wait: true})
	if err != nil || !bytes.Equal(chunk.Frames, out) || chunk.End || chunk.Attempt != 1 {
		t.Fatalf("log %+v, %v", chunk, err)
	}
	waited := make(chan error, 1)
	go func() {
		jobs, err := c.Wait(ctx, "", []haulier.ID{id})
		if err == nil && (jobs[0] == nil || jobs[0].State != haulier.Succeeded || string(jobs[0].Result) != "{ }") {
			err = fmt.Errorf("waited for %+v", jobs[0])
		}
		waited <- err
	}()
	errs, err = c.Report(ctx, s.ID, []haulier.Report{{Ref: ref, Kind: haulier.ReportFinish, Outcome: haulier.OutcomeOK, Result: []byte("{ }")}})
	if err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	if err := <-waited; err != nil {
		t.Fatal(err)
	}
	chunk, err = c.Log(ctx, haulier.LogRequest{Job: id, From: chunk.Next, Attempt: 1, Wait: true})
	if err != nil || !chunk.End {
		t.Fatalf("end of the log: %+v, %v", chunk, err)
	}
	jobs, err := c.Get(ctx, "", []haulier.ID{haulier.NewID(time.Now()), id})
	if err != nil || jobs[0] != nil || jobs[1] == nil {
		t.Fatalf("get: %v, %v", jobs, err)
	}
	if h := jobs[1].History; len(h) < 4 || !bytes.Equal(jobs[1].Payload, payload) || jobs[1].Worker != "w1" {
		t.Fatalf("job %+v", jobs[1])
	}
	if err := c.CloseSession(ctx, s.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Claim(ctx, haulier.ClaimRequest{Session: s.ID, N: 1}); !errors.Is(err, haulier.ErrLeaseLost) {
		t.Fatalf("claim of a closed session: %v", err)
	}
}

func TestOperatorsSeeAndChangeJobs(t *testing.T) {
	c := dial(t, serve(t, newEngine(t), nil, "127.0.0.1:0").addr, "")
	ctx := t.Context()
	ids := add(t, c, haulier.Spec{Type: "mail", Group: "g"}, haulier.Spec{Type: "mail", Labels: map[string]string{"a": "b=c d&e"}},
		haulier.Spec{Type: "other", Queue: "slow", Tenant: "acme"})
	var all []*haulier.Job
	for cursor, n := "", 0; ; n++ {
		p, err := c.List(ctx, haulier.Filter{}, cursor, 2)
		if err != nil || n > 20 {
			t.Fatal(n, err)
		}
		all = append(all, p.Jobs...)
		if cursor = p.Next; cursor == "" {
			break
		}
	}
	if len(all) != 3 {
		t.Fatalf("listed %d jobs", len(all))
	}
	p, err := c.List(ctx, haulier.Filter{Labels: map[string]string{"a": "b=c d&e"}, States: []haulier.State{haulier.Pending, haulier.Running}}, "", 10)
	if err != nil || len(p.Jobs) != 1 || p.Jobs[0].ID != ids[1] {
		t.Fatalf("by label: %v, %v", p, err)
	}
	why, err := c.Why(ctx, "", ids[0])
	if err != nil || len(why.Reasons) == 0 {
		t.Fatalf("why: %+v, %v", why, err)
	}
	unknown := haulier.NewID(time.Now())
	ch, err := c.Cancel(ctx, haulier.Selection{IDs: []haulier.ID{ids[0], unknown}}, "me", "no need")
	if err != nil || ch.N != 1 || !errors.Is(ch.Errors[unknown], haulier.ErrNotFound) {
		t.Fatalf("cancel: %+v, %v", ch, err)
	}
	if ch, err = c.Retry(ctx, haulier.Selection{IDs: ids[:1]}, ""); err != nil || ch.N != 1 {
		t.Fatalf("retry: %+v, %v", ch, err)
	}
	if ch, err = c.Cancel(ctx, haulier.Selection{Filter: &haulier.Filter{Type: "mail"}}, "", ""); err != nil || ch.N != 2 {
		t.Fatalf("cancel by filter: %+v, %v", ch, err)
	}
	if ch, err = c.Delete(ctx, haulier.Selection{Filter: &haulier.Filter{States: []haulier.State{haulier.Cancelled}}}, ""); err != nil || ch.N != 2 {
		t.Fatalf("delete by filter: %+v, %v", ch, err)
	}
	if err := c.PauseQueue(ctx, "acme", "slow", true, ""); err != nil {
		t.Fatal(err)
	}
	if err := c.WeighQueue(ctx, "acme", "slow", 5, ""); err != nil {
		t.Fatal(err)
	}
	if err := c.WeighQueue(ctx, "acme", "slow", 500, ""); !errors.Is(err, haulier.ErrInvalid) {
		t.Fatalf("weight 500: %v", err)
	}
	queues, err := c.Queues(ctx, "acme")
	if err != nil || len(queues) != 1 || !queues[0].Paused || queues[0].Weight != 5 || queues[0].Counts["pending"] != 1 {
		t.Fatalf("queues: %+v, %v", queues, err)
	}
	counts, err := c.Counts(ctx, "")
	if err != nil || len(counts) != 1 || counts[0].N != 1 || counts[0].Type != "other" {
		t.Fatalf("counts: %+v, %v", counts, err)
	}
	worker(t, c)
	sessions, err := c.Sessions(ctx, "")
	if err != nil || len(sessions) != 1 || sessions[0].Labels["zone"] != "a" {
		t.Fatalf("sessions: %+v, %v", sessions, err)
	}
}

func TestLargePayloadsAreFetchedBySessionAndAttempt(t *testing.T) {
	c := dial(t, serve(t, newEngine(t), nil, "127.0.0.1:0").addr, "")
	big := bytes.Repeat([]byte("0123456789abcdef"), 2<<20/16)
	add(t, c, haulier.Spec{Type: "mail", Payload: big})
	s := worker(t, c)
	j := claim(t, c, s.ID, 1)[0]
	if j.Blob == "" || len(j.Payload) != 0 {
		t.Fatalf("payload of %d bytes stands in the job", len(j.Payload))
	}
	b, err := c.Payload(t.Context(), s.ID, haulier.Ref{Job: j.ID, Attempt: j.Attempt})
	if err != nil || !bytes.Equal(b, big) {
		t.Fatalf("payload of %d bytes: %v", len(b), err)
	}
	if _, err := c.Payload(t.Context(), s.ID, haulier.Ref{Job: j.ID, Attempt: 9}); !errors.Is(err, haulier.ErrLeaseLost) {
		t.Fatalf("of another attempt: %v", err)
	}
}

func TestAKeyedEnqueueAnswersTheSameIDs(t *testing.T) {
	c := dial(t, serve(t, newEngine(t), nil, "127.0.0.1:0").addr, "")
	req := []haulier.EnqueueRequest{{Key: "once", Jobs: []haulier.Spec{{Type: "mail"}}}}
	first, err := c.Enqueue(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.Enqueue(t.Context(), req)
	if err != nil || !again[0].Repeated || again[0].IDs[0] != first[0].IDs[0] {
		t.Fatalf("again: %+v, %v", again, err)
	}
	other, err := c.Enqueue(t.Context(), []haulier.EnqueueRequest{{Key: "once", Jobs: []haulier.Spec{{Type: "other"}}}})
	if err != nil || !errors.Is(other[0].Err, haulier.ErrConflict) {
		t.Fatalf("with other jobs: %+v, %v", other, err)
	}
}

func TestEachCallerGetsItsOwnResult(t *testing.T) {
	e := newEngine(t)
	c := dial(t, serve(t, e, nil, "127.0.0.1:0").addr, "")
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			spec := haulier.Spec{Type: "mail", Labels: map[string]string{"i": fmt.Sprint(i)}}
			if i%10 == 0 {
				spec.Priority = 99
			}
			res, err := c.Enqueue(context.Background(), []haulier.EnqueueRequest{{Jobs: []haulier.Spec{spec}}})
			var field *haulier.FieldError
			switch {
			case err != nil:
				t.Error(err)
			case i%10 == 0 && (!errors.As(res[0].Err, &field) || field.Field != "jobs[0].priority"):
				t.Errorf("call %d: %+v", i, res)
			case i%10 != 0:
				jobs, err := e.Get(context.Background(), "", res[0].IDs)
				if err != nil || jobs[0] == nil || jobs[0].Labels["i"] != fmt.Sprint(i) {
					t.Errorf("call %d got the ids of another: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestEventsTellOfChangesInOrder(t *testing.T) {
	c := dial(t, serve(t, newEngine(t), nil, "127.0.0.1:0").addr, "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var states []haulier.State
	enough := errors.New("enough")
	done := make(chan error, 1)
	began := make(chan struct{}, 100)
	go func() {
		done <- c.Events(ctx, haulier.Filter{Type: "mail", Group: "g"}, func(e haulier.JobEvent) error {
			began <- struct{}{}
			if len(states) == 0 || e.State != states[len(states)-1] {
				states = append(states, e.State)
			}
			if e.State == haulier.Cancelled {
				return enough
			}
			return nil
		})
	}()
	// The stream has no sign of its own that it listens: ask until the first event comes.
	for heard := false; !heard; {
		add(t, c, haulier.Spec{Type: "mail", Group: "g"})
		select {
		case <-began:
			heard = true
		case <-time.After(20 * time.Millisecond):
		}
	}
	if _, err := c.Cancel(ctx, haulier.Selection{Filter: &haulier.Filter{Group: "g"}}, "", ""); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, enough) {
		t.Fatal(err)
	}
	if len(states) != 2 || states[0] != haulier.Pending || states[1] != haulier.Cancelled {
		t.Fatalf("states %v", states)
	}
}
