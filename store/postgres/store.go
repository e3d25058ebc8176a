// Package postgres keeps jobs and documents in a PostgreSQL database. Any number of servers may share one.
//
// Calls that come together are joined into one transaction of two round trips (commit.go, claim.go). A job is a row of what was
// asked, written once, and a small one of how it stands, which has its place in one of the partial indexes (migrations/).
// Numbers of jobs are kept in rows of which each writer has its own (counts.go). What changed is told here before the call returns
// (watch.go), and to other servers by a row that they are notified of (listen.go).
package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/haulier/haulier"
)

// Options of a store. The zero value is good for use.
type Options struct {
	Log *slog.Logger // nil: none
	// Schema holds the tables; "": haulier. Stores of different schemas do not know of each other.
	Schema string
	// NoMigrate leaves the tables as they are; Open then fails when they are not those of this program. See Migrate.
	NoMigrate bool
	// Durability of commits with Batch.Sync.
	Durability Durability
}

// Durability says what a commit with Batch.Sync survives.
type Durability int

const (
	// Sync is the default: it survives the loss of power of the database's machine.
	Sync Durability = iota
	// Process is faster: it survives the death of the program, not that of the database.
	Process
)

// Streams are how many transactions a store has under way at once.
const (
	commitStreams = 4
	claimStreams  = 2
	slots         = 30 // of the counts; see counts.go
)

// minConns is for how many connections the pool is made unless the URL says pool_max_conns: those of the streams, and of readers.
const minConns = 16

// Store is a haulier.Store in a database. Safe for concurrent use.
type Store struct {
	pool    *pgxpool.Pool
	schema  string
	log     *slog.Logger
	opening haulier.Opening
	sync    bool  // of commits that ask for it
	server  int32 // number of this store among those that share the tables
	clock   clock
	crash   crash
	lanes   *lanes
	floors  *floors
	flights *flights
	serial  atomic.Int64 // of transactions
	texts   sync.Map     // statement for this schema by statement

	life    sync.RWMutex // read-locked by every call, locked by Close
	closed  bool
	commits chan *commitRequest
	claims  chan *claimRequest
	streams sync.WaitGroup

	watchers watchers
	listener *listener
}

var _ haulier.Store = (*Store)(nil)

// Open opens the store in the database of the URL, which is one of libpq's and may have pgxpool's settings. Tables are made, or brought
// up to date. ErrInvalid: the URL or the schema is wrong, or the tables are of a newer program. ErrUnavailable: the database can't be reached.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	s, err := open(ctx, url, o)
	if err != nil {
		return nil, fmt.Errorf("open store in PostgreSQL: %w", err)
	}
	return s, nil
}

func open(ctx context.Context, url string, o Options) (*Store, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	schema, err := schemaName(o.Schema)
	if err != nil {
		return nil, err
	}
	pool, err := connect(ctx, url)
	if err != nil {
		return nil, err
	}
	s := &Store{
		pool: pool, schema: schema, log: o.Log, sync: o.Durability == Sync,
		commits: make(chan *commitRequest, 1024), claims: make(chan *claimRequest, 1024),
	}
	s.lanes, s.floors, s.flights = newLanes(s), newFloors(), newFlights()
	s.crash.done = make(chan struct{})
	if err := s.start(ctx, o); err != nil {
		pool.Close()
		return nil, err
	}
	for slot := range commitStreams {
		s.streams.Go(func() { s.runCommits(s.slot(slot)) })
	}
	for slot := range claimStreams {
		s.streams.Go(func() { s.runClaims(s.slot(commitStreams + slot)) })
	}
	return s, nil
}

// slot is the number of a stream's counts; streams of many servers may come to have the same, and wait for each other then.
func (s *Store) slot(stream int) int16 {
	return int16((int(s.server)*(commitStreams+claimStreams) + stream) % slots)
}

// connect makes the pool, and sees that the database answers.
func connect(ctx context.Context, url string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		// The text may quote the URL, which may have a password.
		return nil, fmt.Errorf("%w: the URL is not one of PostgreSQL, as postgres://user:password@host:5432/database is", haulier.ErrInvalid)
	}
	if cfg.MaxConns < minConns && !hasSetting(url, "pool_max_conns") {
		cfg.MaxConns = minConns
	}
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}}
	cfg.ConnConfig.DialFunc = dialer.DialContext
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = 10 * time.Second
	}
	for name, value := range map[string]string{
		"application_name":   "haulier",
		"synchronous_commit": "off", // transactions that are to be synced say so
		// A server that vanishes with its machine must not keep its locks: PostgreSQL alone would wait for it for two hours.
		"idle_in_transaction_session_timeout": "15s", "tcp_user_timeout": "30s",
		"tcp_keepalives_idle": "15", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3",
		// All statements go by an index. What the planner believes of tables that change as fast as these must not mislead it.
		"enable_seqscan": "off", "enable_bitmapscan": "off", "plan_cache_mode": "force_generic_plan", "jit": "off",
	} {
		if _, set := cfg.ConnConfig.RuntimeParams[name]; !set {
			cfg.ConnConfig.RuntimeParams[name] = value
		}
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, translate(err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, translate(err)
	}
	return pool, nil
}

// start makes the tables ready, takes a number, sets the clock and begins to listen.
func (s *Store) start(ctx context.Context, o Options) error {
	err := s.migrate(ctx, !o.NoMigrate)
	if err != nil {
		return err
	}
	if err := s.pool.QueryRow(ctx, s.text(`SELECT nextval('haulier.servers')::int`)).Scan(&s.server); err != nil {
		return translate(err)
	}
	if s.opening.ClaimsLost, err = s.noteCrash(ctx); err != nil {
		return err
	}
	if err := s.measureClock(ctx, 3); err != nil {
		return err
	}
	if err := s.lanes.load(ctx); err != nil {
		return err
	}
	s.foldCounts(ctx)
	return s.listen(ctx)
}

// enter begins a call; leave ends it. Close waits for it.
func (s *Store) enter() error {
	s.life.RLock()
	err := s.crash.failed()
	if s.closed {
		err = fmt.Errorf("store: %w: it was closed", haulier.ErrUnavailable)
	}
	if err != nil {
		s.life.RUnlock()
	}
	return err
}

func (s *Store) leave() { s.life.RUnlock() }

// Opened implements haulier.Store.
func (s *Store) Opened() haulier.Opening {
	o := s.opening
	o.Shared = true
	return o
}

// Renew implements haulier.Store.
func (s *Store) Renew(ctx context.Context, session haulier.ID, ttl time.Duration) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	tag, err := s.pool.Exec(ctx, s.text(`UPDATE haulier.leases SET expires_at = $2 WHERE session = $1`), uuid(session), s.clock.now().Add(ttl))
	switch {
	case err != nil:
		return fmt.Errorf("renew session %v: %w", session, translate(err))
	case tag.RowsAffected() == 0:
		return fmt.Errorf("renew: %w", lostSession(session))
	}
	return nil
}

func lostSession(id haulier.ID) error {
	return fmt.Errorf("session %v: %w: there is no such session; open a new one", id, haulier.ErrLeaseLost)
}

// Close implements haulier.Store. A second call does nothing.
func (s *Store) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	close(s.commits)
	close(s.claims)
	s.streams.Wait()
	s.listener.close()
	s.pool.Close()
	return nil
}
