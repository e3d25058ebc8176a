package haulier

import (
	"context"
	"time"
)

// Queue is the whole service: the engine implements it over a store, the HTTP
// client over the network. All methods are safe for concurrent use. They fail
// with the errors of this package.
type Queue interface {
	Producer
	Consumer
	Operator
	Planner
	Workflows
	Handlers
	Batches
	Blobs
	Gatekeeper
}

// Producer is what programs that enqueue need.
type Producer interface {
	// Enqueue adds jobs. Each request is all or nothing and independent of the
	// others; results come in the order of the requests. An acknowledged
	// request is durable. The error is about the call as a whole: when it is not
	// nil, which requests were carried out is not known, and only those
	// with a Key may be repeated without fear of doubles.
	Enqueue(ctx context.Context, reqs []EnqueueRequest) ([]EnqueueResult, error)
}

// EnqueueRequest is a set of jobs that are added together or not at all.
//
// Of each Spec the zero fields take their defaults; ID (but see KeepIDs), CreatedAt
// and Parent are set by the engine. Payloads over MaxPayload become blobs.
type EnqueueRequest struct {
	Jobs []Spec
	// Key makes the request idempotent for a week, within the tenant of its first
	// job: repeated, it answers the ids of the first time. With other jobs, ErrConflict.
	Key string
	By  string // who asks, for the history; the server sets the token's name
	// KeepIDs: the jobs have the ids in their Specs, which NewID made, and which were told to others before, as a journal does. It needs a Key.
	// When the key is forgotten, jobs that are there in the same tenant still make the request a repeated one; in another, ErrConflict.
	KeepIDs bool
}

// EnqueueResult answers a request: the ids in the order of its jobs, or why nothing was added.
type EnqueueResult struct {
	IDs      []ID
	Repeated bool // the Key was known: nothing new was added
	// Existing are the places in IDs that jobs have which were there before and keep a unique key: nothing was added for them.
	Existing []int
	// Dropped are the jobs that a hook kept from being added, without an error; their places in IDs are NilID.
	Dropped []Dropped
	// Err is why nothing was added; or, when there are IDs, what a hook said after that.
	Err error
}

// Consumer is what workers need.
type Consumer interface {
	// OpenSession begins a session and returns it with its ID and limits filled
	// in. With an ID given it resumes that session, jobs and all, as a
	// worker does that takes over from one that was killed; ErrLeaseLost: it is gone.
	OpenSession(ctx context.Context, s Session) (Session, error)

	// Renew extends the lease and waits up to r.Wait for something to tell. When ctx is cancelled meanwhile, the
	// worker counts as cut off and its lease is shortened; not so when the cause is ErrUnavailable, as of a server that stops.
	Renew(ctx context.Context, r RenewRequest) (RenewReply, error)

	// CloseSession ends the session; what it still holds goes back to its lanes, not counted as tries.
	CloseSession(ctx context.Context, id ID) error

	// Claim takes up to r.N jobs, waiting up to r.Wait for the first of them. None is no error.
	Claim(ctx context.Context, r ClaimRequest) ([]Job, error)

	// Payload returns the payload of a job of the session whose Spec.Blob is set.
	Payload(ctx context.Context, session ID, ref Ref) ([]byte, error)

	// JobFiles returns what the working folder of a job of the session gets, and what is to be kept of it. ErrNotFound: an input is not there.
	JobFiles(ctx context.Context, session ID, ref Ref) (JobFiles, error)

	// AskHooks has the hooks called that Job.Hooked names, about an attempt of the session. What they say is in the answer, also that one
	// failed; the error is about the call. It may be called again.
	AskHooks(ctx context.Context, session ID, call HookCall) (HookAnswer, error)

	// Report tells what became of jobs of the session; one error a report, nil
	// when it was carried out. A report is durable when its error is nil.
	// Several reports about one job are carried out in order.
	Report(ctx context.Context, session ID, reports []Report) ([]error, error)
}

// RenewRequest renews a session.
type RenewRequest struct {
	Session ID
	// Wait is how long the reply may be held back while there is nothing to tell, at most half the lease.
	// While it is held, the worker counts as connected; when the
	// connection then breaks, the lease is shortened to a third.
	Wait time.Duration
	// Epoch is RenewReply.Epoch of the reply before, "" at first.
	Epoch string
	// Held are the jobs that the worker runs; needed when RenewReply.Resend asks for them.
	Held []Ref
	// Settle: Held is all that the worker holds, and no claim of its is under way. What the session has
	// besides goes back to its lanes: jobs of a claim whose answer never arrived, not counted as
	// tries, and, at the first time after it was resumed, what the former worker took with it, as lost.
	Settle bool
	// Claims, with Settle, is the Number of the newest claim that was made: claims up to it that
	// arrive later find nothing.
	Claims uint64
	// Drain: give no more jobs to this session.
	Drain bool
	// Load of the worker's machine; nil: not known.
	Load *Load
}

// RenewReply is the answer to a renewal.
type RenewReply struct {
	// Epoch names the run of the server. Resend is set when it is new and the
	// server may have lost claims: the worker sends Held at once.
	Epoch  string `json:"epoch"`
	Resend bool   `json:"resend,omitempty"`
	// Cancel lists jobs of the session whose cancellation was asked for. They are
	// repeated in every reply until the worker has acknowledged by a Report.
	Cancel []Ref `json:"cancel,omitempty"`
	// Lost lists what of Held is no longer the session's: stop it and report nothing.
	Lost []Ref `json:"lost,omitempty"`
}

// Ref names an attempt of a job.
type Ref struct {
	Job     ID  `json:"job"`
	Attempt int `json:"attempt"`
}

// ClaimRequest asks for jobs.
type ClaimRequest struct {
	Session ID
	N       int
	Wait    time.Duration // at most a minute
	// Number grows from claim to claim of a session, also when one worker follows another; see RenewRequest.Claims. Zero: not numbered.
	Number uint64
}

// ReportKind says what a Report tells.
type ReportKind uint8

// What a worker can tell of a job.
const (
	ReportStart    ReportKind = iota + 1 // it runs now
	ReportProgress                       // Percent, Step
	ReportLog                            // Log only
	ReportFinish                         // the attempt has ended
	ReportRelease                        // given back unfinished: drained, not runnable here, or to be run after Delay
	ReportAbort                          // a hook said that it is not to run: it ends cancelled
)

// Ends reports whether the kind is the last that is told of an attempt.
func (k ReportKind) Ends() bool { return k == ReportFinish || k == ReportRelease || k == ReportAbort }

// Report is what a worker tells of an attempt.
type Report struct {
	Ref
	Kind    ReportKind
	Outcome Outcome       // of Finish
	Code    int           // of Finish: exit code or status
	Error   string        // of Finish: why not ok; of Release, Abort: why
	Result  []byte        // of Finish; at most MaxResult
	Delay   time.Duration // of Finish with retry or error: wait this long instead of the back-off; of Release: before it may be claimed again
	Percent float64       // of Progress; negative: unchanged
	Step    string        // of Progress
	Output  string        // of Finish: address of the manifest of what the job's output is to be; "": none
	// ResultBlob of Finish is the address of the whole result, which must be there; "": Result is all, or the rest was not kept.
	ResultBlob string
	Account    *Account // of Finish; nil: nothing is known
	Then       []Spec   // of Finish with outcome ok: jobs to add in the same commit, in the job's tenant
	Log        []byte   // of any kind: output as log frames (see package joblog) from LogFrom on
	LogFrom    int64    // offset of Log in the attempt's output; what the server has already is dropped
}

// Operator is what people and their tools need.
type Operator interface {
	// Get returns the jobs; those that do not exist, or are not of the tenant, are nil.
	Get(ctx context.Context, tenant string, ids []ID) ([]*Job, error)
	// List returns a page of jobs.
	List(ctx context.Context, f Filter, cursor string, limit int) (Page, error)
	// Cancel, Retry and Delete change the selected jobs, and return how many they
	// changed. With ids, each that could not be changed is an error in the map.
	// Delete removes only jobs that have ended. By filter, a change that was begun is
	// completed even when the server dies on the way.
	Cancel(ctx context.Context, sel Selection, by, reason string) (Changed, error)
	Retry(ctx context.Context, sel Selection, by string) (Changed, error)
	Delete(ctx context.Context, sel Selection, by string) (Changed, error)
	// Force lets the selected jobs start in spite of windows.
	Force(ctx context.Context, sel Selection, by string) (Changed, error)
	// Why says in words what the job waits for, or why it ended as it did.
	Why(ctx context.Context, tenant string, id ID) (Explanation, error)
	// Wait returns the jobs when all of them have ended, or when ctx ends with its error.
	Wait(ctx context.Context, tenant string, ids []ID) ([]*Job, error)

	// Queues lists the queues of a tenant ("" for all) that have or had jobs or settings.
	Queues(ctx context.Context, tenant string) ([]QueueStatus, error)
	// PauseQueue stops (or resumes) claims from a queue. What runs goes on.
	PauseQueue(ctx context.Context, tenant, queue string, paused bool, by string) error
	// WeighQueue sets the share of a queue, from 1 to 100.
	WeighQueue(ctx context.Context, tenant, queue string, weight int, by string) error
	// SetLimit sets the limit of a key of a tenant, at once: that of a queue as "queue:" and its name, that of the
	// whole tenant as "tenant:". The zero limit takes it away.
	SetLimit(ctx context.Context, tenant, key string, l Limit) error
	// Limits lists the keys of a tenant that have a limit, and how they stand.
	Limits(ctx context.Context, tenant string) ([]KeyStanding, error)
	// Counts returns the kept numbers of jobs by lane and state; tenant "" for all.
	Counts(ctx context.Context, tenant string) ([]Count, error)
	// Outcomes returns how often attempts ended how, by queue and type; tenant "" for all. A server that
	// dies may lose the last ten seconds of them.
	Outcomes(ctx context.Context, tenant string) ([]OutcomeCount, error)
	// Sessions lists the live sessions that serve the tenant ("" for all).
	Sessions(ctx context.Context, tenant string) ([]Session, error)

	// Log returns output of an attempt, from an offset on.
	Log(ctx context.Context, r LogRequest) (LogChunk, error)
	// Events calls f for each change of a job that the filter selects, in order
	// for each job, until ctx ends or f fails. When the receiver is too slow, changes are left
	// out and the next event says so by Missed.
	Events(ctx context.Context, f Filter, fn func(JobEvent) error) error

	// CreateToken makes a token; its secret is returned this once and only its hash is kept.
	CreateToken(ctx context.Context, t Token) (Token, string, error)
	// Tokens lists the tokens of a tenant ("" for all), without their secrets.
	Tokens(ctx context.Context, tenant string) ([]Token, error)
	// RevokeToken ends a token at once. ErrNotFound: there is none of that tenant ("" for any).
	RevokeToken(ctx context.Context, tenant string, id ID) error
}

// Filter selects jobs; the zero value selects all. Fields are joined by "and".
type Filter struct {
	Tenant string            `json:"tenant,omitempty"` // "" for all tenants
	Queue  string            `json:"queue,omitempty"`
	Type   string            `json:"type,omitempty"`
	Group  string            `json:"group,omitempty"`
	States []State           `json:"states,omitempty"` // any of these
	Labels map[string]string `json:"labels,omitempty"` // all of these
}

// Selects reports whether the filter selects the job.
func (f *Filter) Selects(s *Spec, st State) bool {
	if f.Tenant != "" && f.Tenant != s.Tenant || f.Queue != "" && f.Queue != s.Queue ||
		f.Type != "" && f.Type != s.Type || f.Group != "" && f.Group != s.Group {
		return false
	}
	if len(f.States) > 0 && !contains(f.States, st) {
		return false
	}
	for k, v := range f.Labels {
		if got, ok := s.Labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// Selection is what Cancel, Retry and Delete work on: IDs within a tenant ("" for any), or else a filter.
type Selection struct {
	Tenant string
	IDs    []ID
	Filter *Filter
}

// Changed is the result of Cancel, Retry and Delete.
type Changed struct {
	N      int
	Errors map[ID]error // of a selection by ids
}

// Explanation says what a job waits for.
type Explanation struct {
	Job      ID        `json:"job"`
	State    State     `json:"state"`
	Since    time.Time `json:"since"`
	Reasons  []string  `json:"reasons"`           // in words, the most important first
	Expected time.Time `json:"expected,omitzero"` // when it can start at the earliest, where that is known
	Ahead    int64     `json:"ahead,omitempty"`   // pending jobs of its lane that come first
	Workers  int       `json:"workers"`           // live sessions that could run it
}

// LogRequest asks for output.
type LogRequest struct {
	Tenant  string
	Job     ID
	Attempt int   // 0: the newest
	From    int64 // offset in the attempt's output; negative: that many bytes before its end
	Max     int   // bytes at most; 0: 1 MiB
	Wait    bool  // block until there is output beyond From or the attempt has ended
}

// LogChunk is output of an attempt: log frames (see package joblog).
type LogChunk struct {
	Attempt int
	From    int64 // offset of Frames; beyond the asked one where the middle was cut
	Next    int64 // offset that follows
	Frames  []byte
	End     bool // the attempt has ended and this is the last of its output
}

// JobEvent is a change of a job, as the event stream tells it.
type JobEvent struct {
	Job     ID        `json:"job"`
	Tenant  string    `json:"tenant"`
	Queue   string    `json:"queue"`
	Type    string    `json:"type"`
	Group   string    `json:"group,omitempty"`
	State   State     `json:"state,omitzero"` // zero when the job was removed
	Removed bool      `json:"removed,omitempty"`
	Attempt int       `json:"attempt"`
	Percent float64   `json:"percent,omitempty"`
	Step    string    `json:"step,omitempty"`
	Outcome Outcome   `json:"outcome,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	At      time.Time `json:"at"`
	Missed  int       `json:"missed,omitempty"` // events left out before this one
}

// Role is what a token may do. Each role is for one kind of user; admin may do all.
type Role string

// The roles.
const (
	RoleAdmin    Role = "admin"    // everything, in its tenant; of tenant "*": everywhere
	RoleProducer Role = "producer" // enqueue, and read, cancel and retry
	RoleWorker   Role = "worker"   // sessions, claims and reports
	RoleViewer   Role = "viewer"   // read
)

// Roles lists the roles.
var Roles = []Role{RoleAdmin, RoleProducer, RoleWorker, RoleViewer}

// Token lets somebody in. Tenant "*" stands for all tenants.
type Token struct {
	ID        ID        `json:"id"`
	Name      string    `json:"name"`
	Role      Role      `json:"role"`
	Tenant    string    `json:"tenant"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// Authenticator tells who a bearer token's secret belongs to.
type Authenticator interface {
	// Authenticate returns the token. ErrUnauthenticated: unknown, revoked or expired.
	Authenticate(ctx context.Context, secret string) (Token, error)
}

// OutcomeCount is a number of attempts that ended in one way.
type OutcomeCount struct {
	Tenant  string  `json:"tenant"`
	Queue   string  `json:"queue"`
	Type    string  `json:"type"`
	Outcome Outcome `json:"outcome"`
	N       int64   `json:"n"`
}
