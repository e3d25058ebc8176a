package haulier_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/haulier/haulier"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 123456000, time.UTC)

func fullJob() haulier.Job {
	id, session := haulier.NewID(noon), haulier.NewID(noon)
	return haulier.Job{
		Spec: haulier.Spec{
			ID: id, Tenant: "t", Queue: "q", Type: "mail", Priority: 3, CreatedAt: noon, MaxAttempts: 4,
			Task:    haulier.Task{Exec: &haulier.ExecTask{Argv: []string{"ls", "-l"}, Shell: true, Env: map[string]string{"A": "b"}, Dir: "/", Grace: 5}},
			Backoff: &haulier.Backoff{List: []haulier.Duration{haulier.Duration(time.Second)}}, RetryUntil: noon.Add(time.Hour),
			Timeout: haulier.Duration(90 * time.Second), Labels: map[string]string{"k": "v"}, Retention: haulier.Duration(time.Hour),
			Group: "g", Parent: session, Blob: "sha",
		},
		Status: haulier.Status{
			Rev: 9, State: haulier.Running, RunAt: noon, Attempt: 2, Spared: 1, Crashes: 1, Session: session, Worker: "w",
			Cancelling: true, Percent: 33.5, Step: "s", Outcome: haulier.OutcomeError, Code: 7, Error: "e", Reason: "r",
			LogBlob: "l", LogSize: 8, UpdatedAt: noon, StartedAt: noon, FinishedAt: noon, PurgeAt: noon,
			History: []haulier.Change{{At: noon, State: haulier.Pending, Step: "x", By: "y"}}, HistoryCut: 3,
		},
	}
}

func TestJobJSONRoundTrip(t *testing.T) {
	for name, c := range map[string]struct{ payload, result []byte }{
		"none":        {nil, nil},
		"JSON":        {[]byte(`{"a":[1,2,{"b":null}]}`), []byte(`"text"`)},
		"null":        {[]byte(`null`), []byte(`0`)},
		"not JSON":    {[]byte("hello"), []byte{0, 0xff, 1}},
		"half a JSON": {[]byte(`{"a":`), []byte(`{} {}`)},
		"not UTF-8":   {[]byte("\"\xff\""), []byte("{\"\xc3\x28\":1}")},
		"a blank":     {[]byte(" "), []byte("\n")},
	} {
		t.Run(name, func(t *testing.T) {
			in := fullJob()
			in.Payload, in.Result = c.payload, c.result
			b, err := json.Marshal(in)
			if err != nil {
				t.Fatal(err)
			}
			if !utf8.Valid(b) {
				t.Errorf("the JSON is not UTF-8: %q", b)
			}
			var out haulier.Job
			if err := json.Unmarshal(b, &out); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(in, out) {
				t.Errorf("%+v\ncame back as\n%+v\nby %s", in, out, b)
			}
		})
	}
}

func TestJobJSONShowsPayloadAsItIs(t *testing.T) {
	j := haulier.Job{Spec: haulier.Spec{Payload: []byte(`{ "to": "<you>" }`)}, Status: haulier.Status{State: haulier.Pending, Result: []byte("plain")}}
	b, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Payload     map[string]string
		ResultBytes []byte `json:"result_bytes"`
		State       string
		Result      any
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	if v.Payload["to"] != "<you>" || string(v.ResultBytes) != "plain" || v.Result != nil || v.State != "pending" {
		t.Errorf("JSON is %s", b)
	}
	for _, field := range []string{"session", "parent", "purge_at", "run_at", "labels", "timeout"} {
		if strings.Contains(string(b), `"`+field+`"`) {
			t.Errorf("an empty %s is shown: %s", field, b)
		}
	}
}

func FuzzJobPayloadJSON(f *testing.F) {
	f.Add([]byte(`{"a":1}`), []byte("x"))
	f.Add([]byte(" [1 , 2]"), []byte("\"\xff\""))
	f.Fuzz(func(t *testing.T, payload, result []byte) {
		b, err := json.Marshal(haulier.Job{Spec: haulier.Spec{Payload: payload}, Status: haulier.Status{State: haulier.Pending, Result: result}})
		if err != nil {
			t.Fatal(err)
		}
		var out haulier.Job
		if err := json.Unmarshal(b, &out); err != nil {
			t.Fatal(err)
		}
		for _, pair := range [][2][]byte{{payload, out.Payload}, {result, out.Result}} {
			if bytes.Equal(pair[0], pair[1]) {
				continue
			}
			// JSON may come back compacted and escaped, but means the same.
			var in, back any
			if json.Unmarshal(pair[0], &in) != nil || json.Unmarshal(pair[1], &back) != nil || !reflect.DeepEqual(in, back) {
				t.Fatalf("%q came back as %q", pair[0], pair[1])
			}
		}
	})
}

func FuzzJobJSON(f *testing.F) {
	b, err := json.Marshal(fullJob())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"payload":null,"state":"blocked","timeout":"1h"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var j haulier.Job
		if json.Unmarshal(b, &j) != nil {
			return
		}
		again, err := json.Marshal(j)
		if err != nil {
			return // as a year beyond 9999, which JSON can't hold
		}
		var back haulier.Job
		strange := !j.State.Valid() || slices.ContainsFunc(j.History, func(c haulier.Change) bool { return !c.State.Valid() })
		if !strange {
			if err := json.Unmarshal(again, &back); err != nil {
				t.Fatalf("%s can't be read again: %v", again, err)
			}
		}
	})
}

func TestStateText(t *testing.T) {
	for _, s := range haulier.States {
		b, err := s.MarshalText()
		if err != nil || string(b) != s.String() || strings.ToLower(s.String()) != s.String() {
			t.Errorf("text of %v is %q, %v", s, b, err)
		}
		var back haulier.State
		if err := back.UnmarshalText(b); err != nil || back != s {
			t.Errorf("%q was read as %v, %v", b, back, err)
		}
		if !s.Valid() || s.Terminal() && s.Owned() {
			t.Errorf("%v: valid %v, terminal %v, owned %v", s, s.Valid(), s.Terminal(), s.Owned())
		}
	}
	for _, text := range []string{"", "Pending", "state(0)", "done", "pending "} {
		s := haulier.Failed
		if err := s.UnmarshalText([]byte(text)); !errors.Is(err, haulier.ErrInvalid) || s != haulier.Failed {
			t.Errorf("%q was read as %v, %v", text, s, err)
		}
	}
	for _, s := range []haulier.State{0, haulier.Collapsed + 1, 255} {
		if s.Valid() || s.String() == "" {
			t.Errorf("state %d is valid: %v", uint8(s), s)
		}
	}
	terminal, owned := 0, 0
	for _, s := range haulier.States {
		if s.Terminal() {
			terminal++
		}
		if s.Owned() {
			owned++
		}
	}
	if terminal != 4 || owned != 2 {
		t.Errorf("%d states are terminal and %d owned, want 4 and 2", terminal, owned)
	}
}

func TestOutcomes(t *testing.T) {
	for _, o := range []haulier.Outcome{haulier.OutcomeOK, haulier.OutcomeFailed, haulier.OutcomeRetry, haulier.OutcomeError} {
		if !o.Valid() {
			t.Errorf("%q is not valid", o)
		}
	}
	for _, o := range []haulier.Outcome{"", "OK", "success"} {
		if o.Valid() {
			t.Errorf("%q is valid", o)
		}
	}
}

func TestDurationText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := haulier.Duration(rapid.Int64().Draw(t, "d"))
		b, err := d.MarshalText()
		var back haulier.Duration
		if err != nil || back.UnmarshalText(b) != nil || back != d {
			t.Fatalf("%d became %q, and that %d", d, b, back)
		}
	})
	for _, text := range []string{"", "1", "1 h", "x", "1d"} {
		d := haulier.Duration(5)
		if err := d.UnmarshalText([]byte(text)); !errors.Is(err, haulier.ErrInvalid) || d != 5 {
			t.Errorf("%q was read as %v, %v", text, d, err)
		}
	}
	if b, err := json.Marshal(haulier.Duration(90 * time.Second)); err != nil || string(b) != `"1m30s"` {
		t.Errorf("90 s are %s, %v", b, err)
	}
}

func TestLaneHasTheKindOfTask(t *testing.T) {
	s := haulier.Spec{Tenant: "t", Queue: "q", Type: "x"}
	if got, want := s.Lane(), (haulier.Lane{Tenant: "t", Queue: "q", Type: "x", Kind: haulier.KindGo}); got != want {
		t.Errorf("lane is %v, want %v", got, want)
	}
	s.Task.Exec = &haulier.ExecTask{}
	if got := s.Lane().Kind; got != haulier.KindExec {
		t.Errorf("kind is %v, want exec", got)
	}
	if got, want := s.Lane().String(), "t/q/x (exec)"; got != want {
		t.Errorf("text is %q, want %q", got, want)
	}
}

func TestErrorsWrapTheirKind(t *testing.T) {
	var err error = &haulier.FieldError{Field: "jobs[3].priority", Msg: "is 11: at most 10"}
	if !errors.Is(err, haulier.ErrInvalid) || err.Error() != "jobs[3].priority: is 11: at most 10" {
		t.Errorf("field error is %v", err)
	}
	err = &haulier.FieldError{Kind: haulier.ErrTooLarge}
	if !errors.Is(err, haulier.ErrTooLarge) || !errors.Is(err, haulier.ErrInvalid) {
		t.Error("too large must also be invalid")
	}
	err = &haulier.RetryAfterError{After: time.Second, Cause: haulier.ErrConflict}
	if !errors.Is(err, haulier.ErrUnavailable) || !errors.Is(err, haulier.ErrConflict) || !strings.Contains(err.Error(), "1s") {
		t.Errorf("retry-after error is %v", err)
	}
}
