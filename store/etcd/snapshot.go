package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/haulier/haulier"
)

// snapshot is the view at a revision, but for the leases: the value of the key counts, as JSON. With it a server that
// opens a large store need not read all indexes: it follows the log from there. Without it, or when that history is gone, it reads them.
type snapshot struct {
	Revision int64           `json:"revision"`
	Counts   []haulier.Count `json:"counts"`
	Bands    []savedBand     `json:"bands"`
	Timers   savedLine       `json:"timers"`
	Purges   savedLine       `json:"purges"`
}

type savedBand struct {
	haulier.Lane
	Priority int `json:"priority"`
	savedLine
}

type savedLine struct {
	N    int64  `json:"n"`
	Head string `json:"head"`
}

func (l *line) save() savedLine { return savedLine{l.n, l.head} }

func (l *line) restore(s savedLine) { l.n, l.head = s.N, s.Head }

// save makes a snapshot; jobs is how many jobs it counts.
func (v *view) save() (s snapshot, jobs int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s.Revision, s.Timers, s.Purges = v.at, v.timers.save(), v.purges.save()
	for t, n := range v.counts {
		s.Counts = append(s.Counts, haulier.Count{Lane: t.lane, State: t.state, N: n})
		jobs += n
	}
	for b, l := range v.bands {
		if l.n > 0 {
			s.Bands = append(s.Bands, savedBand{b.Lane, b.Priority, l.save()})
		}
	}
	return s, jobs
}

func (v *view) restore(s *snapshot) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.at = s.Revision
	v.timers.restore(s.Timers)
	v.purges.restore(s.Purges)
	for _, c := range s.Counts {
		v.count(c.Lane, c.State, c.N)
	}
	for _, b := range s.Bands {
		v.band(haulier.Band{Lane: b.Lane, Priority: b.Priority}).restore(b.savedLine)
	}
}

// snapshotEvery is how often a server looks whether the snapshot has grown old. etcd must keep its history for longer.
const snapshotEvery = time.Minute

// snapshots keeps the snapshot young until ctx ends, and writes a last one then.
func (s *Store) snapshots(ctx context.Context) {
	tick := time.NewTicker(snapshotEvery)
	defer tick.Stop()
	saved := int64(0)
	for {
		select {
		case <-tick.C:
			saved = s.snapshot(ctx, saved)
		case <-ctx.Done():
			s.snapshot(context.WithoutCancel(ctx), saved)
			return
		}
	}
}

// snapshot writes the key counts, unless it was written at the revision, or the store is so small that it is of no use.
func (s *Store) snapshot(ctx context.Context, saved int64) int64 {
	now, jobs := s.view.save()
	if now.Revision == saved || jobs < int64(s.page) || s.feed.failure() != nil {
		return saved
	}
	b, err := json.Marshal(now)
	if err == nil {
		_, _, err = s.write(ctx, nil, []*pb.RequestOp{putOp(s.prefix+"counts", b)})
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("the counts could not be saved; opening the store takes longer", "err", err)
		return saved
	}
	return now.Revision
}

// saved reads the snapshot that etcd has returned, if the log can be followed from there; otherwise nil.
func (s *Store) saved(ctx context.Context, r *pb.RangeResponse) (*snapshot, error) {
	if len(r.Kvs) == 0 {
		return nil, nil
	}
	var found snapshot
	if err := json.Unmarshal(r.Kvs[0].Value, &found); err != nil || found.Revision <= 0 {
		s.log.Warn("the saved counts can't be read; the jobs are counted", "err", err)
		return nil, nil
	}
	probe := s.logRead()
	probe.Revision = found.Revision
	_, err := s.read(ctx, probe)
	if errors.Is(err, errHistory) {
		return nil, nil
	}
	return &found, err
}

// errHistory: etcd has no longer, or not yet, the revision that was asked for.
var errHistory = errors.New("etcd does not have this revision")

func noHistory(err error) bool {
	return errors.Is(err, rpctypes.ErrCompacted) || errors.Is(err, rpctypes.ErrFutureRev)
}
