package wire_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/wire"
)

func sampleSpec() haulier.Spec {
	now := time.UnixMicro(1_700_000_000_123_456).UTC()
	return haulier.Spec{
		ID: haulier.NewID(now), Tenant: "default", Queue: "mail", Type: "send", Payload: bytes.Repeat([]byte("x"), 100),
		CreatedAt: now, MaxAttempts: 10, Labels: map[string]string{"customer": "17"}, Group: "g",
		Task:    haulier.Task{Exec: &haulier.ExecTask{Argv: []string{"echo", "hi"}, Env: map[string]string{"A": "b"}}},
		Backoff: &haulier.Backoff{List: []haulier.Duration{1, 2}},
		Flow: &haulier.Flow{
			Ref: "r", Needs: []haulier.Need{{Job: haulier.NewID(now), On: haulier.OnFailed}, {Ref: "q"}}, Holds: []string{"k"},
			YieldsTo: []haulier.Yield{{Key: "k", Below: 2, For: 3}}, Unique: &haulier.Unique{Key: "u", Fields: []string{"a"}, Scope: haulier.UniquePeriod, For: 5},
			Collapse: "c", Limits: []string{"l"}, Then: "next", Signal: "s", Windows: []string{"w"}, Force: true, Chain: true, Memo: &haulier.Memo{MaxAge: 3, Fresh: true}, Batch: haulier.ID{9},
		},
	}
}

func sampleJob() haulier.Job {
	j := haulier.Job{Spec: sampleSpec()}
	j.Status = j.First(j.CreatedAt, "token")
	j.Flow.Needs = nil
	j.Status = j.First(j.CreatedAt, "token")
	j.Status, _ = j.Next(haulier.Event{Kind: haulier.EventClaim, Session: j.ID, By: "worker"}, j.CreatedAt.Add(time.Second))
	j.Status, _ = j.Next(haulier.Event{Kind: haulier.EventAdmit, Session: j.ID, Attempt: 1, Keys: []string{"k"}, Waived: []string{"w"}}, j.CreatedAt.Add(time.Second))
	j.Results = []haulier.NeedResult{{Ref: "a", Job: j.ID, State: haulier.Succeeded, Result: []byte("{}")}}
	return j
}

// checkParse fuzzes one parser: bytes give a value or an error of the known
// kinds, and a value that was parsed comes back from its own bytes.
func checkParse[T any](f *testing.F, dec func([]byte) (T, error), enc func([]byte, T) []byte, seed T) {
	f.Add(enc(nil, seed))
	f.Add([]byte{})
	f.Add([]byte("\x0a\x02\x0a\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := dec(b)
		if err != nil {
			if !errors.Is(err, haulier.ErrCorrupt) && !errors.Is(err, haulier.ErrTooLarge) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		once := enc(nil, v)
		again, err := dec(once)
		if err != nil {
			t.Fatalf("own bytes %x: %v", once, err)
		}
		if twice := enc(nil, again); !bytes.Equal(once, twice) {
			t.Fatalf("%x became %x", once, twice)
		}
	})
}

func FuzzParseSpec(f *testing.F) {
	checkParse(f, wire.ParseSpec, byPointer(wire.AppendSpec), sampleSpec())
}

func FuzzParseStatus(f *testing.F) {
	checkParse(f, wire.ParseStatus, byPointer(wire.AppendStatus), sampleJob().Status)
}

func FuzzParseJob(f *testing.F) {
	checkParse(f, wire.ParseJob, byPointer(wire.AppendJob), sampleJob())
}

func FuzzParseJobs(f *testing.F) {
	checkParse(f, wire.ParseJobs, wire.AppendJobs, []haulier.Job{sampleJob(), {}})
}

func FuzzParseSession(f *testing.F) {
	checkParse(f, wire.ParseSession, byPointer(wire.AppendSession), haulier.Session{
		ID: haulier.NewID(time.Now()), Queues: map[string]int{"*": 1, "mail": 5}, Kinds: []haulier.Kind{haulier.KindExec}, Tenants: []string{"a", ""},
	})
}

func FuzzParseEnqueueRequests(f *testing.F) {
	checkParse(f, wire.ParseEnqueueRequests, wire.AppendEnqueueRequests,
		[]haulier.EnqueueRequest{{Jobs: []haulier.Spec{sampleSpec(), {}}, Key: "k", By: "b"}})
}

func FuzzParseEnqueueResults(f *testing.F) {
	checkParse(f, wire.ParseEnqueueResults, wire.AppendEnqueueResults,
		[]haulier.EnqueueResult{{IDs: make([]haulier.ID, 2)}, {Err: haulier.ErrConflict, Repeated: true}})
}

func FuzzParseReports(f *testing.F) {
	r := haulier.Ref{Job: haulier.NewID(time.Now()), Attempt: 2}
	checkParse(f, wire.ParseReports, wire.AppendReports, []haulier.Report{
		{Ref: r, Kind: haulier.ReportFinish, Outcome: haulier.OutcomeOK, Then: []haulier.Spec{sampleSpec()}, Percent: -1, Log: []byte("l")},
	})
}

func FuzzParseErrors(f *testing.F) {
	checkParse(f, wire.ParseErrors, wire.AppendErrors, []error{nil, haulier.ErrConflict, &haulier.FieldError{Field: "a", Msg: "b"},
		&haulier.RetryAfterError{After: time.Second, Cause: haulier.ErrTooLarge}})
}

func FuzzParseRenewRequest(f *testing.F) {
	checkParse(f, wire.ParseRenewRequest, byPointer(wire.AppendRenewRequest), haulier.RenewRequest{Epoch: "e", Held: make([]haulier.Ref, 2)})
}

func FuzzParseRenewReply(f *testing.F) {
	checkParse(f, wire.ParseRenewReply, byPointer(wire.AppendRenewReply), haulier.RenewReply{Epoch: "e", Cancel: make([]haulier.Ref, 2)})
}

func FuzzParseClaimRequest(f *testing.F) {
	checkParse(f, wire.ParseClaimRequest, byPointer(wire.AppendClaimRequest), haulier.ClaimRequest{N: 5, Wait: time.Second})
}

func TestFieldsOfLaterVersionsAreSkipped(t *testing.T) {
	want := sampleSpec()
	b := protowire.AppendTag(nil, 500, protowire.BytesType)
	b = protowire.AppendBytes(b, []byte("news"))
	b = wire.AppendSpec(b, &want)
	b = protowire.AppendTag(b, 501, protowire.Fixed32Type)
	b = protowire.AppendFixed32(b, 7)
	got, err := wire.ParseSpec(b)
	if err != nil || got.ID != want.ID || got.Group != want.Group {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestWrongBytesAreCorrupt(t *testing.T) {
	for name, b := range map[string][]byte{
		"cut":            {0x0a, 16, 1, 2},
		"an id of 3":     {0x0a, 3, 1, 2, 3},
		"a type changed": {0x08, 1},
		"a group":        {0x0b},
		"field zero":     {0x00, 0x00},
		"year 30000":     protowire.AppendVarint([]byte{9 << 3}, protowire.EncodeZigZag(884_541_600_000_000_000)),
	} {
		if _, err := wire.ParseSpec(b); !errors.Is(err, haulier.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := wire.ParseStatus([]byte{0x10, 77}); !errors.Is(err, haulier.ErrCorrupt) {
		t.Errorf("an unknown state: %v", err)
	}
}

func TestFewBytesDoNotBecomeMuchMemory(t *testing.T) {
	many := bytes.Repeat([]byte{0x0a, 0}, wire.MaxJobs+1) // empty messages
	if _, err := wire.ParseEnqueueRequests(many); !errors.Is(err, haulier.ErrTooLarge) {
		t.Errorf("requests: %v", err)
	}
	one := protowire.AppendBytes([]byte{0x0a}, many)
	if _, err := wire.ParseEnqueueRequests(one); !errors.Is(err, haulier.ErrTooLarge) {
		t.Errorf("jobs of a request: %v", err)
	}
	if _, err := wire.ParseReports(many); !errors.Is(err, haulier.ErrTooLarge) {
		t.Errorf("reports: %v", err)
	}
}
