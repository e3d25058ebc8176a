package haulier

import (
	"fmt"
	"hash/fnv"
	"time"
)

// State of a job.
//
//	blocked ─► scheduled ─► pending ─► claimed ─► running ─► succeeded
//	   ▲           ▲                      │          ├────► failed
//	   │           └──── retry, error ◄───┴──────────┤
//	   └──────── needs, locks                        └────► cancelled, collapsed
type State uint8

// The states. Zero is none of them.
const (
	Blocked   State = iota + 1 // waits for other jobs or for a lock key
	Scheduled                  // waits for a time
	Pending                    // may be claimed now
	Claimed                    // belongs to a session that prepares it
	Running                    // belongs to a session that runs it
	Succeeded                  // terminal: an attempt ended ok
	Failed                     // terminal: will not run again by itself
	Cancelled                  // terminal: somebody asked for it
	Collapsed                  // terminal: replaced by a newer job of the same key
)

// States lists all states, in the order of a job's life.
var States = []State{Blocked, Scheduled, Pending, Claimed, Running, Succeeded, Failed, Cancelled, Collapsed}

var stateNames = [...]string{
	Blocked: "blocked", Scheduled: "scheduled", Pending: "pending", Claimed: "claimed", Running: "running",
	Succeeded: "succeeded", Failed: "failed", Cancelled: "cancelled", Collapsed: "collapsed",
}

// Terminal reports whether a job in this state has ended.
func (s State) Terminal() bool { return s >= Succeeded }

// Owned reports whether a job in this state belongs to a session.
func (s State) Owned() bool { return s == Claimed || s == Running }

// Valid reports whether s is one of States.
func (s State) Valid() bool { return s >= Blocked && s <= Collapsed }

// String returns the state's lower-case name.
func (s State) String() string {
	if !s.Valid() {
		return fmt.Sprintf("state(%d)", uint8(s))
	}
	return stateNames[s]
}

// MarshalText implements encoding.TextMarshaler.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. The error wraps ErrInvalid.
func (s *State) UnmarshalText(b []byte) error {
	for _, v := range States {
		if string(b) == stateNames[v] {
			*s = v
			return nil
		}
	}
	return fmt.Errorf("%w: state %.30q is none of %v", ErrInvalid, b, States)
}

// Outcome is how an attempt ended.
type Outcome string

// The outcomes. The classes of numbers are those of HTTP-like status codes, as some systems report them.
const (
	OutcomeOK     Outcome = "ok"     // 2xx: succeeded
	OutcomeFailed Outcome = "failed" // 4xx: failed for good; trying again would not help
	OutcomeRetry  Outcome = "retry"  // 1xx: asks to run again later
	OutcomeError  Outcome = "error"  // 5xx: went wrong; runs again while attempts last
)

// Valid reports whether o is one of the four outcomes.
func (o Outcome) Valid() bool {
	return o == OutcomeOK || o == OutcomeFailed || o == OutcomeRetry || o == OutcomeError
}

// EventKind names what happened to a job.
type EventKind uint8

// What can happen to a job. The comments name the states in which it may.
const (
	EventClaim    EventKind = iota + 1 // pending: Session takes it
	EventReclaim                       // pending: Session says again that it runs Attempt, after a power cut lost its claim
	EventStart                         // claimed: the session has started it
	EventProgress                      // claimed, running: Percent and Step
	EventFinish                        // claimed, running: Outcome and what goes with it
	EventRelease                       // claimed, running: the session gives it back unfinished; not counted as a try
	EventAbort                         // claimed, running: a hook said that it is not to run; it ends cancelled
	EventLost                          // claimed, running: the session has expired
	EventDue                           // scheduled: its time has come
	EventCancel                        // any but terminal: somebody asks that it does not run on
	EventRetry                         // terminal, scheduled: somebody asks that it runs (again) now
	EventAdmit                         // claimed, running: what it yields to is free; it holds Keys from now on
	EventPark                          // claimed: Key is held by others; it waits there, in no case beyond At
	EventDefer                         // claimed: it may not start before At
	EventCall                          // blocked, scheduled: Key, at which it waits, was freed for it
	EventStandBy                       // blocked, scheduled for later, at a key: it looks again at At, in case who was called does not come
	EventServed                        // blocked, cancelled: N of the jobs that it needs ended as they should
	EventBarred                        // any that waits, cancelled: Other, which it needs, ended otherwise for good
	EventUnbarred                      // cancelled: one of those that barred it runs again
	EventRevive                        // cancelled for the sake of a needed job: none of those that it needs bars it any more
	EventNeeded                        // any: another job needs this one
	EventCollapse                      // any that waits: Other, a newer job, replaces it
	EventForce                         // any that waits: it starts in spite of windows
	EventAwait                         // blocked, cancelled, for jobs that it needs: it needs N more
	EventExpire                        // pending: its deadline has passed before it could be tried; Error says what it lacked
	EventSkip                          // pending: there is nothing to run; it has succeeded
	EventRecall                        // pending: Other, which is alike, has succeeded with Code and Result; so has it
)

// Event is something that happened to a job; the kind says which fields count.
type Event struct {
	Kind    EventKind
	By      string // who: worker, token or part of the server
	Session ID     // of Claim, Reclaim, Start, Progress, Finish, Release, Lost, Abort
	Attempt int    // of Reclaim, Start, Progress, Finish, Release, Abort
	Outcome Outcome
	Code    int
	Error   string // of Finish: why not ok. Of Cancel, Release, Abort: the reason
	Result  []byte // of Finish
	Output  int    // of Finish: version of the fileset that it left
	// ResultBlob of Finish is the address of the whole result.
	ResultBlob string
	Percent    float64       // of Progress; negative: unchanged
	Step       string        // of Progress
	Delay      time.Duration // of Finish with retry or error: overrides the back-off when positive. Of Release: before it may be claimed again
	LogBlob    string        // of Finish
	LogSize    int64         // of Finish
	Account    *Account      // of Finish
	Key        string        // of Park, Call
	Keys       []string      // of Admit
	Waived     []string      // of Admit: keys that it waits for no longer
	At         time.Time     // of Park (zero: none), Defer, StandBy
	N          int           // of Served
	Other      ID            // of Barred, Collapse
}

// Next decides every change of a job's state; it is pure. It returns the status
// after e, at time now, with the change appended to the history and Rev grown.
//
// ErrLeaseLost: e comes from a session or attempt that does not own the job.
// ErrConflict: the state does not allow e.
func (j *Job) Next(e Event, now time.Time) (Status, error) {
	s := j.Status
	now = now.UTC().Truncate(time.Microsecond)
	if err := j.admits(e); err != nil {
		return j.Status, err
	}
	s.Rev++
	s.UpdatedAt = now
	switch e.Kind {
	case EventClaim, EventReclaim:
		j.claimed(&s, e, now)
	case EventStart:
		s.State, s.StartedAt = Running, now
		s.log(now, "", e.By)
	case EventProgress:
		if e.Percent >= 0 {
			s.Percent = min(e.Percent, 100)
		}
		if step := cut(e.Step, MaxStep); step != s.Step && step != "" {
			s.Step = step
			s.log(now, step, e.By)
		}
	case EventFinish:
		j.finished(&s, e, now)
	case EventRelease:
		s.Spared++
		s.Crashes = 0
		if s.Cancelling {
			s.end(j, Cancelled, now, orElse(s.Reason, "cancelled"), e.By)
		} else {
			s.wait(now.Add(max(e.Delay, 0)), now, cut("returned: "+orElse(e.Error, "its worker gave it back"), MaxStep), e.By)
		}
	case EventAbort:
		s.Spared++
		s.Crashes = 0
		s.end(j, Cancelled, now, cut(orElse(e.Error, "aborted by a hook"), MaxStep), e.By)
	case EventLost:
		j.lost(&s, e, now)
	case EventDue:
		s.wait(now, now, "", e.By)
	case EventCancel:
		reason := cut(orElse(e.Error, "cancelled"), MaxStep)
		if s.State.Owned() {
			s.Cancelling, s.Reason = true, reason
			s.log(now, "cancelling: "+reason, e.By)
		} else {
			s.end(j, Cancelled, now, reason, e.By)
		}
	case EventExpire:
		s.end(j, Failed, now, cut("its deadline has passed: "+e.Error, MaxStep), e.By)
	case EventRetry:
		s.Spared, s.Crashes = s.Attempt, 0
		s.FinishedAt, s.PurgeAt = time.Time{}, time.Time{}
		s.wait(now, now, "run again by hand", e.By)
	default:
		j.flows(&s, e, now)
	}
	if s.Standing != nil {
		s.settleStanding(j, e)
	}
	return s, nil
}

// admits says whether e may happen in the job's state, and from whom it came.
func (j *Job) admits(e Event) error {
	fits := false
	switch e.Kind {
	case EventClaim, EventExpire:
		fits = j.State == Pending
	case EventReclaim:
		fits = j.State == Pending && e.Attempt == j.Attempt+1
		if !fits {
			return j.refuse(ErrLeaseLost, e)
		}
	case EventStart, EventProgress, EventFinish, EventRelease, EventAbort, EventLost:
		if !j.State.Owned() || j.Session != e.Session || e.Kind != EventLost && j.Attempt != e.Attempt {
			return j.refuse(ErrLeaseLost, e)
		}
		fits = e.Kind != EventStart || j.State == Claimed
		if e.Kind == EventFinish && !e.Outcome.Valid() {
			return fmt.Errorf("%w: outcome %.20q is none of ok, failed, retry, error", ErrInvalid, e.Outcome)
		}
	case EventDue:
		fits = j.State == Scheduled
	case EventCancel:
		fits = !j.State.Terminal() && !j.Cancelling
	case EventRetry:
		fits = j.State.Terminal() && j.State != Collapsed || j.State == Scheduled
	default:
		fits = j.admitsFlow(e)
	}
	if !fits {
		return j.refuse(ErrConflict, e)
	}
	return nil
}

func (j *Job) refuse(kind error, e Event) error {
	return fmt.Errorf("%w: job %v is %v, attempt %d: it does not admit %v", kind, j.ID, j.State, j.Attempt, e.Kind)
}

func (j *Job) claimed(s *Status, e Event, now time.Time) {
	s.State, s.Session, s.Worker = Claimed, e.Session, e.By
	s.Attempt++
	s.RunAt, s.StartedAt = time.Time{}, time.Time{}
	s.Percent, s.Step, s.Reason = 0, "", ""
	s.Outcome, s.Code, s.Error, s.Result, s.OutputVersion, s.LogBlob, s.LogSize, s.Account = "", 0, "", nil, 0, "", 0, nil
	s.ResultBlob = ""
	s.log(now, "", e.By)
}

func (j *Job) finished(s *Status, e Event, now time.Time) {
	s.Outcome, s.Code, s.Error = e.Outcome, e.Code, cut(e.Error, MaxErrorText)
	s.Result = e.Result[:min(len(e.Result), MaxResult)]
	s.OutputVersion, s.LogBlob, s.LogSize, s.Account, s.ResultBlob = e.Output, e.LogBlob, e.LogSize, e.Account, e.ResultBlob
	s.Crashes = 0
	switch {
	case e.Outcome == OutcomeOK:
		s.Percent = 100
		s.end(j, Succeeded, now, "", e.By)
	case s.Cancelling:
		s.end(j, Cancelled, now, orElse(s.Reason, "cancelled"), e.By)
	case e.Outcome == OutcomeFailed:
		s.end(j, Failed, now, cut(orElse(e.Error, "the attempt ended as failed"), MaxStep), e.By)
	default:
		j.again(s, e, now, cut(orElse(e.Error, "the attempt ended as "+string(e.Outcome)), MaxStep))
	}
}

// lost: the worker of the attempt is gone, which counts as an error of the job.
func (j *Job) lost(s *Status, e Event, now time.Time) {
	s.Outcome, s.Error = OutcomeError, "its worker was lost"
	if j.State == Running {
		s.Crashes++ // one that was only claimed is not to blame, and ends by its attempts if it is after all
	}
	switch {
	case s.Cancelling:
		s.end(j, Cancelled, now, orElse(s.Reason, "cancelled"), e.By)
	case s.Crashes >= PoisonAfter:
		s.end(j, Failed, now, fmt.Sprintf("poison: %d workers in a row were lost while they ran it", s.Crashes), e.By)
	default:
		j.again(s, e, now, "its worker was lost")
	}
}

// again sends the job back to wait for its next attempt, or ends it when none is left.
// A lost worker is no reason to wait: such a job is pending at once.
func (j *Job) again(s *Status, e Event, now time.Time, why string) {
	at := now
	if e.Kind != EventLost {
		at = now.Add(j.Backoff.Delay(s.Tries(), j.ID))
		if e.Delay > 0 {
			at = now.Add(e.Delay)
		}
	}
	switch {
	case s.Tries() >= j.MaxAttempts:
		s.end(j, Failed, now, fmt.Sprintf("attempt %d of %d: %s", s.Tries(), j.MaxAttempts, why), e.By)
	case !j.RetryUntil.IsZero() && at.After(j.RetryUntil):
		s.end(j, Failed, now, "retry deadline passed: "+why, e.By)
	default:
		s.wait(at, now, why, e.By)
	}
}

// wait puts the job to pending, or to scheduled when at lies after now.
func (s *Status) wait(at, now time.Time, why, by string) {
	s.State, s.RunAt = Pending, now
	if at = at.UTC().Truncate(time.Microsecond); at.After(now) {
		s.State, s.RunAt = Scheduled, at
	}
	s.Session, s.Cancelling, s.Reason = NilID, false, cut(why, MaxStep)
	s.log(now, why, by)
}

func (s *Status) end(j *Job, to State, now time.Time, why, by string) {
	s.State, s.FinishedAt, s.RunAt = to, now, time.Time{}
	s.Session, s.Cancelling, s.Reason = NilID, false, cut(why, MaxStep)
	keep := time.Duration(j.Retention)
	if keep == 0 {
		keep = DefaultRetention
		if to == Failed {
			keep = DefaultFailedRetention
		}
	}
	s.PurgeAt = now.Add(keep)
	if until := j.uniqueUntil(); until.After(s.PurgeAt) {
		s.PurgeAt = until
	}
	s.log(now, why, by)
}

// log appends a change, and drops the oldest but the first when there are too many.
func (s *Status) log(now time.Time, step, by string) {
	old := s.History
	if over := len(old) + 1 - MaxHistory; over > 0 {
		s.HistoryCut += over
		old = append(append(make([]Change, 0, MaxHistory), old[0]), old[1+over:]...)
	}
	// The array may be shared with the status before: a full slice makes append copy.
	s.History = append(old[:len(old):len(old)], Change{At: now, State: s.State, Step: cut(step, MaxStep), By: by})
}

// First is the status of a newly enqueued job: blocked when it needs others, pending,
// or scheduled when its RunAt lies after now.
func (s *Spec) First(now time.Time, by string) Status {
	now = now.UTC().Truncate(time.Microsecond)
	st := Status{Rev: 1, UpdatedAt: now}
	if s.Flow != nil && len(s.Needs) > 0 {
		st.State, st.Standing = Blocked, &Standing{NeedsLeft: len(s.Needs)}
		st.block(now, blockedByNeeds(len(s.Needs)), by)
		return st
	}
	st.wait(s.RunAt, now, "", by)
	return st
}

// exponential is what holds where nothing is said.
var exponential Backoff

// Delay is the wait before the attempt that follows try number tries (from 1).
// The jitter is drawn from the job's id and tries, so that the same job always
// gets the same delay: between half of the exponential step and the whole.
func (b *Backoff) Delay(tries int, id ID) time.Duration {
	tries = max(tries, 1)
	if b == nil {
		b = &exponential
	}
	switch {
	case len(b.List) > 0:
		return time.Duration(b.List[min(tries, len(b.List))-1])
	case b.Constant > 0:
		return time.Duration(b.Constant)
	}
	base, top := time.Duration(b.Base), time.Duration(b.Max)
	if base <= 0 {
		base = time.Second
	}
	if top <= 0 {
		top = time.Hour
	}
	d := top
	if shift := tries - 1; shift < 63 && base <= top>>shift {
		d = base << shift
	}
	if b.NoJitter {
		return d
	}
	h := fnv.New64a()
	h.Write(id[:])
	h.Write([]byte{byte(tries), byte(tries >> 8)})
	part := float64(h.Sum64()>>11) / (1 << 53)
	return d/2 + time.Duration(part*float64(d/2))
}

var eventNames = [...]string{
	EventClaim: "claim", EventReclaim: "reclaim", EventStart: "start", EventProgress: "progress", EventFinish: "finish",
	EventRelease: "release", EventLost: "lost", EventDue: "due", EventCancel: "cancel", EventRetry: "retry",
	EventAdmit: "admit", EventPark: "park", EventDefer: "defer", EventCall: "call", EventStandBy: "stand by", EventServed: "served",
	EventBarred: "barred", EventUnbarred: "unbarred", EventRevive: "revive", EventNeeded: "needed", EventCollapse: "collapse", EventForce: "force", EventAwait: "await", EventSkip: "skip", EventAbort: "abort", EventExpire: "expire",
	EventRecall: "recall",
}

// String returns the kind's name.
func (k EventKind) String() string {
	if int(k) < len(eventNames) && k > 0 {
		return eventNames[k]
	}
	return fmt.Sprintf("event(%d)", uint8(k))
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// cut shortens s to at most n bytes without splitting a UTF-8 sequence.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n]
}
