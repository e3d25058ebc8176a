package haulier

import (
	"fmt"
	"slices"
	"time"
)

// admitsFlow is admits for the events of a job's flow.
func (j *Job) admitsFlow(e Event) bool {
	gate := ""
	var cause ID
	if j.Standing != nil {
		gate, cause = j.Gate, j.Cause
	}
	switch e.Kind {
	case EventAdmit, EventPark, EventDefer:
		return j.State == Claimed && j.Session == e.Session && j.Attempt == e.Attempt
	case EventCall:
		return (j.State == Blocked || j.State == Scheduled) && gate == e.Key
	case EventStandBy:
		return j.State == Blocked && gate != ""
	case EventServed:
		return (j.State == Blocked || j.State == Cancelled) && j.Standing != nil && j.NeedsLeft >= e.N
	case EventBarred, EventCollapse:
		return j.State.Waits()
	case EventRevive:
		return j.State == Cancelled && !cause.IsNil()
	case EventNeeded:
		return true
	case EventSkip:
		return j.State == Pending && j.Task.Kind() == KindNone
	}
	return false
}

// flows is Next for the events of a job's flow.
func (j *Job) flows(s *Status, e Event, now time.Time) {
	v := s.standing()
	switch e.Kind {
	case EventAdmit:
		v.Held, v.Waived = slices.Clone(e.Keys), slices.Clone(e.Waived)
		v.Gate, v.CalledAt = "", time.Time{}
	case EventPark:
		v.Gate, v.CalledAt = e.Key, time.Time{}
		s.unclaim()
		s.hold(e.At, now, cut("waits for key "+e.Key, MaxStep), e.By)
	case EventDefer:
		s.unclaim()
		s.hold(e.At, now, e.Error, e.By)
	case EventCall:
		v.CalledAt = now
		s.State, s.RunAt, s.Reason = Pending, j.since(), ""
		s.log(now, "key "+cut(e.Key, MaxKey)+" is free", e.By)
	case EventStandBy:
		s.State, s.RunAt = Scheduled, e.At
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
		v.Cause = e.Other
		s.end(j, Cancelled, now, e.Error, e.By)
	case EventRevive:
		v.Cause = NilID
		s.FinishedAt, s.PurgeAt = time.Time{}, time.Time{}
		s.State = Blocked
		s.block(now, blockedByNeeds(v.NeedsLeft), e.By)
	case EventNeeded:
		v.Needed = true
	case EventCollapse:
		v.Survivor = e.Other
		s.end(j, Collapsed, now, "replaced by "+e.Other.String(), e.By)
	case EventSkip:
		s.Outcome = OutcomeOK
		s.end(j, Succeeded, now, "nothing to run", e.By)
	}
	s.stand(v)
}

// settleStanding takes back what does not outlast the change of state.
func (s *Status) settleStanding(e Event, now time.Time) {
	v := s.standing()
	if !s.State.Owned() {
		v.Held = nil
	}
	if s.State.Terminal() {
		v.Gate, v.CalledAt, v.Waived = "", time.Time{}, nil
	}
	if e.Kind == EventRetry {
		v.Waived = nil
		if v.NeedsLeft > 0 {
			v.Cause = NilID
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
