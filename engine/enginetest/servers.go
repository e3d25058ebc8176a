package enginetest

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/joblog"
)

// sharedStore is a store over which other servers may work.
type sharedStore struct{ haulier.Store }

func (s sharedStore) Opened() haulier.Opening {
	o := s.Store.Opened()
	o.Shared = true
	return o
}

// beside starts another server over the store; both know that they are not alone.
func (h *Harness) beside() *Harness {
	h.t.Helper()
	if _, shared := h.Store.(sharedStore); !shared {
		h.end()
		h.Store = sharedStore{h.Store}
		h.begin()
		h.pass(time.Millisecond) // the first has the duty
	}
	other := &Harness{t: h.t, Store: h.Store, blobs: h.blobs}
	other.begin()
	return other
}

// moments is how long it takes at most until a server does what another did, or knows what another was told.
const moments = 10 * time.Second

// word is how long it takes at most until what one server tells is heard and read by another.
const word = 100 * time.Millisecond

var serving = []behaviour{
	{"a worker may talk to any server", func(t *testing.T, h *Harness) {
		other := h.beside()
		defer other.end()
		s := h.open(nil)
		id := other.add(nil)
		j := other.claimOne(s)
		if errs := h.report(s, haulier.Report{Ref: ref(j), Kind: haulier.ReportStart}); errs[0] != nil {
			t.Fatal(errs[0])
		}
		if _, err := h.Cancel(t.Context(), haulier.Selection{IDs: []haulier.ID{id}}, "test", ""); err != nil {
			t.Fatal(err)
		}
		r, err := other.Renew(t.Context(), haulier.RenewRequest{Session: s})
		if err != nil || len(r.Cancel) != 1 || r.Cancel[0] != ref(j) {
			t.Errorf("the cancellation that another server was asked for: %+v, %v", r, err)
		}
		other.finish(s, j, haulier.OutcomeFailed)
		h.want(id, haulier.Cancelled)
		third := h.beside() // it knows the session from the store alone
		defer third.end()
		if err := third.CloseSession(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		h.pass(moments)
		if _, err := h.Claim(t.Context(), haulier.ClaimRequest{Session: s, N: 1}); !errors.Is(err, haulier.ErrLeaseLost) {
			t.Errorf("claim by a session that another server closed: %v", err)
		}
	}},
	{"a claim that waits at one server gets what another adds", func(_ *testing.T, h *Harness) {
		other := h.beside()
		defer other.end()
		s := h.open(nil)
		got := h.claiming(s)
		id := other.add(nil)
		h.pass(time.Millisecond)
		h.wantClaimed(got, id)
	}},
	{"what a session holds goes back, though its claim is at another server than its end", func(t *testing.T, h *Harness) {
		other := h.beside()
		defer other.end()
		s := h.open(nil)
		h.many(30, func(*haulier.Spec) {})
		claimed := other.claim(s, 10)
		if err := h.CloseSession(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		for i := range claimed {
			h.want(claimed[i].ID, haulier.Pending)
		}
		if jobs, err := other.Claim(t.Context(), haulier.ClaimRequest{Session: s, N: 10}); !errors.Is(err, haulier.ErrLeaseLost) {
			t.Errorf("claimed %d, %v", len(jobs), err)
		}
		h.pass(moments)
		if all, err := other.Sessions(t.Context(), ""); err != nil || len(all) != 0 {
			t.Errorf("the other server lists %v, %v", all, err)
		}
	}},
	{"an end of a session that a dead server began is completed by another", func(t *testing.T, h *Harness) {
		other := h.beside()
		defer other.end()
		s := h.open(nil)
		id := h.add(nil)
		h.claimOne(s)
		err := h.Store.Commit(t.Context(), &haulier.Batch{Docs: []haulier.DocWrite{
			{Kind: haulier.DocSession, Key: s.String(), Expect: haulier.AnyRev},
			{Kind: haulier.DocWork, Key: "return-" + s.String(), Value: []byte(`{"op":"return","session":"` + s.String() + `","worker":"w1","how":` + strconv.Itoa(int(haulier.EventLost)) + `}`)},
		}})
		if err != nil {
			t.Fatal(err)
		}
		h.pass(moments)
		h.want(id, haulier.Pending)
	}},
	{"settings hold at all servers as soon as these are told", func(t *testing.T, h *Harness) {
		other := h.beside()
		defer other.end()
		if err := h.PauseQueue(t.Context(), "default", "default", true, "test"); err != nil {
			t.Fatal(err)
		}
		token, secret, err := h.CreateToken(t.Context(), haulier.Token{Name: "t", Role: haulier.RoleAdmin})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Authenticate(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		if err := h.RevokeToken(t.Context(), "", token.ID); err != nil {
			t.Fatal(err)
		}
		h.window(haulier.Window{Name: "shut", Mode: "freeze", Rules: []string{"* 0-22 * * ?"}, Queues: []string{"slow"}})
		h.pass(word)
		if _, err := other.Authenticate(t.Context(), secret); !errors.Is(err, haulier.ErrUnauthenticated) {
			t.Errorf("a token that another server has revoked: %v", err)
		}
		s := other.open(nil)
		id := other.add(nil)
		frozen := other.add(func(s *haulier.Spec) { s.Queue = "slow" })
		if jobs := other.claim(s, 5); len(jobs) != 0 {
			t.Fatalf("%d jobs of a queue that another server paused, or has a window for", len(jobs))
		}
		other.want(id, haulier.Pending)
		other.want(frozen, haulier.Scheduled)
		got := other.claiming(s)
		if err := h.PauseQueue(t.Context(), "default", "default", false, "test"); err != nil {
			t.Fatal(err)
		}
		h.pass(word)
		h.wantClaimed(got, id)
	}},
	{"the duties of a server that stops or dies are another's within seconds", func(t *testing.T, h *Harness) {
		other := h.beside()
		soon := func(h *Harness) haulier.ID {
			return h.add(func(s *haulier.Spec) { s.RunAt = time.Now().Add(time.Second) })
		}
		id := soon(other) // which has not the duty
		h.pass(2 * time.Second)
		other.want(id, haulier.Pending)
		third := h.beside()
		defer third.end()
		other.end()
		id = soon(third)
		h.end()
		third.pass(moments)
		third.want(id, haulier.Pending)
		third.end()
		// One that died has left its lease.
		err := h.Store.Commit(t.Context(), &haulier.Batch{Docs: []haulier.DocWrite{{
			Kind: "duty", Key: "timers", Expect: haulier.AnyRev, Value: []byte(`{"server":"dead","until":"` + time.Now().Add(6*time.Second).UTC().Format(time.RFC3339Nano) + `"}`),
		}}})
		if err != nil {
			t.Fatal(err)
		}
		third.begin()
		h.begin()
		id = soon(h)
		h.pass(3 * time.Second)
		h.want(id, haulier.Scheduled)
		h.pass(moments)
		h.want(id, haulier.Pending)
	}},
	{"a worker's end is noticed, whichever server it was at", func(_ *testing.T, h *Harness) {
		other := h.beside()
		defer other.end()
		s := other.open(func(s *haulier.Session) { s.Lease = haulier.Duration(10 * time.Second) })
		id := other.add(nil)
		other.claimOne(s)
		h.pass(10*time.Second + moments)
		h.want(id, haulier.Pending)
	}},
	{"a change by filter that does not go on is completed by another server", func(t *testing.T, h *Harness) {
		other := h.beside()
		defer other.end()
		id := h.add(nil)
		err := h.Store.Commit(t.Context(), &haulier.Batch{Docs: []haulier.DocWrite{{
			Kind: haulier.DocWork, Key: haulier.NewID(time.Now()).String(), Value: []byte(`{"op":"cancel","filter":{"states":["pending"]},"by":"me","n":0}`),
		}}})
		if err != nil {
			t.Fatal(err)
		}
		h.pass(20 * time.Second)
		h.want(id, haulier.Cancelled)
	}},
	{"output is one, though it comes to several servers, and is followed at any", func(t *testing.T, h *Harness) {
		other := h.beside()
		defer other.end()
		s := h.open(nil)
		id := h.add(nil)
		j := h.claimOne(s)
		from := int64(0)
		say := func(at *Harness, text string, kind haulier.ReportKind) {
			t.Helper()
			r := haulier.Report{Ref: ref(j), Kind: kind, LogFrom: from}
			if text != "" {
				r.Log = frames(text)
			}
			if kind == haulier.ReportFinish {
				r.Outcome = haulier.OutcomeOK
			}
			if errs := at.report(s, r); errs[0] != nil {
				t.Fatal(errs[0])
			}
			from += int64(len(r.Log))
		}
		say(h, "one\n", haulier.ReportStart)
		say(other, "two\n", haulier.ReportLog)
		say(h, "three\n", haulier.ReportLog)
		follow := make(chan string)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() {
			c, err := other.Log(ctx, haulier.LogRequest{Job: id, From: from, Wait: true})
			if err != nil {
				follow <- err.Error()
				return
			}
			b, _ := joblog.Text(c.Frames)
			follow <- string(b)
		}()
		synctest.Wait()
		say(h, "four\n", haulier.ReportLog)
		if got := <-follow; got != "four\n" {
			t.Errorf("followed %q", got)
		}
		say(other, "", haulier.ReportFinish)
		for _, at := range []*Harness{h, other} {
			if got, _ := at.output(id, 0); got != "one\ntwo\nthree\nfour\n" {
				t.Errorf("output %q", got)
			}
		}
		if got := h.get(id).LogSize; got != from {
			t.Errorf("%d bytes of output, want %d", got, from)
		}
	}},
}
