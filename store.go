package haulier

import (
	"context"
	"time"
)

// Store keeps small records and their order. It knows nothing of retries,
// leases' consequences, workflows or schedules: the engine decides, the store
// makes the decision durable, atomically.
//
// All methods are safe for concurrent use. They return ErrUnavailable when the
// store is closed or can't be reached, and ErrCorrupt when what they read does
// not decode. A context that ends abandons the wait, not necessarily the work.
//
// A job stands in exactly one index, the one of its state:
//
//	pending             ready     by lane and priority, then RunAt, then id
//	scheduled           timers    by RunAt, then id
//	claimed, running    owned     by session, then id
//	blocked             waiting   by id
//	terminal            done      by state and lane, then PurgeAt, then id
type Store interface {
	// Commit makes all writes of the batch, or none. ErrConflict: an expected
	// revision did not hold. What it wrote is visible when it returns, and
	// survives the death of the process; with Batch.Sync it also survives power
	// loss, as far as the store was opened for that.
	Commit(ctx context.Context, b *Batch) error

	// Claim moves the first jobs of each take's band to the session, in one step
	// a take, by EventClaim of Job.Next, and returns them in order of the takes.
	// It is not synced. Fewer jobs than asked for is no error. A take that
	// is refused because the session does not exist returns ErrLeaseLost.
	Claim(ctx context.Context, session ID, by string, takes []Take) ([]Job, error)

	// Bands returns each band with pending jobs, in no order. Its cost grows with
	// the number of bands, not of jobs.
	Bands(ctx context.Context) ([]BandHead, error)

	// Due returns work whose time has come by the store's clock: at most limit
	// of each kind, the earliest first.
	Due(ctx context.Context, limit int) (Due, error)

	// Jobs returns the jobs with the given ids, in that order; those that do not
	// exist are nil. What was returned may be shared: callers must not change it.
	Jobs(ctx context.Context, ids []ID) ([]*Job, error)

	// List returns a page of jobs.
	List(ctx context.Context, q Query) (Page, error)

	// Counts returns the number of jobs by lane and state, as kept by the commits;
	// zero counts may be left out.
	Counts(ctx context.Context) ([]Count, error)

	// Doc returns a document. ErrNotFound: there is none of that kind and key.
	Doc(ctx context.Context, kind DocKind, key string) (Doc, error)

	// Docs returns up to limit documents of a kind whose key has the prefix and
	// sorts after the given one ("" for the first), in order of their keys' bytes.
	Docs(ctx context.Context, kind DocKind, prefix, after string, limit int) ([]Doc, error)

	// Renew sets the lease of a session: it expires when ttl has passed on the
	// store's clock, which may be sooner than before. ErrLeaseLost: there is no such session. Leases begin
	// with the Commit of the session's document (Doc.Lease) and restart in full
	// when a store that keeps them in memory is opened again.
	Renew(ctx context.Context, session ID, ttl time.Duration) error

	// Watch registers f and returns; until ctx ends, f is called for every commit
	// and claim with the changes that it made, after they are visible and before
	// the call that made them returns to its caller. f must not block and must not
	// call the store. The changes of one job come in order of its revisions. With several servers over one store, f also hears of the others'.
	Watch(ctx context.Context, f func([]JobChange))

	// Now is the store's clock. Leases and timers run on it.
	Now(ctx context.Context) (time.Time, error)

	// Opened says how the store was found; see Opening.
	Opened() Opening

	// Close waits for calls under way and syncs what was written.
	Close() error
}

// Opening is how a store was found when it was opened.
type Opening struct {
	// ClaimsLost: unsynced claims may be gone, since the store was not closed
	// cleanly and the machine has booted since.
	ClaimsLost bool
	// Shared: other servers may work over the same store.
	Shared bool
}

// Batch is a set of writes that happen together or not at all.
type Batch struct {
	Insert []Job       // new jobs; their ids must be new (ErrConflict), which only CheckIDs makes the store verify
	Update []JobUpdate // changes of status
	Delete []JobDelete // removals
	Docs   []DocWrite
	// CheckIDs makes Insert verify that its ids are new. Ids which the server just made need no look.
	CheckIDs bool
	// Sync: the batch must survive power loss before Commit returns.
	Sync bool
	// Tell: those who watch are told of a JobChange without Spec, for they keep in mind what Docs change.
	Tell bool
}

// JobUpdate replaces a job's status. Spec is the job's own, unchanged; Expect is the Rev before.
type JobUpdate struct {
	Spec   *Spec
	Expect uint64
	Status Status
}

// JobDelete removes a job whose Rev is Expect.
type JobDelete struct {
	ID     ID
	Expect uint64
}

// DocKind is a kind of document.
type DocKind string

// The kinds of document that the foundation keeps. Keys are unique within a kind.
const (
	DocSession DocKind = "session" // key: session id; has a Lease
	DocQueue   DocKind = "queue"   // key: tenant/queue; paused and its settings
	DocToken   DocKind = "token"   // key: token id
	DocRequest DocKind = "request" // key: tenant/idempotency key; the ids that were answered
	DocWork    DocKind = "work"    // key: id; what remains of a change that spans many commits
	DocLog     DocKind = "log"     // key: job id/attempt/offset; output of a job, or the address of the blob that it became
	DocBlob    DocKind = "blob"    // key: tenant/address; where a blob is
	DocBlobRef DocKind = "blobref" // key: tenant/address/holder; a job's or fileset's hold on a blob
	DocCopy    DocKind = "copy"    // key: copy; how far a copy into this store has come. While it is there the store is not whole
)

// CopyKey is the key of the one document of kind DocCopy.
const CopyKey = "copy"

// Doc is a document: bytes of at most MaxDoc under a kind and key. Rev grows by one with each write.
type Doc struct {
	Kind  DocKind
	Key   string
	Rev   uint64
	Value []byte
}

// MaxDoc is the most bytes of a document's value.
const MaxDoc = 256 << 10

// AnyRev as the expectation of a write: whatever is there, also nothing.
const AnyRev = ^uint64(0)

// DocWrite writes a document when its Rev is Expect: 0 when there must be none, or AnyRev.
type DocWrite struct {
	Kind   DocKind
	Key    string
	Expect uint64
	Value  []byte // nil removes it; an empty one is a value
	// Lease of a session's document: its session expires when this has passed.
	Lease time.Duration
}

// Band is what orders by time alone: the pending jobs of one lane with one priority.
type Band struct {
	Lane     Lane
	Priority int
}

// BandHead is a band with pending jobs.
type BandHead struct {
	Band
	N     int64     // jobs that wait
	Since time.Time // RunAt of the first of them, or an earlier bound
}

// Take asks for the first N jobs of a band.
type Take struct {
	Band
	N int
}

// Due is work whose time has come.
type Due struct {
	Timers   []ID // scheduled jobs whose RunAt has passed
	Sessions []ID // sessions that have expired
	Purge    []ID // terminal jobs whose PurgeAt has passed
	// Next is when the next timer, lease or purge falls due, or an earlier time, never a later one; zero: none in sight.
	Next time.Time
}

// Query asks for a page of jobs. Of the selectors one holds: Session, or State, or all jobs.
type Query struct {
	Session ID     // jobs that belong to it, by id
	State   State  // jobs of one state, in the order of its index, terminal ones the newest first; Lanes holds
	Lanes   []Lane // with State: of these lanes only, one after the other; nil: all lanes
	Tenant  string // without State: of this tenant only ("" for all), the newest first by id
	Cursor  string // Page.Next of the page before; "" for the first
	Limit   int    // at most this many jobs, from 1 to 1000
	Max     int    // look at no more than this many index entries; 0: 10 times Limit
}

// Page of jobs. Next is "" after the last page; a page may be short, even empty, when more follow.
type Page struct {
	Jobs []*Job
	Next string
}

// Count is the number of jobs of a lane in a state.
type Count struct {
	Lane
	State State `json:"state"`
	N     int64 `json:"n"`
}

// JobChange tells of a job that a commit inserted, changed or removed, or of a batch with Tell.
type JobChange struct {
	Spec   *Spec  // nil: a batch with Tell was committed; the rest is zero
	Before State  // zero: it is new
	Status Status // State zero: it was removed
}
