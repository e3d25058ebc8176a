package haulier

import (
	"encoding/json"
	"time"
)

// Bounds of a job's flow.
const (
	MaxNeeds    = MaxBatch // jobs that one job may wait for
	MaxKeys     = 16       // keys that a job may hold, yield to or be limited by
	MaxKey      = 200      // bytes of a key
	MaxYieldFor = 365 * 24 * time.Hour
)

// Flow is what a job asks for beside its time: which jobs come before it, which
// keys it holds or yields to while it runs, and what becomes of others like it.
// A job without any of it has no Flow, and costs nothing for it.
type Flow struct {
	// Ref names the job among those of its request, where Need.Ref speaks of it. A
	// job that needs it finds its result under this name.
	Ref string `json:"ref,omitempty"`
	// Needs are the jobs that must end before this one may start.
	Needs []Need `json:"needs,omitempty"`
	// Holds are the keys that the job holds from its start to its end.
	Holds []string `json:"holds,omitempty"`
	// YieldsTo are keys for which it waits while too many hold them.
	YieldsTo []Yield `json:"yields_to,omitempty"`
	// Unique keeps out other jobs of the same key.
	Unique *Unique `json:"unique,omitempty"`
	// Collapse is a key: a newer job of the same key replaces those that still wait.
	Collapse string `json:"collapse,omitempty"`
	// Limits are keys with a rate or a number of running jobs set by the operator.
	Limits []string `json:"limits,omitempty"`
	// Then is the type of a job that is enqueued, with the result as its payload, when this one succeeds.
	Then string `json:"then,omitempty"`
	// Notify are addresses that are told of the job's end, each by a job of its own that the end brings with it.
	Notify []Notify `json:"notify,omitempty"`
	// Signal is the event that is posted, with the result as its payload, when this one succeeds: it starts the workflows that wait for it.
	Signal string `json:"signal,omitempty"`
	// Batch is the batch that the job is one of.
	Batch ID `json:"batch,omitzero"`
	// Chain makes a job of each line of standard output that begins with "J: " and goes on with type|payload, in the tenant and queue of this one.
	Chain bool `json:"chain,omitempty"`
	// Windows name windows that the job keeps to, besides those of its queue and type.
	Windows []string `json:"windows,omitempty"`
	// Force starts the job in spite of all windows.
	Force bool `json:"force,omitempty"`
	// Memo lets an earlier job's result stand for this one's; nil: it runs.
	Memo *Memo `json:"memo,omitempty"`
}

// Memo lets a job that may start at once end at its enqueue, without running, by the result of the newest job that succeeded with Memo set and is alike: of the same
// tenant, type, task and payload. It is for jobs without files and needs. Results that are blobs do not count.
type Memo struct {
	MaxAge Duration `json:"max_age,omitzero"` // of that success; zero: as long as the job is kept
	Fresh  bool     `json:"fresh,omitempty"`  // run all the same, and stand for later ones
}

// Notify is an address that is told of a job's end, by a POST with what became of it.
type Notify struct {
	URL    string    `json:"url"`
	On     Condition `json:"on,omitempty"`     // finished unless said
	Secret string    `json:"secret,omitempty"` // name of the one that signs; see Gatekeeper
}

// Where notifications are delivered.
const (
	MaxNotify     = 4          // of a job
	DeliveryQueue = "webhooks" // queue of the jobs that deliver them
	DeliveryType  = "webhook"  // their type
)

// Need is a job that must end first, named by Job or by the Ref of one in the same request.
type Need struct {
	Job ID        `json:"job,omitzero"`
	Ref string    `json:"ref,omitempty"`
	On  Condition `json:"on,omitempty"` // succeeded unless said
}

// Condition says which end of a job serves those that need it.
type Condition string

// The conditions. A job that ends otherwise for good cancels those that need it.
const (
	OnSucceeded Condition = "succeeded"
	OnFailed    Condition = "failed" // or cancelled
	OnFinished  Condition = "finished"
)

// Valid reports whether c is one of the three, or left out.
func (c Condition) Valid() bool {
	return c == "" || c == OnSucceeded || c == OnFailed || c == OnFinished
}

// Met reports whether the end state s serves the condition.
func (c Condition) Met(s State) bool {
	switch c {
	case OnFinished:
		return s.Terminal()
	case OnFailed:
		return s == Failed || s == Cancelled
	}
	return s == Succeeded
}

// Yield makes a job wait while Below or more jobs hold Key.
type Yield struct {
	Key   string `json:"key"`
	Below int    `json:"below,omitempty"` // 1 unless said
	// For is how long the job waits once it found a key taken; then it starts in spite of this one. Zero: for ever.
	For Duration `json:"for,omitzero"`
}

// Bound is Below or its default.
func (y *Yield) Bound() int { return max(y.Below, 1) }

// Unique keeps jobs of the same key from being in the queue twice. The key is
// given, or made of the job's type and the named fields of its JSON payload.
type Unique struct {
	Key    string   `json:"key,omitempty"`
	Fields []string `json:"fields,omitempty"` // of the payload's top level; none: all of it
	// Scope is how long a job keeps others out; pending unless said.
	Scope UniqueScope `json:"scope,omitempty"`
	// For is the length of UniquePeriod, from the enqueue.
	For Duration `json:"for,omitzero"`
	// Duplicate is what becomes of a job that comes second; existing unless said.
	Duplicate Duplicate `json:"duplicate,omitempty"`
}

// UniqueScope is how long a job keeps out others of its key.
type UniqueScope string

// The scopes.
const (
	UniquePending UniqueScope = "pending" // until it starts; while it waits to run again, unless another took the key meanwhile
	UniqueActive  UniqueScope = "active"  // until it ends
	UniquePeriod  UniqueScope = "period"  // for Unique.For, for which it is also kept
	UniqueForever UniqueScope = "forever" // for as long as it is kept
)

// Duplicate is what becomes of a job whose key is taken.
type Duplicate string

// What becomes of duplicates.
const (
	DuplicateExisting Duplicate = "existing" // the enqueue answers the id of the job that is there
	DuplicateReject   Duplicate = "reject"   // the enqueue fails with ErrConflict
	DuplicateReplace  Duplicate = "replace"  // the one that is there is cancelled, unless it runs: then as existing
)

// Standing is how a job stands in its flow. It is never changed in place.
type Standing struct {
	NeedsLeft int       `json:"needs_left,omitempty"` // needed jobs that have not ended as they should
	Barred    int       `json:"barred,omitempty"`     // of these, the ones that have ended otherwise for good
	Needed    bool      `json:"needed,omitempty"`     // other jobs need this one, or did
	Gate      string    `json:"gate,omitempty"`       // key at which it waits, or from which it was called
	CalledAt  time.Time `json:"called_at,omitzero"`   // when Gate was freed for it
	Held      []string  `json:"held,omitempty"`       // keys that it holds now
	Waived    []string  `json:"waived,omitempty"`     // keys it does not wait for any more
	Frozen    string    `json:"frozen,omitempty"`     // window that keeps it from starting until its time
	Forced    bool      `json:"forced,omitempty"`     // it starts in spite of windows
	Since     time.Time `json:"since,omitzero"`       // when it began to wait for keys
	Survivor  ID        `json:"survivor,omitzero"`    // newer job that replaced it
	Cause     ID        `json:"cause,omitzero"`       // needed job whose end cancelled it
	MemoOf    ID        `json:"memo_of,omitzero"`     // job whose result it took without running
}

// Gated reports whether the job must be looked at when it is claimed.
func (f *Flow) Gated() bool {
	return f != nil && (len(f.Holds) > 0 || len(f.YieldsTo) > 0 || len(f.Limits) > 0 || len(f.Windows) > 0)
}

// Standing is a copy of how the job stands in its flow, to be changed and stored again.
func (s *Status) standing() Standing {
	if s.Standing == nil {
		return Standing{}
	}
	return *s.Standing
}

// stand replaces the standing; one that says nothing is left out.
func (s *Status) stand(v Standing) {
	s.Standing = &v
	if v.NeedsLeft == 0 && v.Barred == 0 && !v.Needed && v.Gate == "" && v.CalledAt.IsZero() && v.Since.IsZero() &&
		len(v.Held) == 0 && len(v.Waived) == 0 && v.Frozen == "" && !v.Forced && v.Survivor.IsNil() && v.Cause.IsNil() && v.MemoOf.IsNil() {
		s.Standing = nil
	}
}

// Waits reports whether the job has not started and has not ended.
func (s State) Waits() bool { return s >= Blocked && s <= Pending }

// Bound is how many others may hold the key when the job starts; ok is false when it does not yield to it.
func (f *Flow) Bound(key string) (n int, ok bool) {
	for i := range f.YieldsTo {
		if f.YieldsTo[i].Key == key && (!ok || f.YieldsTo[i].Bound() < n) {
			n, ok = f.YieldsTo[i].Bound(), true
		}
	}
	return n, ok
}

// Limit is what an operator sets for a key, that of a queue ("queue:" and its name)
// or of the tenant ("tenant:"). All zero: none.
type Limit struct {
	Running int      `json:"running,omitempty"` // at most this many hold the key at once; 0: any number
	Rate    int      `json:"rate,omitempty"`    // at most this many start in Per, evenly spread; 0: any number
	Per     Duration `json:"per,omitzero"`      // a second unless said
}

// KeyStanding is how a key with a limit stands.
type KeyStanding struct {
	Key string `json:"key"`
	Limit
	Held    int  `json:"held"`
	Holders []ID `json:"holders,omitempty"` // the first of them
	Waiting int  `json:"waiting"`
}

// MaxNeedResults is how many bytes of NeedResult.Result a claim brings for one job; further results are left out.
const MaxNeedResults = 1 << 20

// NeedResult is what became of a job that another one needs.
type NeedResult struct {
	Ref    string // its name: that by which it is needed, or else its own
	Job    ID
	State  State
	Result []byte
	Output string // the fileset that it left, as name@version; "": none
}

// needResultJSON is a NeedResult as JSON, with the result as the JSON that it is, or as base64.
type needResultJSON struct {
	Ref         string          `json:"ref,omitempty"`
	Job         ID              `json:"job"`
	State       State           `json:"state"`
	Result      json.RawMessage `json:"result,omitempty"`
	ResultBytes []byte          `json:"result_bytes,omitempty"`
	Output      string          `json:"output,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (r NeedResult) MarshalJSON() ([]byte, error) {
	v := needResultJSON{Ref: r.Ref, Job: r.Job, State: r.State, Output: r.Output}
	v.Result, v.ResultBytes = splitJSON(r.Result)
	return json.Marshal(v)
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *NeedResult) UnmarshalJSON(b []byte) error {
	var v needResultJSON
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*r = NeedResult{Ref: v.Ref, Job: v.Job, State: v.State, Output: v.Output, Result: joinJSON(v.Result, v.ResultBytes)}
	return nil
}

// NeedResult is the result of the needed job of that name; ok is false when the claim brought none.
func (j *Job) NeedResult(ref string) (result []byte, ok bool) {
	for i := range j.Results {
		if j.Results[i].Ref == ref {
			return j.Results[i].Result, true
		}
	}
	return nil, false
}
