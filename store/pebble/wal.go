package pebble

import (
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
type walFS struct {
	vfs.FS
	mu   sync.Mutex
	open map[*walFile]struct{}
}

func newWALFS(fs vfs.FS) *walFS {
	return &walFS{FS: fs, open: map[*walFile]struct{}{}}
}

// Create implements vfs.FS.
func (w *walFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := w.FS.Create(name, c)
	return w.wrap(name, f, err)
}

// ReuseForWrite implements vfs.FS.
func (w *walFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := w.FS.ReuseForWrite(old, name, c)
	return w.wrap(name, f, err)
}

// Unwrap implements vfs.FS.
func (w *walFS) Unwrap() vfs.FS { return w.FS }

func (w *walFS) wrap(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil || !strings.HasSuffix(name, ".log") {
		return f, err
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
		if err := f.force(); err != nil {
			return err
		}
	}
	return nil
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
	n, err := f.File.Write(b)
	f.dirty.Store(true)
	return n, err
}

// Sync does nothing; see walFS.
func (f *walFile) Sync() error { return nil }

// SyncData does nothing; see walFS.
func (f *walFile) SyncData() error { return nil }

// SyncTo does nothing; see walFS.
func (f *walFile) SyncTo(int64) (bool, error) { return false, nil }

func (f *walFile) force() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.forceLocked()
}

func (f *walFile) forceLocked() error {
	if !f.dirty.Swap(false) {
		return nil
	}
	err := f.File.SyncData()
	if err != nil {
		f.dirty.Store(true)
	}
	return err
}

// Close syncs and closes the log. It counts as open until it is synced, for
// walFS.sync must not overlook it.
func (f *walFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.forceLocked(); err != nil {
		return err
	}
	f.fs.mu.Lock()
	delete(f.fs.open, f)
	f.fs.mu.Unlock()
	return f.File.Close()
}
