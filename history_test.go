package haulier_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/haulier/haulier"
)

// life is a job that lives through random events, with what must be true of it told apart from the rule book.
type life struct {
	job      haulier.Job
	now      time.Time
	released int // attempts that a worker gave back
	forgiven int // attempts before the last retry by hand
	losses   int // workers lost in a row
}

// TestRandomHistories lives through random events and checks after each what holds for all.
func TestRandomHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &life{now: noon}
		spec := haulier.Spec{
			ID: haulier.NewID(noon), MaxAttempts: rapid.IntRange(1, 6).Draw(t, "max attempts"),
			Retention: haulier.Duration(rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(t, "retention")),
			Backoff:   &haulier.Backoff{Constant: haulier.Duration(rapid.SampledFrom([]time.Duration{0, 1, time.Minute}).Draw(t, "backoff"))},
		}
		if rapid.Bool().Draw(t, "deadline") {
			spec.RetryUntil = noon.Add(time.Duration(rapid.IntRange(0, 600).Draw(t, "retry until")) * time.Second)
		}
		if rapid.Bool().Draw(t, "later") {
			spec.RunAt = noon.Add(time.Hour)
		}
		l.job = haulier.Job{Spec: spec, Status: spec.First(noon, "me")}
		if rapid.IntRange(0, 9).Draw(t, "blocked") == 0 {
			l.job.State, l.job.Status.RunAt = haulier.Blocked, time.Time{}
		}
		l.holds(t)
		for range rapid.IntRange(1, 150).Draw(t, "events") {
			l.now = l.now.Add(time.Duration(rapid.IntRange(0, 30_000_000).Draw(t, "µs")) * time.Microsecond)
			l.step(t, l.event(t))
			l.holds(t)
		}
	})
}

// event draws one that mostly fits the state, sometimes from a foreign session or attempt.
func (l *life) event(t *rapid.T) haulier.Event {
	kinds := []haulier.EventKind{
		haulier.EventClaim, haulier.EventReclaim, haulier.EventStart, haulier.EventProgress, haulier.EventFinish,
		haulier.EventRelease, haulier.EventLost, haulier.EventDue, haulier.EventCancel, haulier.EventRetry,
	}
	switch wild := rapid.IntRange(0, 4).Draw(t, "any event") == 0; {
	case wild:
	case l.job.State == haulier.Pending:
		kinds = []haulier.EventKind{haulier.EventClaim, haulier.EventClaim, haulier.EventReclaim}
	case l.job.State == haulier.Scheduled:
		kinds = kinds[7:8]
	case l.job.State.Owned():
		kinds = append(kinds[2:7:7], haulier.EventLost, haulier.EventAbort)
	}
	e := haulier.Event{
		Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), By: "by", Session: l.job.Session, Attempt: l.job.Attempt,
		Outcome: rapid.SampledFrom([]haulier.Outcome{haulier.OutcomeOK, haulier.OutcomeFailed, haulier.OutcomeRetry, haulier.OutcomeError, haulier.OutcomeError}).Draw(t, "outcome"),
		Percent: float64(rapid.IntRange(-1, 120).Draw(t, "percent")), Step: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "step"),
		Error: rapid.SampledFrom([]string{"", "broken"}).Draw(t, "error"), Delay: rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(t, "delay"),
	}
	switch {
	case e.Kind == haulier.EventClaim || e.Kind == haulier.EventReclaim:
		e.Session, e.Attempt = rapid.SampledFrom([]haulier.ID{owner, stranger}).Draw(t, "session"), l.job.Attempt+1
	case rapid.IntRange(0, 7).Draw(t, "foreign") == 0:
		e.Session = rapid.SampledFrom([]haulier.ID{owner, stranger, haulier.NilID}).Draw(t, "session")
		e.Attempt += rapid.IntRange(-1, 1).Draw(t, "attempt")
	}
	return e
}

// fenced says whether only the owner of the job may bring the event.
func fenced(k haulier.EventKind) bool { return k >= haulier.EventStart && k <= haulier.EventLost }

// step lets the event happen, and checks what it changed against what was before.
func (l *life) step(t *rapid.T, e haulier.Event) {
	before := l.job
	kept := before.Status
	kept.History = slices.Clone(before.History)
	spare := before.History[:cap(before.History)] // what lies behind must not be written to either
	spareKept := slices.Clone(spare)
	after, err := before.Next(e, l.now)
	if !reflect.DeepEqual(before.Status, kept) || !reflect.DeepEqual(spare, spareKept) {
		t.Fatalf("%v changed the status before", e.Kind)
	}
	if again, err2 := before.Next(e, l.now); !reflect.DeepEqual(again, after) || (err == nil) != (err2 == nil) {
		t.Fatalf("%v has two results: %+v and %+v", e.Kind, after, again)
	}
	foreign := !before.State.Owned() || e.Session != before.Session || e.Attempt != before.Attempt && e.Kind != haulier.EventLost
	if fenced(e.Kind) && foreign && !errors.Is(err, haulier.ErrLeaseLost) {
		t.Fatalf("%v of session %v, attempt %d, on %v of %v, %d: %v, want ErrLeaseLost", e.Kind, e.Session, e.Attempt, before.State, before.Session, before.Attempt, err)
	}
	if err != nil {
		if !reflect.DeepEqual(after, before.Status) {
			t.Fatalf("refused, %v returned %+v", e.Kind, after)
		}
		return
	}
	l.job.Status = after
	l.moved(t, e, &before.Status, &after)
	l.count(e, before.State)
}

// moved checks a change that was admitted.
func (l *life) moved(t *rapid.T, e haulier.Event, before, after *haulier.Status) {
	if after.Rev != before.Rev+1 || !after.UpdatedAt.Equal(l.now) {
		t.Fatalf("%v made revision %d of %d, updated %v at %v", e.Kind, after.Rev, before.Rev, after.UpdatedAt, l.now)
	}
	if before.State.Terminal() && e.Kind != haulier.EventRetry {
		t.Fatalf("%v left the terminal state %v", e.Kind, before.State)
	}
	if before.State != after.State && after.History[len(after.History)-1] != (haulier.Change{At: l.now, State: after.State, Step: after.History[len(after.History)-1].Step, By: e.By}) {
		t.Fatalf("%v to %v stands in the history as %+v", before.State, after.State, after.History[len(after.History)-1])
	}
	if claims := e.Kind == haulier.EventClaim || e.Kind == haulier.EventReclaim; (after.Attempt != before.Attempt) != claims || claims && after.Attempt != before.Attempt+1 {
		t.Fatalf("%v made attempt %d of %d", e.Kind, after.Attempt, before.Attempt)
	}
	if before.Cancelling && !after.State.Owned() {
		want := haulier.Cancelled
		if e.Kind == haulier.EventFinish && e.Outcome == haulier.OutcomeOK {
			want = haulier.Succeeded
		}
		if after.State != want {
			t.Fatalf("a job to be cancelled is %v after %v with %v", after.State, e.Kind, e.Outcome)
		}
	}
	if after.State == haulier.Scheduled && !after.RunAt.After(l.now) {
		t.Fatalf("%v scheduled the job for %v at %v", e.Kind, after.RunAt, l.now)
	}
	if after.State == haulier.Pending && before.State != haulier.Pending && !after.RunAt.Equal(l.now) {
		t.Fatalf("%v made the job pending since %v at %v", e.Kind, after.RunAt, l.now)
	}
	if until := l.job.RetryUntil; e.Kind == haulier.EventFinish && after.State == haulier.Scheduled && !until.IsZero() && after.RunAt.After(until) {
		t.Fatalf("it is to run at %v, after its deadline %v", after.RunAt, until)
	}
}

// count keeps the life's own numbers.
func (l *life) count(e haulier.Event, in haulier.State) {
	switch e.Kind {
	case haulier.EventRelease, haulier.EventAbort:
		l.released++
		l.losses = 0
	case haulier.EventFinish:
		l.losses = 0
	case haulier.EventLost:
		if in == haulier.Running {
			l.losses++
		}
	case haulier.EventRetry:
		l.forgiven, l.released, l.losses = l.job.Attempt, 0, 0
	}
}

// holds checks what is true of every job at any time.
func (l *life) holds(t *rapid.T) {
	s := &l.job.Status
	switch {
	case !s.State.Valid():
		t.Fatalf("state is %v", s.State)
	case s.State.Owned() == s.Session.IsNil():
		t.Fatalf("a %v job has session %v", s.State, s.Session)
	case s.State.Terminal() == s.PurgeAt.IsZero() || s.State.Terminal() == s.FinishedAt.IsZero():
		t.Fatalf("a %v job finished %v, and goes %v", s.State, s.FinishedAt, s.PurgeAt)
	case (s.State == haulier.Pending || s.State == haulier.Scheduled) == s.RunAt.IsZero():
		t.Fatalf("a %v job has run-at %v", s.State, s.RunAt)
	case s.Cancelling && !s.State.Owned():
		t.Fatalf("a %v job is being cancelled", s.State)
	case s.Tries() != s.Attempt-l.forgiven-l.released || s.Tries() < 0:
		t.Fatalf("%d tries of %d attempts, %d given back and %d forgiven", s.Tries(), s.Attempt, l.released, l.forgiven)
	case s.Tries() > l.job.MaxAttempts:
		t.Fatalf("try %d of %d", s.Tries(), l.job.MaxAttempts)
	case s.Crashes != l.losses || s.Crashes > haulier.PoisonAfter:
		t.Fatalf("%d crashes, %d workers were lost", s.Crashes, l.losses)
	case s.Crashes == haulier.PoisonAfter && !s.State.Terminal():
		t.Fatalf("after %d lost workers it is %v", s.Crashes, s.State)
	case len(s.History) == 0 || len(s.History) > haulier.MaxHistory || s.HistoryCut > 0 && len(s.History) != haulier.MaxHistory:
		t.Fatalf("%d changes are kept, %d cut", len(s.History), s.HistoryCut)
	case s.Percent < 0 || s.Percent > 100 || len(s.Reason) > haulier.MaxStep:
		t.Fatalf("percent is %v, reason %q", s.Percent, s.Reason)
	case s.Worker == "" && s.Attempt > 0:
		t.Fatalf("attempt %d has no worker", s.Attempt)
	}
}
