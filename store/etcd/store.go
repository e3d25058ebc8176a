// Package etcd keeps jobs and documents in an etcd that a team already operates, of version 3.4 or
// later. Any number of servers work over one.
//
// All keys begin with a prefix, /haulier/ unless said:
//
//	job/ID                      spec, in the form of package wire; written once
//	status/ID                   status, likewise; rewritten with each change
//	tenant/TENANT/~ID           all jobs of a tenant, the newest first
//	ready/LANE/PRIO/TIME/ID     pending ones; PRIO is 00 for the highest priority, 20 for the lowest
//	timer/TIME/ID               scheduled ones; the value is the lane
//	owned/SESSION/ID            claimed and running ones; the value is state and lane
//	blocked/ID                  blocked ones; the value is the lane
//	done/STATE/LANE/~TIME/~ID   terminal ones, the newest first
//	purge/TIME/ID               all terminal ones, by time of removal
//	doc/KIND/KEY                documents; their revision is the key's version in etcd
//	lease/SESSION               for how long a session lives after this key was written
//	log                         what the last transaction changed
//	counts                      of a large store, the number of jobs and the first of each band at a revision; see snapshot
//
// LANE is tenant/queue/type/kind, where % and / within a part are %25 and %2F. TIME is in UTC. What begins with ~ has its
// bits inverted, since etcd lists upwards at less cost than downwards.
//
// Each Commit and each Claim is one transaction: it compares the revision of every record that it relies on, and writes all or
// nothing. What it changes it also writes to the key log, whose history is that of the store. Each server
// watches this key, and derives from it what need not be read then: the number of jobs, the bands and
// where they begin, the leases (feed.go, view.go). No counter is written, so commits that touch different jobs never conflict.
//
// A read of what was derived first asks etcd for the revision of the key log, and waits until that has been heard.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/haulier/haulier"
)

// Options of a store. The zero value is good for use.
type Options struct {
	Log     *slog.Logger  // nil: none
	Timeout time.Duration // of a request to etcd; 0: 12 seconds. etcd itself gives up after about seven without a leader
	sizes   sizes
}

// sizes from which on things are done otherwise.
type sizes struct {
	page int // keys that are read at once when all are, and jobs from which on their counts are saved
	line int // entries of a line from which on it is not read to its end
}

// Store is a haulier.Store in etcd. Safe for concurrent use.
type Store struct {
	client  *clientv3.Client
	kv      pb.KVClient
	prefix  string // of all keys
	timeout time.Duration
	sizes
	log   *slog.Logger
	feed  *feed
	view  *view
	clock func() time.Time // time.Now, but in tests
	floor atomic.Int64     // latest time that was told, in microseconds
	most  atomic.Int64     // comparisons that etcd takes in a transaction, as far as is known

	joiner joiner
	keeper sync.WaitGroup // writes snapshots until stop
	stop   context.CancelFunc

	claiming sync.Mutex // claims of this server come one by one: they want the same jobs

	life   sync.RWMutex // read-locked by every call, locked by Close
	closed bool
}

var _ haulier.Store = (*Store)(nil)

// Open connects to the etcd of a URL, such as etcd://host1:2379,host2:2379/haulier. docs/etcd.md says what a URL may have, and
// which settings etcd should have. An etcd that can't be reached is ErrUnavailable,
// one that takes too little at once ErrInvalid.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	a, err := parseAddress(url)
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.sizes.page == 0 {
		o.sizes = sizes{page: 10_000, line: 500}
	}
	if o.Timeout <= 0 {
		o.Timeout = 12 * time.Second
	}
	client, err := clientv3.New(a.config)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", a.name, translate(ctx, err))
	}
	s := &Store{client: client, kv: pb.NewKVClient(client.ActiveConnection()), prefix: a.prefix, timeout: o.Timeout, sizes: o.sizes, log: o.Log, clock: time.Now}
	s.view = newView(s)
	if err := s.open(ctx, a.fewOps); err != nil {
		client.Close()
		return nil, fmt.Errorf("open %s: %w", a.name, err)
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, fewOps bool) error {
	if err := s.probe(ctx, fewOps); err != nil {
		return err
	}
	s.feed = newFeed(s)
	if err := s.load(ctx); err != nil {
		return err
	}
	var keeping context.Context
	keeping, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.keeper.Go(func() { s.snapshots(keeping) })
	return nil
}

// Operations side by side in a transaction: what haulier needs, and what etcd takes unless it is told.
const (
	neededOps  = 8192
	defaultOps = 4 * branch
)

// probe finds out whether etcd takes the transactions that haulier makes: a session that ends with its jobs, or a worker that
// reports many, would never get through otherwise.
func (s *Store) probe(ctx context.Context, few bool) error {
	s.most.Store(neededOps)
	never := make([]*pb.RequestOp, neededOps) // an empty comparison holds, so that these are counted, and not carried out
	for i := range never {
		never[i] = rangeOp(&pb.RangeRequest{Key: []byte(s.prefix)}) // which the user may read, if any
	}
	_, err := s.send(ctx, &pb.TxnRequest{Failure: never})
	switch {
	case !errors.Is(err, haulier.ErrTooLarge):
		return err
	case !few:
		return fmt.Errorf("%w: etcd takes less than %d operations in a transaction, so that changes of many jobs would be refused; start it with --max-txn-ops=16384, "+
			"or add few_ops=1 to the URL to accept that, for a trial", haulier.ErrInvalid, neededOps)
	}
	s.most.Store(defaultOps)
	s.log.Warn("etcd takes few operations in a transaction: batches that change more than 96 jobs will be refused; start it with --max-txn-ops=16384")
	return nil
}

// Opened implements haulier.Store. etcd syncs whatever it writes, claims too.
func (s *Store) Opened() haulier.Opening { return haulier.Opening{Shared: true} }

// Failed is closed when the store can't go on and must be opened anew: it has missed changes.
func (s *Store) Failed() <-chan struct{} { return s.feed.failed }

var errClosed = fmt.Errorf("etcd store: %w: it was closed", haulier.ErrUnavailable)

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
	s.stop()
	s.keeper.Wait()
	s.joiner.flights.Wait() // of calls that were given up
	s.feed.close()
	s.client.Close()
	return nil
}

// Now implements haulier.Store: etcd tells no time, so it is this machine's clock, held back where it would go back.
func (s *Store) Now(context.Context) (time.Time, error) {
	if err := s.enter(); err != nil {
		return time.Time{}, err
	}
	defer s.leave()
	return s.now(), nil
}

func (s *Store) now() time.Time {
	us := s.clock().UnixMicro()
	for {
		last := s.floor.Load()
		if us <= last {
			return time.UnixMicro(last).UTC()
		}
		if s.floor.CompareAndSwap(last, us) {
			return time.UnixMicro(us).UTC()
		}
	}
}
