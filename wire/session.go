package wire

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/haulier/haulier"
)

// Fields of a Session.
const (
	sessionID protowire.Number = iota + 1
	sessionWorker
	sessionTenant
	sessionQueue // entries of name (1) and weight (2)
	sessionKind
	sessionType
	sessionConcurrency
	sessionLease
	sessionHost
	sessionPID
	sessionVersion
	sessionLabel
	sessionStartedAt
	sessionSeenAt
	sessionConnected
	sessionDraining
	sessionJobs
	sessionAddress
	sessionLoad
	sessionHolding
	sessionLanguage
)

// AppendSession appends s.
func AppendSession(b []byte, s *haulier.Session) []byte {
	b = putID(b, sessionID, s.ID)
	b = putText(b, sessionWorker, s.Worker)
	for _, t := range s.Tenants {
		b = putItem(b, sessionTenant, t)
	}
	for _, q := range sortedKeys(s.Queues, nil) {
		var mark int
		b, mark = open(b, sessionQueue)
		b = putInt(putText(b, 1, q), 2, s.Queues[q])
		b = shut(b, mark)
	}
	for _, k := range s.Kinds {
		b = putItem(b, sessionKind, k)
	}
	for _, t := range s.Types {
		b = putItem(b, sessionType, t)
	}
	for _, l := range s.Languages {
		b = putItem(b, sessionLanguage, l)
	}
	b = putInt(b, sessionConcurrency, s.Concurrency)
	b = putInt(b, sessionLease, s.Lease)
	b = putText(b, sessionHost, s.Host)
	b = putInt(b, sessionPID, s.PID)
	b = putText(b, sessionVersion, s.Version)
	b = putMap(b, sessionLabel, s.Labels)
	b = putTime(b, sessionStartedAt, s.StartedAt)
	b = putTime(b, sessionSeenAt, s.SeenAt)
	b = putBool(b, sessionConnected, s.Connected)
	b = putBool(b, sessionDraining, s.Draining)
	b = putInt(b, sessionJobs, s.Jobs)
	for _, a := range s.Addresses {
		b = putItem(b, sessionAddress, a)
	}
	b = putLoad(b, sessionLoad, s.Load)
	for _, id := range s.Holding {
		b = putItem(b, sessionHolding, id[:])
	}
	return b
}

// ParseSession is the reverse of AppendSession.
func ParseSession(b []byte) (haulier.Session, error) {
	var s haulier.Session
	f := fields{rest: b}
	for f.next() {
		switch f.num {
		case sessionID:
			s.ID = f.id()
		case sessionWorker:
			s.Worker = f.name()
		case sessionTenant:
			s.Tenants = more(&f, s.Tenants, f.name(), maxItems)
		case sessionQueue:
			s.Queues = f.weight(s.Queues)
		case sessionKind:
			s.Kinds = more(&f, s.Kinds, haulier.Kind(f.name()), maxItems)
		case sessionType:
			s.Types = more(&f, s.Types, f.name(), maxItems)
		case sessionLanguage:
			s.Languages = more(&f, s.Languages, f.name(), maxItems)
		case sessionConcurrency:
			s.Concurrency = f.int()
		case sessionLease:
			s.Lease = f.duration()
		case sessionHost:
			s.Host = f.name()
		case sessionPID:
			s.PID = f.int()
		case sessionVersion:
			s.Version = f.name()
		case sessionLabel:
			s.Labels = f.entry(s.Labels)
		case sessionStartedAt:
			s.StartedAt = f.time()
		case sessionSeenAt:
			s.SeenAt = f.time()
		case sessionConnected:
			s.Connected = f.bool()
		case sessionDraining:
			s.Draining = f.bool()
		case sessionJobs:
			s.Jobs = f.int()
		case sessionAddress:
			s.Addresses = more(&f, s.Addresses, f.name(), maxItems)
		case sessionLoad:
			s.Load = f.load()
		case sessionHolding:
			s.Holding = more(&f, s.Holding, f.id(), maxItems)
		}
	}
	return s, f.err("session")
}

// A load is processors (1), memory in use (2) and memory (3).

func putLoad(b []byte, num protowire.Number, l *haulier.Load) []byte {
	if l == nil {
		return b
	}
	b, mark := open(b, num)
	b = putInt(putInt(putFloat(b, 1, l.CPU), 2, l.MemoryUsed), 3, l.MemoryTotal)
	return shut(b, mark)
}

func (f *fields) load() *haulier.Load {
	l := new(haulier.Load)
	e := fields{rest: f.bytes()}
	for e.next() {
		switch e.num {
		case 1:
			l.CPU = e.float()
		case 2:
			l.MemoryUsed = e.int64()
		case 3:
			l.MemoryTotal = e.int64()
		}
	}
	f.take(e.bad)
	return l
}

// weight adds the field, a queue and its weight, to m and returns m, made when it was nil.
func (f *fields) weight(m map[string]int) map[string]int {
	var queue string
	var weight int
	e := fields{rest: f.bytes()}
	for e.next() {
		switch e.num {
		case 1:
			queue = e.name()
		case 2:
			weight = e.int()
		}
	}
	f.take(e.bad)
	if m == nil {
		m = make(map[string]int, 4)
	}
	m[queue] = weight
	return m
}

// A ref is job (1) and attempt (2).

func putRefs(b []byte, num protowire.Number, refs []haulier.Ref) []byte {
	for _, r := range refs {
		var mark int
		b, mark = open(b, num)
		b = putInt(putID(b, 1, r.Job), 2, r.Attempt)
		b = shut(b, mark)
	}
	return b
}

func (f *fields) ref() (r haulier.Ref) {
	e := fields{rest: f.bytes()}
	for e.next() {
		switch e.num {
		case 1:
			r.Job = e.id()
		case 2:
			r.Attempt = e.int()
		}
	}
	f.take(e.bad)
	return r
}

// A renewal is session (1), wait (2), epoch (3), held (4), drain (5), settle (6), claims (7) and load (8).

// AppendRenewRequest appends r.
func AppendRenewRequest(b []byte, r *haulier.RenewRequest) []byte {
	b = putID(b, 1, r.Session)
	b = putInt(b, 2, r.Wait)
	b = putText(b, 3, r.Epoch)
	b = putRefs(b, 4, r.Held)
	b = putBool(b, 5, r.Drain)
	b = putBool(b, 6, r.Settle)
	return putLoad(putUint(b, 7, r.Claims), 8, r.Load)
}

// ParseRenewRequest is the reverse of AppendRenewRequest.
func ParseRenewRequest(b []byte) (haulier.RenewRequest, error) {
	var r haulier.RenewRequest
	f := fields{rest: b}
	for f.next() {
		switch f.num {
		case 1:
			r.Session = f.id()
		case 2:
			r.Wait = time.Duration(f.int64())
		case 3:
			r.Epoch = f.name()
		case 4:
			r.Held = more(&f, r.Held, f.ref(), maxItems)
		case 5:
			r.Drain = f.bool()
		case 6:
			r.Settle = f.bool()
		case 7:
			r.Claims = f.uint()
		case 8:
			r.Load = f.load()
		}
	}
	return r, f.err("renewal")
}

// The reply to a renewal is epoch (1), resend (2), cancel (3) and lost (4).

// AppendRenewReply appends r.
func AppendRenewReply(b []byte, r *haulier.RenewReply) []byte {
	b = putText(b, 1, r.Epoch)
	b = putBool(b, 2, r.Resend)
	b = putRefs(b, 3, r.Cancel)
	return putRefs(b, 4, r.Lost)
}

// ParseRenewReply is the reverse of AppendRenewReply.
func ParseRenewReply(b []byte) (haulier.RenewReply, error) {
	var r haulier.RenewReply
	f := fields{rest: b}
	for f.next() {
		switch f.num {
		case 1:
			r.Epoch = f.name()
		case 2:
			r.Resend = f.bool()
		case 3:
			r.Cancel = more(&f, r.Cancel, f.ref(), maxItems)
		case 4:
			r.Lost = more(&f, r.Lost, f.ref(), maxItems)
		}
	}
	return r, f.err("renewal's reply")
}

// A claim is session (1), n (2), wait (3) and number (4).

// AppendClaimRequest appends r.
func AppendClaimRequest(b []byte, r *haulier.ClaimRequest) []byte {
	b = putID(b, 1, r.Session)
	b = putInt(b, 2, r.N)
	b = putInt(b, 3, r.Wait)
	return putUint(b, 4, r.Number)
}

// ParseClaimRequest is the reverse of AppendClaimRequest.
func ParseClaimRequest(b []byte) (haulier.ClaimRequest, error) {
	var r haulier.ClaimRequest
	f := fields{rest: b}
	for f.next() {
		switch f.num {
		case 1:
			r.Session = f.id()
		case 2:
			r.N = f.int()
		case 3:
			r.Wait = time.Duration(f.int64())
		case 4:
			r.Number = f.uint()
		}
	}
	return r, f.err("claim")
}
