package haulier_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/haulier/haulier"
)

var (
	owner    = haulier.NewID(noon)
	stranger = haulier.NewID(noon)
)

// in is a job that stands in a state, in its second attempt where it has one.
func in(s haulier.State) *haulier.Job {
	j := &haulier.Job{
		Spec:   haulier.Spec{ID: haulier.NewID(noon), MaxAttempts: 5, Backoff: &haulier.Backoff{Constant: haulier.Duration(time.Minute)}},
		Status: haulier.Status{Rev: 7, State: s, Attempt: 2, UpdatedAt: noon, History: []haulier.Change{{At: noon, State: haulier.Pending}}},
	}
	switch {
	case s.Owned():
		j.Session, j.Worker = owner, "w"
	case s.Terminal():
		j.FinishedAt, j.PurgeAt = noon, noon.Add(time.Hour)
	case s == haulier.Pending || s == haulier.Scheduled:
		j.Status.RunAt = noon
	}
	return j
}

// waiting leads from all states in which a job waits to one.
func waiting(to haulier.State) map[haulier.State]haulier.State {
	return map[haulier.State]haulier.State{haulier.Blocked: to, haulier.Scheduled: to, haulier.Pending: to}
}

// and adds that a state is kept.
func and(leads map[haulier.State]haulier.State, kept haulier.State) map[haulier.State]haulier.State {
	leads[kept] = kept
	return leads
}

// same leads from each state to itself.
func same() map[haulier.State]haulier.State {
	out := map[haulier.State]haulier.State{}
	for _, s := range haulier.States {
		out[s] = s
	}
	return out
}

// inFlow gives a job two needs and a key at which it waits, and the event what goes with them.
func inFlow(j *haulier.Job, e *haulier.Event) {
	j.Standing = &haulier.Standing{NeedsLeft: 2, Gate: "k"}
	if j.State.Terminal() {
		j.Standing = &haulier.Standing{NeedsLeft: 2, Cause: stranger}
		if e.Kind == haulier.EventUnbarred {
			j.Barred = 1
		}
	}
	e.Key, e.N, e.Other = "k", 1, stranger
	if e.Kind == haulier.EventDefer || e.Kind == haulier.EventStandBy {
		e.At = noon.Add(2 * time.Hour)
	}
}

// theirs is an event of the job's own session and attempt.
func theirs(k haulier.EventKind) haulier.Event {
	return haulier.Event{Kind: k, By: "w", Session: owner, Attempt: 2, Outcome: haulier.OutcomeOK}
}

func next(t *testing.T, j *haulier.Job, e haulier.Event) haulier.Job {
	t.Helper()
	s, err := j.Next(e, noon.Add(time.Hour))
	if err != nil {
		t.Fatalf("%v of a %v job: %v", e.Kind, j.State, err)
	}
	return haulier.Job{Spec: j.Spec, Status: s}
}

// TestEveryEventInEveryState is the rule book as a table: where an event leads
// from a state; the states that are left out refuse it.
func TestEveryEventInEveryState(t *testing.T) {
	own := func(to haulier.State) map[haulier.State]haulier.State {
		return map[haulier.State]haulier.State{haulier.Claimed: to, haulier.Running: to}
	}
	table := map[haulier.EventKind]struct {
		leads   map[haulier.State]haulier.State
		refusal error
	}{
		haulier.EventClaim:   {map[haulier.State]haulier.State{haulier.Pending: haulier.Claimed}, haulier.ErrConflict},
		haulier.EventReclaim: {map[haulier.State]haulier.State{haulier.Pending: haulier.Claimed}, haulier.ErrLeaseLost},
		haulier.EventStart:   {map[haulier.State]haulier.State{haulier.Claimed: haulier.Running}, haulier.ErrLeaseLost},
		haulier.EventProgress: {
			map[haulier.State]haulier.State{haulier.Claimed: haulier.Claimed, haulier.Running: haulier.Running}, haulier.ErrLeaseLost,
		},
		haulier.EventFinish:  {own(haulier.Succeeded), haulier.ErrLeaseLost},
		haulier.EventRelease: {own(haulier.Pending), haulier.ErrLeaseLost},
		haulier.EventAbort:   {own(haulier.Cancelled), haulier.ErrLeaseLost},
		haulier.EventLost:    {own(haulier.Pending), haulier.ErrLeaseLost},
		haulier.EventDue:     {map[haulier.State]haulier.State{haulier.Scheduled: haulier.Pending}, haulier.ErrConflict},
		haulier.EventCancel: {map[haulier.State]haulier.State{
			haulier.Blocked: haulier.Cancelled, haulier.Scheduled: haulier.Cancelled, haulier.Pending: haulier.Cancelled,
			haulier.Claimed: haulier.Claimed, haulier.Running: haulier.Running,
		}, haulier.ErrConflict},
		haulier.EventRetry: {map[haulier.State]haulier.State{
			haulier.Scheduled: haulier.Pending, haulier.Succeeded: haulier.Pending, haulier.Failed: haulier.Pending, haulier.Cancelled: haulier.Pending,
		}, haulier.ErrConflict},
		haulier.EventAdmit:      {map[haulier.State]haulier.State{haulier.Claimed: haulier.Claimed, haulier.Running: haulier.Running}, haulier.ErrConflict},
		haulier.EventPark:       {map[haulier.State]haulier.State{haulier.Claimed: haulier.Blocked}, haulier.ErrConflict},
		haulier.EventDefer:      {map[haulier.State]haulier.State{haulier.Claimed: haulier.Scheduled}, haulier.ErrConflict},
		haulier.EventCall:       {map[haulier.State]haulier.State{haulier.Blocked: haulier.Pending, haulier.Scheduled: haulier.Pending}, haulier.ErrConflict},
		haulier.EventStandBy:    {map[haulier.State]haulier.State{haulier.Blocked: haulier.Scheduled}, haulier.ErrConflict},
		haulier.EventServed:     {map[haulier.State]haulier.State{haulier.Blocked: haulier.Blocked, haulier.Cancelled: haulier.Cancelled}, haulier.ErrConflict},
		haulier.EventBarred:     {and(waiting(haulier.Cancelled), haulier.Cancelled), haulier.ErrConflict},
		haulier.EventUnbarred:   {map[haulier.State]haulier.State{haulier.Cancelled: haulier.Cancelled}, haulier.ErrConflict},
		haulier.EventRevive:     {map[haulier.State]haulier.State{haulier.Cancelled: haulier.Blocked}, haulier.ErrConflict},
		haulier.EventNeeded:     {same(), haulier.ErrConflict},
		haulier.EventCollapse:   {waiting(haulier.Collapsed), haulier.ErrConflict},
		haulier.EventAwait:      {map[haulier.State]haulier.State{haulier.Cancelled: haulier.Cancelled}, haulier.ErrConflict}, // and blocked, without a gate
		haulier.EventForce:      {map[haulier.State]haulier.State{haulier.Blocked: haulier.Blocked, haulier.Scheduled: haulier.Scheduled, haulier.Pending: haulier.Pending}, haulier.ErrConflict},
		haulier.EventExpire:     {map[haulier.State]haulier.State{haulier.Pending: haulier.Failed}, haulier.ErrConflict},
		haulier.EventSkip:       {nil, haulier.ErrConflict}, // a job with something to run
		haulier.EventRecall:     {map[haulier.State]haulier.State{haulier.Pending: haulier.Succeeded}, haulier.ErrConflict},
		haulier.EventRecall + 1: {nil, haulier.ErrConflict},
		0:                       {nil, haulier.ErrConflict},
	}
	for kind, row := range table {
		for _, from := range haulier.States {
			t.Run(kind.String()+" of a "+from.String()+" job", func(t *testing.T) {
				j := in(from)
				e := theirs(kind)
				if kind == haulier.EventReclaim {
					e.Attempt = 3
				}
				if kind >= haulier.EventAdmit {
					inFlow(j, &e)
				}
				got, err := j.Next(e, noon.Add(time.Hour))
				to, fits := row.leads[from]
				refusal := row.refusal
				if kind == haulier.EventStart && from == haulier.Running {
					refusal = haulier.ErrConflict // its own, but twice
				}
				switch {
				case fits && err != nil:
					t.Errorf("it is refused: %v", err)
				case fits && (got.State != to || got.Rev != 8 || !got.UpdatedAt.Equal(noon.Add(time.Hour))):
					t.Errorf("it leads to %v at revision %d, %v: want %v at 8", got.State, got.Rev, got.UpdatedAt, to)
				case !fits && !errors.Is(err, refusal):
					t.Errorf("it leads to %v, %v: want %v", got.State, err, refusal)
				case !fits && !reflect.DeepEqual(got, j.Status):
					t.Errorf("a refused event returned %+v", got)
				}
			})
		}
	}
}

func TestFirstStatus(t *testing.T) {
	for name, c := range map[string]struct {
		runAt time.Time
		state haulier.State
		want  time.Time
	}{
		"at once":          {time.Time{}, haulier.Pending, noon},
		"in the past":      {noon.Add(-time.Hour), haulier.Pending, noon},
		"now":              {noon, haulier.Pending, noon},
		"later":            {noon.Add(time.Hour).In(time.FixedZone("x", 3600)), haulier.Scheduled, noon.Add(time.Hour)},
		"by a microsecond": {noon.Add(time.Microsecond), haulier.Scheduled, noon.Add(time.Microsecond)},
	} {
		t.Run(name, func(t *testing.T) {
			s := haulier.Spec{RunAt: c.runAt}
			st := s.First(noon.Add(999), "me")
			if st.State != c.state || st.RunAt != c.want || st.Rev != 1 || st.Attempt != 0 || st.UpdatedAt != noon {
				t.Errorf("it is %+v, want %v at %v", st, c.state, c.want)
			}
			if len(st.History) != 1 || st.History[0] != (haulier.Change{At: noon, State: c.state, By: "me"}) {
				t.Errorf("history is %v", st.History)
			}
		})
	}
}

func TestClaimBeginsAnAttempt(t *testing.T) {
	j := in(haulier.Pending)
	j.Outcome, j.Code, j.Error, j.Result, j.LogBlob, j.LogSize = haulier.OutcomeError, 3, "e", []byte("r"), "l", 9
	j.Percent, j.Step, j.Reason, j.StartedAt = 40, "s", "why", noon
	got := next(t, j, haulier.Event{Kind: haulier.EventClaim, Session: owner, By: "w"})
	want := j.Status
	want.Rev, want.State, want.Attempt, want.Session, want.Worker = 8, haulier.Claimed, 3, owner, "w"
	want.RunAt, want.StartedAt, want.UpdatedAt = time.Time{}, time.Time{}, noon.Add(time.Hour)
	want.Outcome, want.Code, want.Error, want.Result, want.LogBlob, want.LogSize = "", 0, "", nil, "", 0
	want.Percent, want.Step, want.Reason = 0, "", ""
	want.History = append(slices.Clone(j.History), haulier.Change{At: noon.Add(time.Hour), State: haulier.Claimed, By: "w"})
	if !reflect.DeepEqual(got.Status, want) {
		t.Errorf("status is %+v\nwant      %+v", got.Status, want)
	}
	if got.Tries() != 3 {
		t.Errorf("it counts as try %d, want 3", got.Tries())
	}
}

func TestReclaimNamesTheLostAttempt(t *testing.T) {
	j := in(haulier.Pending)
	e := haulier.Event{Kind: haulier.EventReclaim, Session: owner, Attempt: 3, By: "w"}
	if got := next(t, j, e); got.Attempt != 3 || got.Session != owner || got.State != haulier.Claimed {
		t.Errorf("it is %+v", got.Status)
	}
	for _, attempt := range []int{0, 1, 2, 4} {
		e.Attempt = attempt
		if _, err := j.Next(e, noon); !errors.Is(err, haulier.ErrLeaseLost) {
			t.Errorf("attempt %d can be reclaimed after 2: %v", attempt, err)
		}
	}
}

func TestFencing(t *testing.T) {
	for _, k := range []haulier.EventKind{haulier.EventStart, haulier.EventProgress, haulier.EventFinish, haulier.EventRelease, haulier.EventAbort, haulier.EventLost} {
		for name, change := range map[string]func(*haulier.Event){
			"another session":    func(e *haulier.Event) { e.Session = stranger },
			"no session":         func(e *haulier.Event) { e.Session = haulier.NilID },
			"an attempt before":  func(e *haulier.Event) { e.Attempt = 1 },
			"an attempt to come": func(e *haulier.Event) { e.Attempt = 3 },
		} {
			e := theirs(k)
			change(&e)
			if k == haulier.EventLost && e.Session == owner {
				continue // the session is lost with whatever it runs
			}
			if _, err := in(haulier.Claimed).Next(e, noon); !errors.Is(err, haulier.ErrLeaseLost) {
				t.Errorf("%v of %s: %v, want ErrLeaseLost", k, name, err)
			}
		}
	}
}

func TestFinish(t *testing.T) {
	at := noon.Add(time.Hour)
	for name, c := range map[string]struct {
		outcome haulier.Outcome
		delay   time.Duration
		job     func(*haulier.Job)
		state   haulier.State
		runAt   time.Time
		reason  string
	}{
		"ok":                          {outcome: haulier.OutcomeOK, state: haulier.Succeeded},
		"failed":                      {outcome: haulier.OutcomeFailed, state: haulier.Failed, reason: "broken"},
		"error":                       {outcome: haulier.OutcomeError, state: haulier.Scheduled, runAt: at.Add(time.Minute), reason: "broken"},
		"retry":                       {outcome: haulier.OutcomeRetry, state: haulier.Scheduled, runAt: at.Add(time.Minute), reason: "broken"},
		"error with a delay":          {outcome: haulier.OutcomeError, delay: time.Hour, state: haulier.Scheduled, runAt: at.Add(time.Hour), reason: "broken"},
		"error with a negative delay": {outcome: haulier.OutcomeError, delay: -1, state: haulier.Scheduled, runAt: at.Add(time.Minute), reason: "broken"},
		"error in the last try": {
			outcome: haulier.OutcomeError, job: func(j *haulier.Job) { j.MaxAttempts = 2 }, state: haulier.Failed, reason: "attempt 2 of 2: broken",
		},
		"retry in the last try": {
			outcome: haulier.OutcomeRetry, delay: time.Hour, job: func(j *haulier.Job) { j.MaxAttempts = 2 }, state: haulier.Failed, reason: "attempt 2 of 2: broken",
		},
		"error in the last try but for one spared": {
			outcome: haulier.OutcomeError, job: func(j *haulier.Job) { j.MaxAttempts, j.Spared = 2, 1 },
			state: haulier.Scheduled, runAt: at.Add(time.Minute), reason: "broken",
		},
		"next attempt just before the deadline": {
			outcome: haulier.OutcomeError, job: func(j *haulier.Job) { j.RetryUntil = at.Add(time.Minute) },
			state: haulier.Scheduled, runAt: at.Add(time.Minute), reason: "broken",
		},
		"next attempt after the deadline": {
			outcome: haulier.OutcomeError, job: func(j *haulier.Job) { j.RetryUntil = at.Add(time.Minute - 1) },
			state: haulier.Failed, reason: "retry deadline passed: broken",
		},
		"error while it is cancelled":  {outcome: haulier.OutcomeError, job: cancelling, state: haulier.Cancelled, reason: "not needed"},
		"failed while it is cancelled": {outcome: haulier.OutcomeFailed, job: cancelling, state: haulier.Cancelled, reason: "not needed"},
		"retry while it is cancelled":  {outcome: haulier.OutcomeRetry, job: cancelling, state: haulier.Cancelled, reason: "not needed"},
		"ok while it is cancelled":     {outcome: haulier.OutcomeOK, job: cancelling, state: haulier.Succeeded},
	} {
		for _, from := range []haulier.State{haulier.Claimed, haulier.Running} {
			t.Run(name+" of a "+from.String()+" job", func(t *testing.T) {
				j := in(from)
				j.Crashes = 2
				if c.job != nil {
					c.job(j)
				}
				e := theirs(haulier.EventFinish)
				e.Outcome, e.Code, e.Delay, e.Result, e.LogBlob, e.LogSize = c.outcome, 5, c.delay, []byte("res"), "log", 8
				if c.outcome != haulier.OutcomeOK {
					e.Error = "broken"
				}
				got := next(t, j, e)
				if got.State != c.state || !got.Status.RunAt.Equal(c.runAt) || got.Reason != c.reason {
					t.Errorf("it is %v at %v: %q, want %v at %v: %q", got.State, got.Status.RunAt, got.Reason, c.state, c.runAt, c.reason)
				}
				if got.Outcome != c.outcome || got.Code != 5 || got.Error != e.Error || string(got.Result) != "res" || got.LogBlob != "log" || got.LogSize != 8 {
					t.Errorf("what the attempt said is lost: %+v", got.Status)
				}
				if got.Crashes != 0 || got.Cancelling || !got.Session.IsNil() || got.Worker != "w" {
					t.Errorf("it is %+v", got.Status)
				}
			})
		}
	}
	e := theirs(haulier.EventFinish)
	e.Outcome = "fine"
	if _, err := in(haulier.Running).Next(e, noon); !errors.Is(err, haulier.ErrInvalid) {
		t.Errorf("outcome fine: %v, want ErrInvalid", err)
	}
}

func cancelling(j *haulier.Job) { j.Cancelling, j.Reason = true, "not needed" }

func TestReleaseDoesNotCount(t *testing.T) {
	j := in(haulier.Running)
	j.Crashes = 2
	e := theirs(haulier.EventRelease)
	e.Error = "drained"
	got := next(t, j, e)
	if got.State != haulier.Pending || got.Tries() != 1 || got.Attempt != 2 || got.Crashes != 0 || got.Outcome != "" {
		t.Errorf("it is %+v", got.Status)
	}
	if !got.Status.RunAt.Equal(noon.Add(time.Hour)) || got.Reason != "returned: drained" {
		t.Errorf("it waits since %v: %q", got.Status.RunAt, got.Reason)
	}
	cancelling(j)
	if got := next(t, j, e); got.State != haulier.Cancelled || got.Reason != "not needed" {
		t.Errorf("released while it is cancelled, it is %v: %q", got.State, got.Reason)
	}
}

func TestLostWorker(t *testing.T) {
	j := in(haulier.Running)
	got := next(t, j, theirs(haulier.EventLost))
	if got.State != haulier.Pending || got.Crashes != 1 || got.Tries() != 2 || got.Outcome != haulier.OutcomeError || got.Error == "" {
		t.Errorf("it is %+v", got.Status)
	}
	j.MaxAttempts = 2
	if got := next(t, j, theirs(haulier.EventLost)); got.State != haulier.Failed || !strings.Contains(got.Reason, "attempt 2 of 2") {
		t.Errorf("in its last try it is %v: %q", got.State, got.Reason)
	}
	j.MaxAttempts, j.RetryUntil = 5, noon
	if got := next(t, j, theirs(haulier.EventLost)); got.State != haulier.Failed || !strings.Contains(got.Reason, "deadline") {
		t.Errorf("past its deadline it is %v: %q", got.State, got.Reason)
	}
	cancelling(j)
	if got := next(t, j, theirs(haulier.EventLost)); got.State != haulier.Cancelled || got.Reason != "not needed" {
		t.Errorf("while it is cancelled it is %v: %q", got.State, got.Reason)
	}
}

func TestPoison(t *testing.T) {
	j := in(haulier.Pending)
	j.MaxAttempts = 100
	lose := func() {
		*j = next(t, j, haulier.Event{Kind: haulier.EventClaim, Session: owner, By: "w"})
		*j = next(t, j, haulier.Event{Kind: haulier.EventStart, Session: owner, Attempt: j.Attempt})
		*j = next(t, j, haulier.Event{Kind: haulier.EventLost, Session: owner})
	}
	for range 2 * haulier.PoisonAfter {
		*j = next(t, j, haulier.Event{Kind: haulier.EventClaim, Session: owner, By: "w"})
		*j = next(t, j, haulier.Event{Kind: haulier.EventLost, Session: owner})
	}
	if j.State != haulier.Pending || j.Crashes != 0 {
		t.Errorf("never started, it is blamed for its workers: %+v", j.Status)
	}
	for range haulier.PoisonAfter - 1 {
		lose()
	}
	*j = next(t, j, haulier.Event{Kind: haulier.EventClaim, Session: owner, By: "w"})
	*j = next(t, j, haulier.Event{Kind: haulier.EventStart, Session: owner, Attempt: j.Attempt})
	survived := next(t, j, haulier.Event{Kind: haulier.EventFinish, Session: owner, Attempt: j.Attempt, Outcome: haulier.OutcomeError})
	if survived.Crashes != 0 || survived.State != haulier.Scheduled {
		t.Errorf("after an attempt that its worker survived it is %+v", survived.Status)
	}
	*j = next(t, j, haulier.Event{Kind: haulier.EventLost, Session: owner})
	if j.State != haulier.Failed || !strings.Contains(j.Reason, "poison") || j.Crashes != haulier.PoisonAfter {
		t.Errorf("after %d lost workers it is %v: %q", haulier.PoisonAfter, j.State, j.Reason)
	}
	*j = next(t, j, haulier.Event{Kind: haulier.EventRetry, By: "me"})
	if lose(); j.State != haulier.Pending || j.Crashes != 1 {
		t.Errorf("run again by hand and lost once it is %+v", j.Status)
	}
}

func TestCancel(t *testing.T) {
	e := haulier.Event{Kind: haulier.EventCancel, By: "me", Error: "not needed"}
	for _, s := range []haulier.State{haulier.Blocked, haulier.Scheduled, haulier.Pending} {
		got := next(t, in(s), e)
		if got.State != haulier.Cancelled || got.Reason != "not needed" || got.FinishedAt.IsZero() || !got.Status.RunAt.IsZero() {
			t.Errorf("a %v job is %+v", s, got.Status)
		}
	}
	for _, s := range []haulier.State{haulier.Claimed, haulier.Running} {
		got := next(t, in(s), e)
		if got.State != s || !got.Cancelling || got.Session != owner || got.Reason != "not needed" {
			t.Errorf("a %v job is %+v", s, got.Status)
		}
		if _, err := got.Next(e, noon); !errors.Is(err, haulier.ErrConflict) {
			t.Errorf("cancelled twice: %v, want ErrConflict", err)
		}
		if got := next(t, &got, theirs(haulier.EventProgress)); !got.Cancelling {
			t.Error("progress took the cancellation back")
		}
	}
	if got := next(t, in(haulier.Pending), haulier.Event{Kind: haulier.EventCancel}); got.Reason == "" {
		t.Error("a cancelled job has no reason")
	}
}

func TestRetryByHand(t *testing.T) {
	for _, s := range []haulier.State{haulier.Scheduled, haulier.Succeeded, haulier.Failed, haulier.Cancelled} {
		j := in(s)
		j.Attempt, j.Spared, j.Crashes, j.Result = 5, 1, 2, []byte("kept")
		got := next(t, j, haulier.Event{Kind: haulier.EventRetry, By: "me"})
		if got.State != haulier.Pending || got.Tries() != 0 || got.Attempt != 5 || got.Crashes != 0 || string(got.Result) != "kept" {
			t.Errorf("a %v job is %+v", s, got.Status)
		}
		if !got.FinishedAt.IsZero() || !got.PurgeAt.IsZero() || !got.Status.RunAt.Equal(noon.Add(time.Hour)) {
			t.Errorf("a %v job has times %+v", s, got.Status)
		}
	}
}

func TestProgress(t *testing.T) {
	j := in(haulier.Running)
	j.Percent, j.Step = 10, "first"
	for name, c := range map[string]struct {
		percent float64
		step    string
		want    float64
		changes int
	}{
		"percent alone":       {20, "", 20, 0},
		"step alone":          {-1, "second", 10, 1},
		"the same step again": {30, "first", 30, 0},
		"both":                {40, "second", 40, 1},
		"too much":            {1000, "", 100, 0},
		"backwards":           {5, "", 5, 0},
	} {
		t.Run(name, func(t *testing.T) {
			e := theirs(haulier.EventProgress)
			e.Percent, e.Step = c.percent, c.step
			got := next(t, j, e)
			step := c.step
			if step == "" {
				step = "first"
			}
			if got.Percent != c.want || got.Step != step || len(got.History) != len(j.History)+c.changes {
				t.Errorf("it is at %v %q, with history %v", got.Percent, got.Step, got.History)
			}
		})
	}
}

func TestRetention(t *testing.T) {
	at := noon.Add(time.Hour)
	ends := map[haulier.State]haulier.Event{haulier.Succeeded: theirs(haulier.EventFinish), haulier.Failed: theirs(haulier.EventFinish)}
	failed := ends[haulier.Failed]
	failed.Outcome = haulier.OutcomeFailed
	ends[haulier.Failed] = failed
	for s, keep := range map[haulier.State]time.Duration{haulier.Succeeded: haulier.DefaultRetention, haulier.Failed: haulier.DefaultFailedRetention} {
		j := in(haulier.Running)
		if got := next(t, j, ends[s]); got.State != s || !got.PurgeAt.Equal(at.Add(keep)) || !got.FinishedAt.Equal(at) {
			t.Errorf("a %v job ended %v and goes %v, want %v later", got.State, got.FinishedAt, got.PurgeAt, keep)
		}
		j.Retention = haulier.Duration(time.Minute)
		if got := next(t, j, ends[s]); !got.PurgeAt.Equal(at.Add(time.Minute)) {
			t.Errorf("a %v job with a retention of a minute goes %v", got.State, got.PurgeAt)
		}
	}
}

func TestLongTextsAreCut(t *testing.T) {
	long := strings.Repeat("ü", haulier.MaxErrorText)
	check := func(what, s string, most int) {
		t.Helper()
		if len(s) > most || len(s) < most-3 || !utf8.ValidString(s) {
			t.Errorf("%s has %d bytes, valid %v: want at most %d", what, len(s), utf8.ValidString(s), most)
		}
	}
	e := theirs(haulier.EventFinish)
	e.Error, e.Result = long, make([]byte, haulier.MaxResult+1)
	for _, e.Outcome = range []haulier.Outcome{haulier.OutcomeFailed, haulier.OutcomeError} {
		for _, most := range []int{2, 5} {
			j := in(haulier.Running)
			j.MaxAttempts = most
			got := next(t, j, e)
			check("the error", got.Error, haulier.MaxErrorText)
			check("the reason", got.Reason, haulier.MaxStep)
			check("the last step", got.History[len(got.History)-1].Step, haulier.MaxStep)
			if len(got.Result) != haulier.MaxResult {
				t.Errorf("the result has %d bytes", len(got.Result))
			}
		}
	}
	for _, k := range []haulier.EventKind{haulier.EventCancel, haulier.EventRelease} {
		e := theirs(k)
		e.Error = long
		got := next(t, in(haulier.Running), e)
		check("the reason", got.Reason, haulier.MaxStep)
	}
	p := theirs(haulier.EventProgress)
	p.Step = long
	got := next(t, in(haulier.Running), p)
	check("the step", got.Step, haulier.MaxStep)
}

func TestHistoryKeepsTheFirstAndTheNewest(t *testing.T) {
	s := haulier.Spec{ID: haulier.NewID(noon), MaxAttempts: 1000}
	j := &haulier.Job{Spec: s, Status: s.First(noon, "me")}
	for range 100 {
		*j = next(t, j, haulier.Event{Kind: haulier.EventClaim, Session: owner, By: "w"})
		*j = next(t, j, haulier.Event{Kind: haulier.EventRelease, Session: owner, Attempt: j.Attempt, By: "w"})
	}
	if len(j.History) != haulier.MaxHistory || j.HistoryCut != 201-haulier.MaxHistory {
		t.Errorf("%d changes are kept and %d cut of 201", len(j.History), j.HistoryCut)
	}
	if first, last := j.History[0], j.History[len(j.History)-1]; first.By != "me" || last.State != haulier.Pending || j.History[1].By != "w" {
		t.Errorf("the first is %+v and the last %+v", first, last)
	}
}

func TestEventNames(t *testing.T) {
	seen := map[string]bool{}
	for k := haulier.EventClaim; k <= haulier.EventRetry; k++ {
		if name := k.String(); name == "" || strings.HasPrefix(name, "event(") || seen[name] {
			t.Errorf("event %d is called %q", k, name)
		}
		seen[k.String()] = true
	}
	if got := haulier.EventKind(99).String(); got != "event(99)" {
		t.Errorf("an unknown event is called %q", got)
	}
}

func TestFlow(t *testing.T) {
	j := in(haulier.Pending)
	j.CreatedAt = noon
	j.Standing = &haulier.Standing{Needed: true}
	*j = next(t, j, haulier.Event{Kind: haulier.EventClaim, Session: owner, By: "w"})
	before := len(j.History)
	parked := next(t, j, haulier.Event{Kind: haulier.EventPark, Session: owner, Attempt: 3, Key: "k"})
	if parked.Attempt != 2 || !parked.Session.IsNil() || len(parked.History) != before || parked.Gate != "k" || !parked.Needed {
		t.Errorf("sent back to wait it is %+v, %+v", parked.Status, parked.Standing)
	}
	called := next(t, &parked, haulier.Event{Kind: haulier.EventCall, Key: "k"})
	if !called.Status.RunAt.Equal(noon) || called.CalledAt.IsZero() {
		t.Errorf("called, it has its place of %v: want that of its creation", called.Status.RunAt)
	}
	*j = next(t, j, haulier.Event{Kind: haulier.EventAdmit, Session: owner, Attempt: 3, Keys: []string{"k"}})
	for _, e := range []haulier.Event{
		{Kind: haulier.EventFinish, Session: owner, Attempt: 3, Outcome: haulier.OutcomeError},
		{Kind: haulier.EventRelease, Session: owner, Attempt: 3},
		{Kind: haulier.EventLost, Session: owner},
	} {
		if got := next(t, j, e); len(got.Held) != 0 || !got.Needed {
			t.Errorf("after %v it holds %v", e.Kind, got.Held)
		}
	}
	if len(j.Held) != 1 {
		t.Errorf("what follows changed what was: %v", j.Held)
	}
	w := haulier.Spec{Flow: &haulier.Flow{Needs: make([]haulier.Need, 3)}}
	child := &haulier.Job{Spec: w, Status: w.First(noon, "me")}
	if child.State != haulier.Blocked || child.NeedsLeft != 3 {
		t.Errorf("with needs it begins as %+v", child.Status)
	}
	*child = next(t, child, haulier.Event{Kind: haulier.EventServed, N: 2})
	if got := next(t, child, haulier.Event{Kind: haulier.EventServed, N: 1}); got.State != haulier.Pending || got.Standing != nil {
		t.Errorf("with all its needs met it is %+v", got.Status)
	}
	barred := next(t, child, haulier.Event{Kind: haulier.EventBarred, Other: owner, Error: "it failed"})
	if again := next(t, &barred, haulier.Event{Kind: haulier.EventRetry}); again.State != haulier.Blocked || again.NeedsLeft != 1 || !again.Status.RunAt.IsZero() {
		t.Errorf("run again by hand before its needs are met it is %+v", again.Status)
	}
	none := &haulier.Job{Spec: haulier.Spec{Task: haulier.Task{None: &haulier.NoTask{}}}, Status: haulier.Status{State: haulier.Pending}}
	if got := next(t, none, haulier.Event{Kind: haulier.EventSkip}); got.State != haulier.Succeeded || got.Outcome != haulier.OutcomeOK {
		t.Errorf("with nothing to run it is %+v", got.Status)
	}
}
