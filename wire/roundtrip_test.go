package wire_test

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/wire"
)

// The generators draw values with zero and non-zero fields, and nil for what is empty.

func bytesOf(t *rapid.T) []byte {
	return some(t, rapid.SliceOfN(rapid.Byte(), 1, 300))
}

func some[T any](t *rapid.T, g *rapid.Generator[T]) T {
	var zero T
	if rapid.Bool().Draw(t, "none") {
		return zero
	}
	return g.Draw(t, "value")
}

func text(t *rapid.T) string { return some(t, rapid.StringN(0, 100, 200)) }

func moment(t *rapid.T) time.Time {
	us := rapid.Int64Range(-1e15, 2e17).Draw(t, "us")
	return some(t, rapid.Just(time.UnixMicro(us).UTC()))
}

func duration(t *rapid.T) haulier.Duration {
	return haulier.Duration(some(t, rapid.Int64()))
}

func id(t *rapid.T) (id haulier.ID) {
	copy(id[:], some(t, rapid.SliceOfN(rapid.Byte(), 16, 16)))
	return id
}

func labels(t *rapid.T) map[string]string {
	return some(t, rapid.MapOfN(rapid.String(), rapid.String(), 1, 5))
}

func list[T any](t *rapid.T, f func(*rapid.T) T) []T {
	return some(t, rapid.SliceOfN(rapid.Custom(f), 1, 5))
}

func spec(t *rapid.T) haulier.Spec {
	s := haulier.Spec{
		ID: id(t), Tenant: text(t), Queue: text(t), Type: text(t), Payload: bytesOf(t), Blob: text(t),
		Priority: rapid.Int().Draw(t, "priority"), CreatedAt: moment(t), RunAt: moment(t),
		MaxAttempts: rapid.Int().Draw(t, "attempts"), RetryUntil: moment(t), Timeout: duration(t),
		Labels: labels(t), RunsOn: labels(t), Retention: duration(t), Group: text(t), Parent: id(t),
	}
	if rapid.Bool().Draw(t, "backoff") { // one that says nothing is none
		s.Backoff = &haulier.Backoff{Constant: duration(t), List: list(t, duration), Base: 1, Max: duration(t), NoJitter: rapid.Bool().Draw(t, "no jitter")}
	}
	if rapid.Bool().Draw(t, "exec") {
		s.Task.Exec = &haulier.ExecTask{Argv: list(t, text), Shell: rapid.Bool().Draw(t, "shell"), Env: labels(t), Dir: text(t), Grace: duration(t)}
		if rapid.Bool().Draw(t, "limits") {
			n := func() int64 { return some(t, rapid.Int64()) }
			s.Task.Exec.Limits = &haulier.Limits{Memory: n(), CPU: duration(t), Processes: n(), FileSize: n(), OpenFiles: n()}
		}
	}
	if rapid.Bool().Draw(t, "http") {
		s.Task.HTTP = &haulier.HTTPTask{URL: text(t), Method: text(t), Headers: labels(t), Secret: text(t), Lines: rapid.Bool().Draw(t, "lines"), Batch: rapid.Int().Draw(t, "batch")}
	}
	if rapid.Bool().Draw(t, "container") {
		s.Task.Container = &haulier.ContainerTask{Config: bytesOf(t), Pull: haulier.Pull(text(t)), Auth: text(t), Grace: duration(t)}
	}
	if rapid.Bool().Draw(t, "wasi") {
		s.Task.Wasi = &haulier.WasiTask{
			Module: text(t), Stdin: text(t), Args: list(t, text), Env: labels(t), Memory: rapid.Int64().Draw(t, "memory"), CPU: duration(t),
			Clock: rapid.Bool().Draw(t, "clock"), Random: rapid.Bool().Draw(t, "random"),
		}
	}
	if rapid.Bool().Draw(t, "script") {
		s.Task.Script = &haulier.ScriptTask{Version: rapid.Int().Draw(t, "version"), Digest: text(t)}
	}
	if rapid.Bool().Draw(t, "files") {
		s.Files = &haulier.Files{Inputs: list(t, func(t *rapid.T) haulier.Input {
			return haulier.Input{Fileset: text(t), From: text(t), Patterns: list(t, text), To: text(t)}
		})}
		if len(s.Inputs) == 0 || rapid.Bool().Draw(t, "outputs") {
			s.Outputs = &haulier.Output{Fileset: text(t), Patterns: list(t, text), On: haulier.Condition(text(t)), Keep: rapid.Int().Draw(t, "keep")}
		}
	}
	if rapid.Bool().Draw(t, "notify") {
		s.Flow = &haulier.Flow{Notify: []haulier.Notify{{URL: text(t), On: haulier.Condition(text(t)), Secret: text(t)}, {}}}
	}
	return s
}

func account(t *rapid.T) *haulier.Account {
	if rapid.Bool().Draw(t, "no account") {
		return nil
	}
	return &haulier.Account{CPU: duration(t), MaxMemory: some(t, rapid.Int64()), Read: 1, Written: some(t, rapid.Int64()), Received: 2, Sent: 3, Container: bytesOf(t)}
}

func status(t *rapid.T) haulier.Status {
	return haulier.Status{
		Rev: rapid.Uint64().Draw(t, "rev"), State: rapid.SampledFrom(haulier.States).Draw(t, "state"),
		RunAt: moment(t), Attempt: rapid.Int().Draw(t, "attempt"), Spared: some(t, rapid.Int()), Crashes: some(t, rapid.Int()),
		Session: id(t), Worker: text(t), Cancelling: rapid.Bool().Draw(t, "cancelling"),
		Percent: rapid.Float64Range(0, 100).Draw(t, "percent"), Step: text(t), Outcome: haulier.Outcome(text(t)),
		Code: rapid.Int().Draw(t, "code"), Error: text(t), Reason: text(t), Result: bytesOf(t), OutputVersion: rapid.Int().Draw(t, "output"), ResultBlob: text(t), LogBlob: text(t),
		LogSize: some(t, rapid.Int64()), Account: account(t), UpdatedAt: moment(t), StartedAt: moment(t), FinishedAt: moment(t), PurgeAt: moment(t),
		History: list(t, func(t *rapid.T) haulier.Change {
			return haulier.Change{At: moment(t), State: rapid.SampledFrom(haulier.States).Draw(t, "state"), Step: text(t), By: text(t)}
		}), HistoryCut: some(t, rapid.Int()),
	}
}

func job(t *rapid.T) haulier.Job {
	return haulier.Job{Spec: spec(t), Status: status(t), Hooked: haulier.Hooked(some(t, rapid.Byte()))}
}

func ref(t *rapid.T) haulier.Ref {
	return haulier.Ref{Job: id(t), Attempt: rapid.Int().Draw(t, "attempt")}
}

func busy(t *rapid.T) *haulier.Load {
	if rapid.Bool().Draw(t, "not known") {
		return nil
	}
	return &haulier.Load{CPU: rapid.Float64Range(0, 100).Draw(t, "cpu"), MemoryUsed: some(t, rapid.Int64()), MemoryTotal: some(t, rapid.Int64())}
}

func session(t *rapid.T) haulier.Session {
	return haulier.Session{
		ID: id(t), Worker: text(t), Tenants: list(t, text),
		Queues: some(t, rapid.MapOfN(rapid.String(), rapid.Int(), 1, 4)),
		Kinds:  list(t, func(t *rapid.T) haulier.Kind { return haulier.Kind(text(t)) }), Types: list(t, text),
		Concurrency: rapid.Int().Draw(t, "concurrency"), Lease: duration(t), Host: text(t), PID: some(t, rapid.Int()),
		Version: text(t), Addresses: list(t, text), Load: busy(t), Holding: list(t, id), Labels: labels(t), StartedAt: moment(t), SeenAt: moment(t),
		Connected: rapid.Bool().Draw(t, "connected"), Draining: rapid.Bool().Draw(t, "draining"), Jobs: some(t, rapid.Int()),
	}
}

func enqueueRequest(t *rapid.T) haulier.EnqueueRequest {
	return haulier.EnqueueRequest{Jobs: list(t, spec), Key: text(t), By: text(t), KeepIDs: rapid.Bool().Draw(t, "keep ids")}
}

func report(t *rapid.T) haulier.Report {
	return haulier.Report{
		Ref: ref(t), Kind: haulier.ReportKind(rapid.Byte().Draw(t, "kind")), Outcome: haulier.Outcome(text(t)),
		Code: some(t, rapid.Int()), Error: text(t), Result: bytesOf(t), Delay: time.Duration(duration(t)),
		Percent: rapid.Float64Range(-1, 100).Draw(t, "percent"), Step: text(t), Output: text(t), Then: list(t, spec), Log: bytesOf(t),
		LogFrom: some(t, rapid.Int64()), Account: account(t),
	}
}

// comesBack checks that what was parsed equals what was appended, that equal
// values give equal bytes, and that nothing is written over before the end of the slice.
func comesBack[T any](t *testing.T, draw func(*rapid.T) T, enc func([]byte, T) []byte, dec func([]byte) (T, error)) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		v := draw(t)
		b := enc([]byte("before"), v)
		if !bytes.HasPrefix(b, []byte("before")) {
			t.Fatalf("the bytes before were overwritten: %q", b)
		}
		got, err := dec(b[6:])
		if err != nil {
			t.Fatalf("parse of %+v: %v", v, err)
		}
		if !reflect.DeepEqual(v, got) {
			t.Fatalf("appended %+v\n  parsed %+v", v, got)
		}
		if again := enc(nil, got); !bytes.Equal(again, b[6:]) {
			t.Fatalf("equal values gave %x and %x", b[6:], again)
		}
	})
}

// byPointer and byValue bring the functions of the package to one form.
func byPointer[T any](f func([]byte, *T) []byte) func([]byte, T) []byte {
	return func(b []byte, v T) []byte { return f(b, &v) }
}

func items[T any](f func(*rapid.T) T) func(*rapid.T) []T {
	return func(t *rapid.T) []T { return rapid.SliceOfN(rapid.Custom(f), 0, 3).Draw(t, "items") }
}

func TestWhatWasAppendedIsParsed(t *testing.T) {
	t.Run("spec", func(t *testing.T) { comesBack(t, spec, byPointer(wire.AppendSpec), wire.ParseSpec) })
	t.Run("status", func(t *testing.T) { comesBack(t, status, byPointer(wire.AppendStatus), wire.ParseStatus) })
	t.Run("job", func(t *testing.T) { comesBack(t, job, byPointer(wire.AppendJob), wire.ParseJob) })
	t.Run("jobs", func(t *testing.T) { comesBack(t, items(job), wire.AppendJobs, wire.ParseJobs) })
	t.Run("session", func(t *testing.T) { comesBack(t, session, byPointer(wire.AppendSession), wire.ParseSession) })
	t.Run("enqueue requests", func(t *testing.T) {
		comesBack(t, items(enqueueRequest), wire.AppendEnqueueRequests, wire.ParseEnqueueRequests)
	})
	t.Run("reports", func(t *testing.T) { comesBack(t, items(report), wire.AppendReports, wire.ParseReports) })
	t.Run("renewal", func(t *testing.T) {
		comesBack(t, func(t *rapid.T) haulier.RenewRequest {
			return haulier.RenewRequest{Session: id(t), Wait: time.Duration(duration(t)), Epoch: text(t), Held: list(t, ref), Drain: rapid.Bool().Draw(t, "drain"), Settle: rapid.Bool().Draw(t, "settle"), Load: busy(t)}
		}, byPointer(wire.AppendRenewRequest), wire.ParseRenewRequest)
	})
	t.Run("renewal's reply", func(t *testing.T) {
		comesBack(t, func(t *rapid.T) haulier.RenewReply {
			return haulier.RenewReply{Epoch: text(t), Resend: rapid.Bool().Draw(t, "resend"), Cancel: list(t, ref), Lost: list(t, ref)}
		}, byPointer(wire.AppendRenewReply), wire.ParseRenewReply)
	})
	t.Run("claim", func(t *testing.T) {
		comesBack(t, func(t *rapid.T) haulier.ClaimRequest {
			return haulier.ClaimRequest{Session: id(t), N: rapid.Int().Draw(t, "n"), Wait: time.Duration(duration(t))}
		}, byPointer(wire.AppendClaimRequest), wire.ParseClaimRequest)
	})
}

func TestFirstStatusOfAJobIsSmall(t *testing.T) {
	s := haulier.Spec{ID: haulier.NewID(time.Now())}
	st := s.First(time.Now(), "")
	if n := len(wire.AppendStatus(nil, &st)); n > 32 {
		t.Errorf("the first status takes %d bytes", n)
	}
}
