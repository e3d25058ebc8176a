package haulier

import (
	"fmt"
	"slices"
	"time"
)

// admitsFlow is admits for the events of a job's flow.
func (j *Job) admitsFlow(e Event) bool {
	switch e.Kind {
	case EventAdmit:
		return j.State.Owned() && j.Session == e.Session && j.Attempt == e.Attempt
	case EventPark, EventDefer:
		return j.State == Claimed && j.Session == e.Session && j.Attempt == e.Attempt
	case EventCall, EventStandBy:
		return j.admitsAtKey(e)
	case EventBarred:
		return j.State.Waits() || j.State == Cancelled
	case EventCollapse, EventForce:
		return j.State.Waits()
	case EventRecall:
		return j.State == Pending
	case EventNeeded:
		return true
	case EventSkip:
		return j.State == Pending && j.Task.Kind() == KindNone
	}
	return j.Standing != nil && j.admitsOfNeeds(e)
}

// admitsAtKey is admits for a job that waits at a key.
func (j *Job) admitsAtKey(e Event) bool {
	gate := ""
	if j.Standing != nil {
		gate = j.Gate
	}
	if e.Kind == EventCall {
		return (j.State == Blocked || j.State == Scheduled) && gate == e.Key
	}
	return gate != "" && (j.State == Blocked || j.State == Scheduled && e.At.Before(j.Status.RunAt))
}

// admitsOfNeeds is admits for what becomes of the jobs that a job needs.
func (j *Job) admitsOfNeeds(e Event) bool {
	switch e.Kind {
	case EventAwait:
		return j.State == Cancelled || j.State == Blocked && j.Gate == ""
	case EventServed:
		return (j.State == Blocked || j.State == Cancelled) && j.NeedsLeft >= e.N
	case EventUnbarred:
		return j.State == Cancelled && j.Barred > 0
	case EventRevive:
		return j.State == Cancelled && !j.Cause.IsNil() && j.Barred == 0
	}
	return false
}

// flows is Next for the events of a job's flow.
func (j *Job) flows(s *Status, e Event, now time.Time) {
	v := s.standing()
	switch e.Kind {
	case EventAdmit:
		v.Held, v.Waived = slices.Clone(e.Keys), slices.Clone(e.Waived)
		v.Gate, v.CalledAt, v.Since = "", time.Time{}, time.Time{}
	case EventPark:
		v.Gate, v.CalledAt = e.Key, time.Time{}
		if v.Since.IsZero() {
			v.Since = now
		}
		s.unclaim()
		s.hold(e.At, now, cut("waits for key "+e.Key, MaxStep), e.By)
	case EventDefer:
		v.Frozen = e.Key
		s.unclaim()
		s.hold(e.At, now, e.Error, e.By)
	case EventForce:
		v.Forced = true
		if v.Frozen != "" {
			s.State, s.RunAt, s.Reason = Pending, j.since(), ""
		}
		s.log(now, "in spite of windows", e.By)
	case EventCall:
		v.CalledAt = now
		s.State, s.RunAt, s.Reason = Pending, j.since(), ""
		s.log(now, "key "+cut(e.Key, MaxKey)+" is free", e.By)
	case EventStandBy:
		s.State, s.RunAt = Scheduled, e.At
	case EventAwait, EventServed, EventBarred, EventUnbarred, EventRevive:
		j.needs(s, &v, e, now)
	case EventNeeded:
		v.Needed = true
	case EventCollapse:
		v.Survivor = e.Other
		s.end(j, Collapsed, now, "replaced by "+e.Other.String(), e.By)
	case EventSkip:
		s.Outcome = OutcomeOK
		s.end(j, Succeeded, now, "nothing to run", e.By)
	case EventRecall:
		v.MemoOf = e.Other
		s.Outcome, s.Code, s.Result, s.Percent = OutcomeOK, e.Code, e.Result, 100
		s.end(j, Succeeded, now, "memoised: the result is that of job "+e.Other.String(), e.By)
	}
	s.stand(v)
}

// needs is flows for what becomes of the jobs that a job needs.
func (j *Job) needs(s *Status, v *Standing, e Event, now time.Time) {
	switch e.Kind {
	case EventAwait:
		if v.NeedsLeft += e.N; s.State == Blocked {
			s.Reason = blockedByNeeds(v.NeedsLeft)
		}
	case EventServed:
		v.NeedsLeft -= e.N
		switch {
		case s.State == Cancelled: // it may be brought back
		case v.NeedsLeft > 0:
			s.Reason = blockedByNeeds(v.NeedsLeft)
		default:
			s.wait(j.Spec.RunAt, now, "", e.By)
		}
	case EventBarred:
		v.Barred++
		if s.State.Waits() {
			v.Cause = e.Other
			s.end(j, Cancelled, now, e.Error, e.By)
		}
	case EventUnbarred:
		v.Barred--
	case EventRevive:
		v.Cause = NilID
		s.FinishedAt, s.PurgeAt = time.Time{}, time.Time{}
		if v.NeedsLeft == 0 {
			s.wait(j.Spec.RunAt, now, "what it needs has run again", e.By)
			break
		}
		s.State = Blocked
		s.block(now, blockedByNeeds(v.NeedsLeft), e.By)
	}
}

// settleStanding takes back what does not outlast the change of state.
func (s *Status) settleStanding(j *Job, e Event) {
	v := s.standing()
	if !s.State.Owned() {
		v.Held = nil
	}
	if s.State != Scheduled {
		v.Frozen = ""
	}
	switch {
	case s.State.Terminal():
		v.Gate, v.CalledAt, v.Waived, v.Since = "", time.Time{}, nil, time.Time{}
	case e.Kind == EventLost || e.Kind == EventRelease:
		v.Gate, v.CalledAt = "", time.Time{} // it was claimed and did not start: its turn is over
	case v.Gate != "" && (e.Kind == EventDue || e.Kind == EventRetry):
		s.RunAt = j.since()
	}
	if e.Kind == EventRetry {
		v.Waived, v.Cause, v.Forced, v.MemoOf = nil, NilID, false, NilID
		if v.NeedsLeft > 0 {
			s.State, s.RunAt, s.Reason = Blocked, time.Time{}, blockedByNeeds(v.NeedsLeft)
			s.History[len(s.History)-1].State = Blocked
		}
	}
	s.stand(v)
}

// unclaim undoes a claim of which no worker has heard.
func (s *Status) unclaim() {
	s.Attempt--
	s.Session, s.Worker = NilID, ""
	if n := len(s.History); n > 1 && s.History[n-1].State == Claimed {
		s.History = s.History[: n-1 : n-1]
	}
}

// hold puts a job that may not start to scheduled until the given time, or to blocked when there is none.
func (s *Status) hold(until, now time.Time, why, by string) {
	if until.IsZero() {
		s.State = Blocked
		s.block(now, why, by)
		return
	}
	s.State, s.RunAt, s.Reason = Scheduled, until.UTC().Truncate(time.Microsecond), why
	s.log(now, why, by)
}

func (s *Status) block(now time.Time, why, by string) {
	s.RunAt, s.Reason = time.Time{}, why
	s.log(now, why, by)
}

// since is the time by which the job takes its place among others of its priority.
func (j *Job) since() time.Time {
	if j.Spec.RunAt.After(j.CreatedAt) {
		return j.Spec.RunAt.UTC().Truncate(time.Microsecond)
	}
	return j.CreatedAt
}

func blockedByNeeds(n int) string {
	if n == 1 {
		return "waits for 1 job that it needs"
	}
	return fmt.Sprintf("waits for %d jobs that it needs", n)
}

// uniqueUntil is until when the job keeps out others of its key, whether it has ended or not; zero: it does not.
func (j *Job) uniqueUntil() time.Time {
	if j.Flow == nil || j.Unique == nil || j.Unique.Scope != UniquePeriod {
		return time.Time{}
	}
	return j.CreatedAt.Add(time.Duration(j.Unique.For))
}
