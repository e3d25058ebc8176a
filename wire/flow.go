package wire

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/haulier/haulier"
)

// Fields of a Flow.
const (
	flowRef protowire.Number = iota + 1
	flowNeed
	flowHolds
	flowYield
	flowUnique
	flowCollapse
	flowLimits
	flowThen
	flowSignal
	flowWindows
	flowForce
	flowChain
	flowBatch
	flowNotify
	flowMemo
)

func appendFlow(b []byte, w *haulier.Flow) []byte {
	b, mark := open(b, specFlow)
	b = putText(b, flowRef, w.Ref)
	for i := range w.Needs {
		b = appendNeed(b, &w.Needs[i])
	}
	for _, k := range w.Holds {
		b = putItem(b, flowHolds, k)
	}
	for i := range w.YieldsTo {
		y := &w.YieldsTo[i]
		var m int
		b, m = open(b, flowYield)
		b = putInt(putInt(putText(b, 1, y.Key), 2, y.Below), 3, y.For)
		b = shut(b, m)
	}
	if w.Unique != nil {
		b = appendUnique(b, w.Unique)
	}
	b = putText(b, flowCollapse, w.Collapse)
	for _, k := range w.Limits {
		b = putItem(b, flowLimits, k)
	}
	b = putText(b, flowThen, w.Then)
	b = putText(b, flowSignal, w.Signal)
	for _, k := range w.Windows {
		b = putItem(b, flowWindows, k)
	}
	b = putBool(b, flowForce, w.Force)
	b = putBool(b, flowChain, w.Chain)
	b = putID(b, flowBatch, w.Batch)
	for i := range w.Notify {
		n := &w.Notify[i]
		var m int
		b, m = open(b, flowNotify)
		b = putText(putText(putText(b, 1, n.URL), 2, n.On), 3, n.Secret)
		b = shut(b, m)
	}
	if w.Memo != nil {
		var m int
		b, m = open(b, flowMemo)
		b = shut(putBool(putInt(b, 1, w.Memo.MaxAge), 2, w.Memo.Fresh), m)
	}
	return shut(b, mark)
}

func appendNeed(b []byte, n *haulier.Need) []byte {
	b, mark := open(b, flowNeed)
	b = putText(putText(putID(b, 1, n.Job), 2, n.Ref), 3, n.On)
	return shut(b, mark)
}

func appendUnique(b []byte, u *haulier.Unique) []byte {
	b, mark := open(b, flowUnique)
	b = putText(b, 1, u.Key)
	for _, name := range u.Fields {
		b = putItem(b, 2, name)
	}
	b = putText(b, 3, u.Scope)
	b = putInt(b, 4, u.For)
	b = putText(b, 5, u.Duplicate)
	return shut(b, mark)
}

func (f *fields) flow() *haulier.Flow {
	w := new(haulier.Flow)
	e := fields{rest: f.bytes()}
	for e.next() {
		switch e.num {
		case flowRef:
			w.Ref = e.text()
		case flowNeed:
			w.Needs = more(&e, w.Needs, e.need(), maxItems)
		case flowHolds:
			w.Holds = more(&e, w.Holds, e.name(), maxItems)
		case flowYield:
			w.YieldsTo = more(&e, w.YieldsTo, e.yield(), maxItems)
		case flowUnique:
			w.Unique = e.unique()
		case flowCollapse:
			w.Collapse = e.text()
		case flowLimits:
			w.Limits = more(&e, w.Limits, e.name(), maxItems)
		case flowThen:
			w.Then = e.name()
		case flowSignal:
			w.Signal = e.name()
		case flowWindows:
			w.Windows = append(w.Windows, e.name())
		case flowForce:
			w.Force = e.bool()
		case flowChain:
			w.Chain = e.bool()
		case flowBatch:
			w.Batch = e.id()
		case flowNotify:
			w.Notify = more(&e, w.Notify, e.notify(), maxItems)
		case flowMemo:
			w.Memo = e.memo()
		}
	}
	f.take(e.bad)
	return w
}

func (f *fields) memo() *haulier.Memo {
	m := new(haulier.Memo)
	e := fields{rest: f.bytes()}
	for e.next() {
		switch e.num {
		case 1:
			m.MaxAge = e.duration()
		case 2:
			m.Fresh = e.bool()
		}
	}
	f.take(e.bad)
	return m
}

func (f *fields) notify() (n haulier.Notify) {
	e := fields{rest: f.bytes()}
	for e.next() {
		switch e.num {
		case 1:
			n.URL = e.text()
		case 2:
			n.On = haulier.Condition(e.name())
		case 3:
			n.Secret = e.name()
		}
	}
	f.take(e.bad)
	return n
}

func (f *fields) need() (n haulier.Need) {
	e := fields{rest: f.bytes()}
	for e.next() {
		switch e.num {
		case 1:
			n.Job = e.id()
		case 2:
			n.Ref = e.text()
		case 3:
			n.On = haulier.Condition(e.name())
		}
	}
	f.take(e.bad)
	return n
}

func (f *fields) yield() (y haulier.Yield) {
	e := fields{rest: f.bytes()}
	for e.next() {
		switch e.num {
		case 1:
			y.Key = e.name()
		case 2:
			y.Below = e.int()
		case 3:
			y.For = e.duration()
		}
	}
	f.take(e.bad)
	return y
}

func (f *fields) unique() *haulier.Unique {
	u := new(haulier.Unique)
	e := fields{rest: f.bytes()}
	for e.next() {
		switch e.num {
		case 1:
			u.Key = e.text()
		case 2:
			u.Fields = more(&e, u.Fields, e.name(), maxItems)
		case 3:
			u.Scope = haulier.UniqueScope(e.name())
		case 4:
			u.For = e.duration()
		case 5:
			u.Duplicate = haulier.Duplicate(e.name())
		}
	}
	f.take(e.bad)
	return u
}

// Fields of a Standing.
const (
	standNeedsLeft protowire.Number = iota + 1
	standNeeded
	standGate
	standCalledAt
	standHeld
	standWaived
	standSurvivor
	standCause
	standBarred
	standSince
	standFrozen
	standForced
	standMemoOf
)

func appendStanding(b []byte, s *haulier.Standing) []byte {
	b, mark := open(b, statusStanding)
	b = putInt(b, standNeedsLeft, s.NeedsLeft)
	b = putBool(b, standNeeded, s.Needed)
	b = putText(b, standGate, s.Gate)
	b = putTime(b, standCalledAt, s.CalledAt)
	for _, k := range s.Held {
		b = putItem(b, standHeld, k)
	}
	for _, k := range s.Waived {
		b = putItem(b, standWaived, k)
	}
	b = putID(b, standSurvivor, s.Survivor)
	b = putID(b, standCause, s.Cause)
	b = putInt(b, standBarred, s.Barred)
	b = putTime(b, standSince, s.Since)
	b = putText(b, standFrozen, s.Frozen)
	b = putBool(b, standForced, s.Forced)
	b = putID(b, standMemoOf, s.MemoOf)
	return shut(b, mark)
}

func (f *fields) standing() *haulier.Standing {
	s := new(haulier.Standing)
	e := fields{rest: f.bytes()}
	for e.next() {
		switch e.num {
		case standNeedsLeft:
			s.NeedsLeft = e.int()
		case standNeeded:
			s.Needed = e.bool()
		case standGate:
			s.Gate = e.name()
		case standCalledAt:
			s.CalledAt = e.time()
		case standHeld:
			s.Held = more(&e, s.Held, e.name(), maxItems)
		case standWaived:
			s.Waived = more(&e, s.Waived, e.name(), maxItems)
		case standMemoOf:
			s.MemoOf = e.id()
		case standSurvivor:
			s.Survivor = e.id()
		case standCause:
			s.Cause = e.id()
		case standBarred:
			s.Barred = e.int()
		case standSince:
			s.Since = e.time()
		case standFrozen:
			s.Frozen = e.name()
		case standForced:
			s.Forced = e.bool()
		}
	}
	f.take(e.bad)
	return s
}
