// Package redis keeps jobs and documents in a Redis that a team already operates, of version 7 or
// later, alone, behind Sentinel or as a Cluster. Any number of servers work over one.
//
// All keys begin with a prefix in braces, {haulier}: unless said, and so lie in one slot of a Cluster:
//
//	job:ID          string length of the spec, spec (package wire), payload
//	status:ID       string REV STATE PRIORITY SESSION LANE; then length of the status, status (package wire), result
//	jobs:TENANT     zset   jobs of a tenant, by id
//	tenants         set    those with jobs
//	ready:PRIO:LANE zset   pending ones of a band, by time and id
//	bands           set    PRIO:LANE of those that are not empty
//	scheduled       zset   by time and id
//	owned           zset   SESSION/ID of claimed and running ones
//	blocked         zset   by id
//	done:STATE:LANE zset   terminal ones, by time of removal and id
//	purge           zset   all terminal ones, by time of removal
//	counts          hash   number of jobs by STATE:LANE
//	doc:KIND        hash   documents by key: revision, a space, value
//	keys:KIND       zset   their keys, in order
//	leases          zset   sessions, by when they expire
//	changes         stream who changed something, for the servers; changed is the number of changes
//	details         stream what changed
//	server          hash   which run of Redis was seen last, and since when
//
// Times are microseconds since 1970. LANE is tenant/queue/type/kind, where % and / within a part are %25 and %2F.
//
// Each Commit and each Claim is one call of a script (folder lua), which looks at all that is expected before it
// writes anything. What a claim makes of a job is not written as a status: the script notes the
// claim as TIME/SESSION/WORKER in place of the session, and whoever reads the job applies it by the rule book.
//
// Each call that changes jobs appends what it changed to the streams, within the script. Every server reads
// them, and tells its watchers of all changes in its order, of its own too (feed.go).
package redis

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/haulier/haulier"
)

// Durability says what a commit with Batch.Sync waits for.
type Durability int

const (
	// Sync is the default: that Redis has written it to disk, as far as its settings allow to know that; see docs/redis.md.
	Sync Durability = iota
	// Process is faster: that Redis has it, whatever appendfsync says.
	Process
)

// Options of a store. The zero value is good for use.
type Options struct {
	Durability Durability
	Log        *slog.Logger // nil: none
}

// Store is a haulier.Store in Redis. Safe for concurrent use.
type Store struct {
	client  rueidis.Client
	prefix  string // of all keys
	log     *slog.Logger
	opening haulier.Opening
	disk    *disk            // what Batch.Sync waits for; nil: nothing
	floor   atomic.Int64     // latest time that was seen, in microseconds
	clock   func() time.Time // of tests, in place of the server's; nil: none
	feed    *feed

	life   sync.RWMutex // read-locked by every call, locked by Close
	closed bool
}

var _ haulier.Store = (*Store)(nil)

// Open connects to the Redis of a URL, such as redis://user:password@host:6379/0?prefix=haulier, and looks
// whether its settings are those that jobs need. docs/redis.md says what a URL may have. A Redis that
// can't be reached is ErrUnavailable, one with settings that would lose jobs ErrInvalid.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	a, err := parseAddress(url)
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	client, err := rueidis.NewClient(a.option)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", a.name, translate(ctx, err))
	}
	s := &Store{client: client, prefix: "{" + a.prefix + "}:", log: o.Log}
	if err := s.open(ctx, a, o); err != nil {
		client.Close()
		return nil, fmt.Errorf("open %s: %w", a.name, err)
	}
	return s, nil
}

// claimsDoubt is for how long after a restart of Redis servers that open are told that claims may be lost.
const claimsDoubt = time.Minute

func (s *Store) open(ctx context.Context, a *address, o Options) error {
	found, err := s.inspect(ctx)
	if err != nil {
		return err
	}
	if err := found.check(a.volatile); err != nil {
		return err
	}
	if o.Durability == Sync && found.aof && found.fsync != "always" {
		if found.hasWaitAOF() {
			s.disk = &disk{client: s.client, key: s.prefix + "server"}
		} else {
			o.Log.Warn("the last second before a loss of power may be lost; set appendfsync always, or upgrade Redis to 7.2",
				"appendfsync", found.fsync, "version", found.version)
		}
	}
	s.feed = newFeed(s)
	reply, err := s.run(ctx, openScript, s.feed.tag(0), "0", found.run).ToArray()
	if err != nil {
		return translate(ctx, err)
	}
	r := answer{items: reply}
	position, now, since := r.text(), r.micros(), r.micros()
	if r.bad != nil {
		return r.bad
	}
	s.see(now)
	s.opening.ClaimsLost = since != 0 && now-since < claimsDoubt.Microseconds()
	s.feed.start(position)
	return nil
}

// Opened implements haulier.Store. Claims may be lost when Redis was started anew, or another has taken its place, a short while ago.
func (s *Store) Opened() haulier.Opening {
	o := s.opening
	o.Shared = true
	return o
}

// Failed is closed when the store can't go on and must be opened anew: it has missed changes.
func (s *Store) Failed() <-chan struct{} { return s.feed.failed }

var errClosed = fmt.Errorf("redis store: %w: it was closed", haulier.ErrUnavailable)

// enter begins a call; leave must follow unless it fails.
func (s *Store) enter() error {
	s.life.RLock()
	err := error(nil)
	if s.closed {
		err = errClosed
	} else {
		err = s.feed.failure()
	}
	if err != nil {
		s.life.RUnlock()
	}
	return err
}

func (s *Store) leave() { s.life.RUnlock() }

// Close implements haulier.Store.
func (s *Store) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var err error
	if s.disk != nil {
		err = s.disk.close()
	}
	s.feed.close()
	s.client.Close()
	return err
}

// Now implements haulier.Store: it is the clock of Redis.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	if err := s.enter(); err != nil {
		return time.Time{}, err
	}
	defer s.leave()
	us, err := s.read(ctx, nowScript, s.floorText()).AsInt64()
	if err != nil {
		return time.Time{}, fmt.Errorf("clock: %w", translate(ctx, err))
	}
	s.see(us)
	return time.UnixMicro(us).UTC(), nil
}

// see raises the floor of the clock to a time that Redis has told.
func (s *Store) see(us int64) {
	for {
		old := s.floor.Load()
		if us <= old || s.floor.CompareAndSwap(old, us) {
			return
		}
	}
}

func (s *Store) floorText() string {
	if s.clock != nil {
		return "=" + microText(s.clock().UnixMicro())
	}
	return microText(s.floor.Load())
}

// run calls a script, once: what it may have written is not repeated.
func (s *Store) run(ctx context.Context, sc *script, args ...string) rueidis.RedisResult {
	res := s.client.Do(ctx, sc.bySum(s, args))
	if noScript(res.Error()) { // it was not carried out: Redis has restarted, or never saw it
		res = s.client.Do(ctx, sc.whole(s, args))
	}
	return res
}

// read calls a script that only reads, once more when the connection was lost.
func (s *Store) read(ctx context.Context, sc *script, args ...string) rueidis.RedisResult {
	return again(ctx, func() rueidis.RedisResult { return s.run(ctx, sc, args...) })
}

// ask sends a command that only reads, once more when the connection was lost.
func (s *Store) ask(ctx context.Context, command, key string, args ...string) rueidis.RedisResult {
	return again(ctx, func() rueidis.RedisResult {
		return s.client.Do(ctx, s.client.B().Arbitrary(command).Keys(s.prefix+key).Args(args...).Build())
	})
}

func again(ctx context.Context, call func() rueidis.RedisResult) rueidis.RedisResult {
	res := call()
	if err := res.NonRedisError(); err != nil && ctx.Err() == nil {
		res = call()
	}
	return res
}
