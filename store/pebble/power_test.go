package pebble_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/store/pebble"
	"github.com/haulier/haulier/store/storetest"
)

// ledger is what a store has acknowledged: how far each job must be.
type ledger struct {
	mu    sync.Mutex
	least map[haulier.ID]haulier.State
}

func (l *ledger) note(id haulier.ID, s haulier.State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.least[id] = s
}

func (l *ledger) copy() map[haulier.ID]haulier.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[haulier.ID]haulier.State, len(l.least))
	for id, s := range l.least {
		out[id] = s
	}
	return out
}

// work inserts, claims and finishes, once for each turn, until ctx ends or the store fails, and notes what was synced.
func work(ctx context.Context, s haulier.Store, session haulier.ID, l *ledger, turns <-chan struct{}) error {
	for ctx.Err() == nil {
		select {
		case <-turns:
		case <-ctx.Done():
			return nil
		}
		jobs := newJobs(1 + rand.IntN(20))
		if err := s.Commit(ctx, &haulier.Batch{Insert: jobs, Sync: true}); err != nil {
			return err
		}
		for i := range jobs {
			l.note(jobs[i].ID, haulier.Pending)
		}
		claimed, err := s.Claim(ctx, session, "w", []haulier.Take{{Band: benchBand, N: 1 + rand.IntN(15)}})
		if err != nil {
			return err
		}
		b := haulier.Batch{Sync: true}
		for i := range claimed {
			j := &claimed[i]
			next, err := j.Next(haulier.Event{Kind: haulier.EventFinish, Session: session, Attempt: j.Attempt, Outcome: haulier.OutcomeOK}, time.Now())
			if err != nil {
				return err
			}
			b.Update = append(b.Update, haulier.JobUpdate{Spec: &j.Spec, Expect: j.Rev, Status: next})
		}
		if err := s.Commit(ctx, &b); err != nil {
			return err
		}
		for i := range claimed {
			l.note(claimed[i].ID, haulier.Succeeded)
		}
	}
	return nil
}

func TestPowerCut(t *testing.T) {
	for _, d := range []pebble.Durability{pebble.Sync, pebble.Process} {
		t.Run(fmt.Sprintf("durability %d", d), func(t *testing.T) { testPowerCut(t, d) })
	}
}

// testPowerCut takes the disk as a power cut would leave it, at many moments of a
// load, with any part of what was not synced, and opens it.
func testPowerCut(t *testing.T, d pebble.Durability) {
	disk := vfs.NewCrashableMem()
	s, err := pebble.Open("store", pebble.Options{FS: disk, Durability: d, MemTable: 256 << 10, BootID: "before"})
	if err != nil {
		t.Fatal(err)
	}
	l := ledger{least: map[haulier.ID]haulier.State{}}
	session := begin(t, s)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	turns := make(chan struct{}, 40)
	for range 3 {
		wg.Go(func() {
			if err := work(ctx, s, session, &l, turns); err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	for n := range 12 {
		for range 12 {
			turns <- struct{}{}
		}
		promised := l.copy()
		left := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rand.IntN(3) * 50, RNG: rand.New(rand.NewPCG(uint64(n), rand.Uint64()))})
		after, err := pebble.Open("store", pebble.Options{FS: left, BootID: "after"})
		if err != nil {
			t.Fatalf("after cut %d: %v", n, err)
		}
		if !after.Opened().ClaimsLost {
			t.Error("claims are not said to be lost")
		}
		if d == pebble.Sync {
			reached(t, after, promised)
		}
		if n%4 == 3 {
			storetest.Check(t.Context(), t, after)
		}
		if err := after.Close(); err != nil {
			t.Error(err)
		}
	}
	stop()
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// fullFS fails writes, or syncs, of the files whose name has the mark, once it is told to.
type fullFS struct {
	vfs.FS
	mark  string
	syncs bool
	full  atomic.Bool
}

func (f *fullFS) wrap(name string, file vfs.File, err error) (vfs.File, error) {
	if err != nil || !strings.Contains(name, f.mark) {
		return file, err
	}
	return &fullFile{file, f}, nil
}

func (f *fullFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, c)
	return f.wrap(name, file, err)
}

func (f *fullFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.ReuseForWrite(old, name, c)
	return f.wrap(name, file, err)
}

type fullFile struct {
	vfs.File
	fs *fullFS
}

func (f *fullFile) Write(b []byte) (int, error) {
	if f.fs.full.Load() && !f.fs.syncs {
		return 0, syscall.ENOSPC
	}
	return f.File.Write(b)
}

func (f *fullFile) sync(do func() error) error {
	if f.fs.full.Load() && f.fs.syncs {
		return syscall.EIO
	}
	return do()
}

func (f *fullFile) Sync() error     { return f.sync(f.File.Sync) }
func (f *fullFile) SyncData() error { return f.sync(f.File.SyncData) }

func TestFailingDiskIsAnErrorAndLosesNothing(t *testing.T) {
	for _, c := range []struct {
		name, mark string
		syncs      bool
	}{
		{"no room for the log", ".log", false},
		{"the log does not sync", ".log", true},
		{"no room for tables", ".sst", false},
		{"tables do not sync", ".sst", true},
		{"no room for the manifest", "MANIFEST", false},
		{"the manifest does not sync", "MANIFEST", true},
		{"no room at all", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			testFailingDisk(t, &fullFS{FS: vfs.NewCrashableMem(), mark: c.mark, syncs: c.syncs})
		})
	}
}

func testFailingDisk(t *testing.T, disk *fullFS) {
	s, err := pebble.Open("store", pebble.Options{FS: disk, MemTable: 256 << 10})
	if err != nil {
		t.Fatal(err)
	}
	l := ledger{least: map[haulier.ID]haulier.State{}}
	session := begin(t, s)
	var wg sync.WaitGroup
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	turns := make(chan struct{})
	for range 3 {
		wg.Go(func() {
			if err := work(ctx, s, session, &l, turns); !errors.Is(err, haulier.ErrUnavailable) || !strings.Contains(err.Error(), "start again") {
				t.Errorf("the work ended with %v", err)
			}
		})
	}
	failed := make(chan struct{})
	go func() { wg.Wait(); close(failed) }()
	for n := 0; ; n++ {
		if n == 100 {
			disk.full.Store(true)
		}
		select {
		case turns <- struct{}{}:
			continue
		case <-failed:
		}
		break
	}
	if _, err := s.Bands(t.Context()); err != nil {
		t.Errorf("what is in memory can't be read any more: %v", err)
	}
	if err := s.Close(); !errors.Is(err, haulier.ErrUnavailable) {
		t.Errorf("close: %v", err)
	}
	left := disk.FS.(*vfs.MemFS).CrashClone(vfs.CrashCloneCfg{})
	after, err := pebble.Open("store", pebble.Options{FS: left})
	if err != nil {
		t.Fatalf("after the disk was mended: %v", err)
	}
	defer after.Close()
	reached(t, after, l.least)
	storetest.Check(t.Context(), t, after)
}
