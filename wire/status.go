package wire

import (
	"bytes"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/haulier/haulier"
)

// Fields of a Status. The times but UpdatedAt are relative to it, those of the
// history each to the one before and the first to UpdatedAt.
const (
	statusRev protowire.Number = iota + 1
	statusState
	statusUpdatedAt
	statusRunAt
	statusAttempt
	statusSession
	statusWorker
	statusStartedAt
	statusFinishedAt
	statusPurgeAt
	statusChange
	statusOutcome
	statusCode
	statusResult
	statusReason
	statusSpared
	statusCrashes
	statusCancelling
	statusPercent
	statusStep
	statusError
	statusLogBlob
	statusLogSize
	statusHistoryCut
	statusStanding
	statusOutputVersion
	statusAccount
	statusResultBlob
)

// AppendStatus appends s.
func AppendStatus(b []byte, s *haulier.Status) []byte {
	var base int64
	if !s.UpdatedAt.IsZero() {
		base = s.UpdatedAt.UnixMicro()
	}
	b = putUint(b, statusRev, s.Rev)
	b = putUint(b, statusState, uint64(s.State))
	b = putTime(b, statusUpdatedAt, s.UpdatedAt)
	b = putSince(b, statusRunAt, s.RunAt, base)
	b = putInt(b, statusAttempt, s.Attempt)
	b = putID(b, statusSession, s.Session)
	b = putText(b, statusWorker, s.Worker)
	b = putSince(b, statusStartedAt, s.StartedAt, base)
	b = putSince(b, statusFinishedAt, s.FinishedAt, base)
	b = putSince(b, statusPurgeAt, s.PurgeAt, base)
	b = appendHistory(b, s.History, base)
	b = putText(b, statusOutcome, s.Outcome)
	b = putInt(b, statusCode, s.Code)
	b = putText(b, statusResult, s.Result)
	b = putText(b, statusReason, s.Reason)
	b = putInt(b, statusSpared, s.Spared)
	b = putInt(b, statusCrashes, s.Crashes)
	b = putBool(b, statusCancelling, s.Cancelling)
	b = putFloat(b, statusPercent, s.Percent)
	b = putText(b, statusStep, s.Step)
	b = putText(b, statusError, s.Error)
	b = putText(b, statusLogBlob, s.LogBlob)
	b = putInt(b, statusLogSize, s.LogSize)
	b = putInt(b, statusHistoryCut, s.HistoryCut)
	b = putInt(b, statusOutputVersion, s.OutputVersion)
	b = appendAccount(b, statusAccount, s.Account)
	b = putText(b, statusResultBlob, s.ResultBlob)
	if s.Standing != nil {
		b = appendStanding(b, s.Standing)
	}
	return b
}

func appendAccount(b []byte, num protowire.Number, a *haulier.Account) []byte {
	if a == nil {
		return b
	}
	b, mark := open(b, num)
	b = putInt(putInt(b, 1, a.CPU), 2, a.MaxMemory)
	b = putInt(putInt(b, 3, a.Read), 4, a.Written)
	b = putInt(putInt(b, 5, a.Received), 6, a.Sent)
	return shut(putText(b, 7, a.Container), mark)
}

func (f *fields) account() *haulier.Account {
	a := new(haulier.Account)
	e := fields{rest: f.bytes()}
	for e.next() {
		switch e.num {
		case 1:
			a.CPU = e.duration()
		case 2:
			a.MaxMemory = e.int64()
		case 3:
			a.Read = e.int64()
		case 4:
			a.Written = e.int64()
		case 5:
			a.Received = e.int64()
		case 6:
			a.Sent = e.int64()
		case 7:
			a.Container = bytes.Clone(e.bytes())
		}
	}
	f.take(e.bad)
	return a
}

func appendHistory(b []byte, history []haulier.Change, base int64) []byte {
	for i := range history {
		c := &history[i]
		var mark int
		b, mark = open(b, statusChange)
		if !c.At.IsZero() {
			at := c.At.UnixMicro()
			b = putMicros(b, 1, at-base)
			base = at
		}
		b = putUint(b, 2, uint64(c.State))
		b = putText(b, 3, c.Step)
		b = putText(b, 4, c.By)
		b = shut(b, mark)
	}
	return b
}

// ParseStatus is the reverse of AppendStatus. Its result shares memory with b.
func ParseStatus(b []byte) (haulier.Status, error) {
	var s haulier.Status
	err := ReadStatus(b, &s)
	return s, err
}

// relative times wait for the end of the message, where their base is known.
type relative struct {
	us int64
	to *time.Time
}

// ReadStatus is ParseStatus into a status that was zero. After an error its content is of no use.
func ReadStatus(b []byte, s *haulier.Status) error {
	var later [4]relative
	times := later[:0]
	var changes [haulier.MaxHistory]int64
	deltas := changes[:0]
	f := fields{rest: b}
	for f.next() {
		switch f.num {
		case statusRev:
			s.Rev = f.uint()
		case statusState:
			s.State = f.state()
		case statusUpdatedAt:
			s.UpdatedAt = f.time()
		case statusRunAt:
			times = append(times, relative{f.int64(), &s.RunAt})
		case statusStartedAt:
			times = append(times, relative{f.int64(), &s.StartedAt})
		case statusFinishedAt:
			times = append(times, relative{f.int64(), &s.FinishedAt})
		case statusPurgeAt:
			times = append(times, relative{f.int64(), &s.PurgeAt})
		case statusChange:
			if s.History == nil {
				s.History = make([]haulier.Change, 0, 1+countChanges(f.rest))
			}
			c, delta := f.change()
			s.History = more(&f, s.History, c, maxHistory)
			deltas = append(deltas, delta)
		case statusAttempt:
			s.Attempt = f.int()
		case statusSession:
			s.Session = f.id()
		case statusWorker:
			s.Worker = f.name()
		default:
			f.statusEnd(s)
		}
	}
	var base int64
	if !s.UpdatedAt.IsZero() {
		base = s.UpdatedAt.UnixMicro()
	}
	for _, t := range times {
		*t.to = f.timeSince(t.us, base)
	}
	for i := range s.History {
		if deltas[i] == noTime || f.bad != nil {
			continue
		}
		s.History[i].At = f.timeSince(deltas[i], base)
		base += deltas[i]
	}
	return f.err("status")
}

// statusEnd reads the fields of how an attempt goes and ended.
func (f *fields) statusEnd(s *haulier.Status) {
	switch f.num {
	case statusOutcome:
		s.Outcome = haulier.Outcome(f.name())
	case statusCode:
		s.Code = f.int()
	case statusResult:
		s.Result = f.bytes()
	case statusReason:
		s.Reason = f.name()
	case statusSpared:
		s.Spared = f.int()
	case statusCrashes:
		s.Crashes = f.int()
	case statusCancelling:
		s.Cancelling = f.bool()
	case statusPercent:
		s.Percent = f.float()
	case statusStep:
		s.Step = f.name()
	case statusError:
		s.Error = f.name()
	case statusLogBlob:
		s.LogBlob = f.text()
	case statusLogSize:
		s.LogSize = f.int64()
	case statusHistoryCut:
		s.HistoryCut = f.int()
	case statusOutputVersion:
		s.OutputVersion = f.int()
	case statusAccount:
		s.Account = f.account()
	case statusResultBlob:
		s.ResultBlob = f.text()
	case statusStanding:
		s.Standing = f.standing()
	}
}

func (f *fields) state() haulier.State {
	s := haulier.State(f.byte())
	if !s.Valid() {
		f.fail("no state")
	}
	return s
}

// noTime stands for a change without a time.
const noTime = -1 << 63

// change reads a change but for its time, which is returned as it stands there.
func (f *fields) change() (c haulier.Change, delta int64) {
	delta = noTime
	e := fields{rest: f.bytes()}
	for e.next() {
		switch e.num {
		case 1:
			delta = e.int64()
		case 2:
			c.State = e.state()
		case 3:
			c.Step = e.name()
		case 4:
			c.By = e.name()
		}
	}
	f.take(e.bad)
	return c, delta
}

// countChanges is how many changes follow at the start of b.
func countChanges(b []byte) (n int) {
	f := fields{rest: b}
	for f.next() && f.num == statusChange && n < haulier.MaxHistory {
		n++
	}
	return n
}
