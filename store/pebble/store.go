// Package pebble keeps jobs and documents in a folder of the local disk, on the
// embedded key-value store Pebble. One process at a time has a folder open.
//
// Calls that come together are joined into one write and one sync (see
// committer.go); the first jobs of each band stand in memory, so that a claim costs the
// same however many wait (bands.go); a change of state writes a small record
// and moves one index entry (keys.go). What waits costs disk, not memory.
package pebble

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	pdb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/haulier/haulier"
)

// Durability says what a commit with Batch.Sync survives.
type Durability int

const (
	// Sync is the default: it survives the loss of power.
	Sync Durability = iota
	// Process is faster: it survives the death of the process, not that of the machine.
	Process
)

// Options of a store. The zero value is good for use.
type Options struct {
	Durability Durability
	Log        *slog.Logger     // nil: none
	Now        func() time.Time // the clock; nil: time.Now, whose monotonic part the leases go by
	FS         vfs.FS           // nil: that of the machine
	BootID     string           // of the machine's run; "": asked from the system
	MemTable   int              // bytes of changes held in memory; 0: 32 MiB. There may be three of them for a while
	BlockCache int              // bytes of read blocks held in memory; 0: 32 MiB
	JobCache   int              // rough bytes of jobs held in memory since they changed; 0: 24 MiB
	windows    windowSizes
}

// Store is a haulier.Store in a folder. Safe for concurrent use.
type Store struct {
	db         *pdb.DB
	wal        *walFS
	folder     *folder
	log        *slog.Logger
	now        func() time.Time
	durability Durability
	opening    haulier.Opening
	bootID     string

	life   sync.RWMutex // read-locked by every call, locked by Close
	closed bool

	queue      queue
	flights    chan flight
	unsynced   chan []*request
	workers    sync.WaitGroup // committer, writer, syncer
	background sync.WaitGroup // scans
	fault      *fault
	watchers   watchers
	leases     *leases
	showing    sync.RWMutex // locked while a group is visible on disk and not yet in memory
	dueMu      sync.Mutex   // held during Due: the scans of low waters come one by one

	mu         sync.Mutex // guards what follows; held for short times
	lanes      lanes
	cache      cache
	owned      map[haulier.ID]haulier.ID // session by claimed or running job
	reserved   map[haulier.ID]reservation
	idleKeys   [][]byte // of counters that were zero when the store was opened
	timers     lowWater
	windows    windowSizes // constant
	heads      int         // entries of all windows
	clock      uint64      // counts claims, to tell which windows are idle
	generation uint64      // of groups of commits
}

var _ haulier.Store = (*Store)(nil)

// Open opens the store in the folder, or makes one where nothing is. ErrInvalid: the folder
// is somebody else's or of another version. ErrUnavailable: another process has it
// open, or the disk fails. ErrCorrupt: it is damaged. In all these cases the folder is left as it was.
func Open(dir string, o Options) (*Store, error) {
	o.setDefaults()
	s, err := open(dir, o)
	if err != nil {
		return nil, fmt.Errorf("open store in %s: %w", dir, err)
	}
	return s, nil
}

func (o *Options) setDefaults() {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.BootID == "" {
		o.BootID = bootID()
	}
	if o.windows.fill == 0 {
		o.windows = defaultWindows()
	}
	for field, size := range map[*int]int{&o.MemTable: 32 << 20, &o.BlockCache: 32 << 20, &o.JobCache: 24 << 20} {
		if *field <= 0 {
			*field = size
		}
	}
}

func open(dir string, o Options) (*Store, error) {
	path, err := absolute(o.FS, dir)
	if err != nil {
		return nil, err
	}
	f, err := openFolder(o.FS, path)
	if err != nil {
		return nil, err
	}
	fault := newFault(o.Log)
	s := &Store{
		folder: f, log: o.Log, now: o.Now, durability: o.Durability, bootID: o.BootID,
		wal: newWALFS(o.FS, fault), fault: fault, leases: newLeases(),
		queue: queue{wake: make(chan struct{}, 1)}, flights: make(chan flight, 64), unsynced: make(chan []*request, 1024),
		lanes: newLanes(), cache: newCache(o.JobCache), timers: newLowWater(), windows: o.windows, generation: 1,
		owned: map[haulier.ID]haulier.ID{}, reserved: map[haulier.ID]reservation{},
	}
	if err := s.start(o); err != nil {
		if !s.fault.isStuck() {
			f.lock.Close()
		}
		return nil, err
	}
	return s, nil
}

// start looks whether the store is sound before anything is written, then opens it.
func (s *Store) start(o Options) error {
	if s.folder.made {
		if err := s.rehearse(o); err != nil {
			return unsound(err)
		}
	}
	err := s.fault.attempt(func() (err error) {
		if s.db, err = pdb.Open(s.folder.dir, s.options(o, s.fault, false)); err != nil {
			return err
		}
		if err = s.recover(); err == nil {
			err = s.begin()
		}
		if err != nil {
			err = errors.Join(err, s.db.Close())
		}
		return err
	})
	if err != nil {
		return unsound(err)
	}
	for _, run := range []func(){s.runCommitter, s.runWriter, s.runSyncer} {
		s.workers.Go(run)
	}
	return nil
}

// rehearse opens the store for reading alone: what is damaged must stay as it is.
func (s *Store) rehearse(o Options) error {
	f := newFault(s.log)
	return f.attempt(func() error {
		db, err := pdb.Open(s.folder.dir, s.options(o, f, true))
		if err != nil {
			return err
		}
		trial := &Store{db: db, lanes: newLanes(), leases: newLeases(), now: s.now, owned: map[haulier.ID]haulier.ID{}}
		return errors.Join(trial.recover(), db.Close())
	})
}

// unsound translates an error of opening.
func unsound(err error) error {
	known := errors.Is(err, haulier.ErrCorrupt) || errors.Is(err, haulier.ErrUnavailable)
	if known && !pdb.IsCorruptionError(err) {
		return err
	}
	return damaged(err)
}

// options of Pebble. The memory of a store is that of its memtables and its block
// cache, which share one bound, and that of the job cache and the windows.
func (s *Store) options(o Options, f *fault, readOnly bool) *pdb.Options {
	opts := &pdb.Options{
		FS:                          s.wal,
		Lock:                        s.folder.lock,
		Logger:                      pebbleLog{s.log, f},
		EventListener:               f.listener(),
		ReadOnly:                    readOnly,
		ErrorIfNotExists:            s.folder.made,
		FormatMajorVersion:          pdb.FormatColumnarBlocks,           // without sync marks in the log; see walFS
		CacheSize:                   int64(o.BlockCache + 2*o.MemTable), // memtables count against it
		MemTableSize:                uint64(o.MemTable),
		MemTableStopWritesThreshold: 3,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       24,
		LBaseMaxBytes:               64 << 20,
		MaxOpenFiles:                512,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
	}
	// A table on disk holds keys of one keyspace: most of them grow at their end only,
	// and a compaction of one that is busy does not rewrite those that rest.
	opts.Experimental.SpanPolicyFunc = func(start []byte) (pdb.SpanPolicy, []byte, error) {
		return pdb.SpanPolicy{}, after(start[:1]), nil
	}
	for i := range opts.TargetFileSizes {
		opts.TargetFileSizes[i] = 8 << 20
	}
	for i := range opts.Levels {
		opts.Levels[i].BlockSize = 8 << 10
		opts.Levels[i].IndexBlockSize = 64 << 10
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return opts
}

// enter begins a call; leave ends it. Close waits for it.
func (s *Store) enter() error {
	s.life.RLock()
	if s.closed {
		s.life.RUnlock()
		return fmt.Errorf("store: %w: it was closed", haulier.ErrUnavailable)
	}
	return nil
}

func (s *Store) leave() { s.life.RUnlock() }

// Now implements haulier.Store. It also tells when the store has failed.
func (s *Store) Now(context.Context) (time.Time, error) {
	if err := s.enter(); err != nil {
		return time.Time{}, err
	}
	defer s.leave()
	return s.now().UTC(), s.fault.check()
}

// Failed is closed when the store can't write any more, as on a full disk: until it is opened
// again, every write fails with haulier.ErrUnavailable and the cause, which Now returns too.
func (s *Store) Failed() <-chan struct{} { return s.fault.done }

// Opened implements haulier.Store.
func (s *Store) Opened() haulier.Opening { return s.opening }

// Renew implements haulier.Store.
func (s *Store) Renew(_ context.Context, session haulier.ID, ttl time.Duration) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if !s.leases.renew(session, s.now().Add(ttl)) {
		return fmt.Errorf("renew session %v: %w: there is no such session; open a new one", session, haulier.ErrLeaseLost)
	}
	return nil
}

// Close implements haulier.Store. A second call does nothing.
func (s *Store) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.queue.close()
	err := s.fault.attempt(func() error {
		s.workers.Wait()
		s.background.Wait()
		if err := s.fault.check(); err != nil {
			return errors.Join(err, s.db.Close())
		}
		return errors.Join(s.writeMeta(true, new(ops)), s.db.Close())
	})
	if s.fault.isStuck() {
		return s.fault.err // the lock is kept: Pebble's own goroutines may still be at work
	}
	if err = errors.Join(err, s.folder.lock.Close()); err != nil && !errors.Is(err, haulier.ErrUnavailable) {
		err = fmt.Errorf("close store: %w: %w", haulier.ErrUnavailable, err)
	}
	return err
}
