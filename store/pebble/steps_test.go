package pebble_test

import (
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/store/pebble"
	"github.com/haulier/haulier/store/storetest"
)

// steppedFS keeps what a power cut would leave before each change of the folder's entries and each sync.
type steppedFS struct {
	vfs.FS
	disk *vfs.MemFS
	l    *ledger
	cuts []cut
}

type cut struct {
	disk     *vfs.MemFS
	promised map[haulier.ID]haulier.State
}

func (s *steppedFS) step() {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	promised := make(map[haulier.ID]haulier.State, len(s.l.least))
	for id, state := range s.l.least {
		promised[id] = state
	}
	n := uint64(len(s.cuts))
	s.cuts = append(s.cuts, cut{
		s.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: int(n%3) * 50, RNG: rand.New(rand.NewPCG(n, 7))}), promised,
	})
}

func (s *steppedFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	s.step()
	f, err := s.FS.Create(name, c)
	return &steppedFile{f, s}, err
}

func (s *steppedFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	s.step()
	f, err := s.FS.ReuseForWrite(old, name, c)
	return &steppedFile{f, s}, err
}

func (s *steppedFS) OpenDir(name string) (vfs.File, error) {
	f, err := s.FS.OpenDir(name)
	return &steppedFile{f, s}, err
}

func (s *steppedFS) Rename(old, name string) error {
	s.step()
	return s.FS.Rename(old, name)
}

func (s *steppedFS) Remove(name string) error {
	s.step()
	return s.FS.Remove(name)
}

type steppedFile struct {
	vfs.File
	fs *steppedFS
}

func (f *steppedFile) Sync() error {
	f.fs.step()
	return f.File.Sync()
}

func (f *steppedFile) SyncData() error {
	f.fs.step()
	return f.File.SyncData()
}

// TestPowerCutAtEveryStep makes a store, uses it, closes it and opens it again, and looks at
// what each step on the way would leave behind.
func TestPowerCutAtEveryStep(t *testing.T) {
	l := &ledger{least: map[haulier.ID]haulier.State{}}
	disk := vfs.NewCrashableMem()
	fs := &steppedFS{FS: disk, disk: disk, l: l}
	for range 2 {
		s, err := pebble.Open("store", pebble.Options{FS: fs, MemTable: 256 << 10})
		if err != nil {
			t.Fatal(err)
		}
		for range 8 {
			jobs := newJobs(150)
			if err := s.Commit(t.Context(), &haulier.Batch{Insert: jobs, Sync: true}); err != nil {
				t.Fatal(err)
			}
			for i := range jobs {
				l.note(jobs[i].ID, haulier.Pending)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for n, c := range fs.cuts {
		s, err := pebble.Open("store", pebble.Options{FS: c.disk, MemTable: 256 << 10})
		if err != nil {
			t.Fatalf("after cut %d of %d: %v", n, len(fs.cuts), err)
		}
		reached(t, s, c.promised)
		if n%10 == 0 {
			storetest.Check(t.Context(), t, s)
		}
		insert(t, s, newJobs(1))
		if err := s.Close(); err != nil {
			t.Errorf("after cut %d of %d: close: %v", n, len(fs.cuts), err)
		}
	}
	t.Logf("%d cuts", len(fs.cuts))
}
