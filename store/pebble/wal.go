package pebble

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// walFS takes the sync of the write-ahead log out of Pebble's hands.
//
// Pebble writes a commit to the operating system only when it is to be synced; a commit
// without sync may sit in memory, where kill -9 loses it. A claim must survive that, yet
// not wait for a disk. So every commit asks Pebble for a sync, which writes;
// the file's own Sync does nothing, and walFS.sync, called for those commits that want
// it, syncs for as many of them as wait. A log that is closed is synced in any case: a
// log that follows must never be on disk without its predecessor.
//
// The sync marks within the log, by which newer Pebble formats tell a torn end from
// damage, would lie under this scheme; the format in use has none.
//
// Pebble is not told when a log can't be written, for it would end the process. The fault is,
// nothing is acknowledged after that, and what follows is not written: a log ends where the trouble began.
type walFS struct {
	vfs.FS
	fault *fault
	mu    sync.Mutex
	open  map[*walFile]struct{}
}

func newWALFS(fs vfs.FS, f *fault) *walFS {
	return &walFS{FS: fs, fault: f, open: map[*walFile]struct{}{}}
}

// Create implements vfs.FS.
func (w *walFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return w.log(name, func() (vfs.File, error) { return w.FS.Create(name, c) })
}

// ReuseForWrite implements vfs.FS.
func (w *walFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return w.log(name, func() (vfs.File, error) { return w.FS.ReuseForWrite(old, name, c) })
}

// OpenDir implements vfs.FS.
func (w *walFS) OpenDir(name string) (vfs.File, error) {
	f, err := w.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &walDir{f, w.fault}, nil
}

// Unwrap implements vfs.FS.
func (w *walFS) Unwrap() vfs.FS { return w.FS }

// log makes the file, which is wrapped when its name is that of a log or of a manifest.
func (w *walFS) log(name string, create func() (vfs.File, error)) (vfs.File, error) {
	if strings.HasPrefix(w.PathBase(name), "MANIFEST-") {
		f, err := create()
		return &manifest{File: f, fs: w.FS, dir: w.PathDir(name)}, err
	}
	if !strings.HasSuffix(name, ".log") {
		return create()
	}
	if w.fault.check() != nil {
		return vfs.NewMemFile(nil), nil
	}
	f, err := create()
	if err != nil {
		w.fault.fail(err)
		return vfs.NewMemFile(nil), nil
	}
	log := &walFile{File: f, fs: w}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[log] = struct{}{}
	return log, nil
}

// sync makes what was written to the logs durable.
func (w *walFS) sync() error {
	w.mu.Lock()
	logs := make([]*walFile, 0, 2)
	for f := range w.open {
		logs = append(logs, f)
	}
	w.mu.Unlock()
	for _, f := range logs {
		f.mu.Lock()
		f.force()
		f.mu.Unlock()
	}
	return w.fault.check()
}

// walFile is a log that is being written.
type walFile struct {
	vfs.File
	fs    *walFS
	dirty atomic.Bool // written since the last sync
	mu    sync.Mutex  // held while syncing or closing
}

// Write implements vfs.File.
func (f *walFile) Write(b []byte) (int, error) {
	if f.fs.fault.check() != nil {
		return len(b), nil
	}
	if _, err := f.File.Write(b); err != nil {
		f.fs.fault.fail(err)
	}
	f.dirty.Store(true)
	return len(b), nil
}

// Sync does nothing; see walFS.
func (f *walFile) Sync() error { return nil }

// SyncData does nothing; see walFS.
func (f *walFile) SyncData() error { return nil }

// SyncTo does nothing; see walFS.
func (f *walFile) SyncTo(int64) (bool, error) { return false, nil }

// force syncs what was written. The caller holds mu.
func (f *walFile) force() {
	if !f.dirty.Swap(false) {
		return
	}
	if err := f.File.SyncData(); err != nil {
		f.fs.fault.fail(err)
	}
}

// Close syncs and closes the log. It counts as open until it is synced, for
// walFS.sync must not overlook it.
func (f *walFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.force()
	f.fs.mu.Lock()
	delete(f.fs.open, f)
	f.fs.mu.Unlock()
	if err := f.File.Close(); err != nil {
		f.fs.fault.fail(err)
	}
	return nil
}

// manifest is a file that Pebble points to, by the name of another one, as soon as it is
// synced. Its own name must then be durable too, which Pebble leaves to the file system; a
// pointer that outlives its target is a store that does not open.
type manifest struct {
	vfs.File
	fs    vfs.FS
	dir   string
	named bool // the name is durable
}

// Sync implements vfs.File.
func (m *manifest) Sync() error {
	if err := m.File.Sync(); err != nil || m.named {
		return err
	}
	dir, err := m.fs.OpenDir(m.dir)
	if err != nil {
		return err
	}
	err = errors.Join(dir.Sync(), dir.Close())
	m.named = err == nil
	return err
}

// walDir is a folder that has logs.
type walDir struct {
	vfs.File
	fault *fault
}

// Sync implements vfs.File. When it fails the goroutine stays here: Pebble would end the process.
func (d *walDir) Sync() error {
	if err := d.File.Sync(); err != nil {
		d.fault.stop(err)
		select {}
	}
	return nil
}
