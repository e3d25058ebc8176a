// Package journal accepts jobs into a folder of text files, for a server or a program that is to go on accepting them while the store
// is slow or away, and to hand them over in bulk.
//
// A job is appended (Write), and acknowledged when it is on stable storage (Sync), which concurrent callers share. It leaves the journal
// when it was persisted elsewhere: lines are taken under a lease (Reserve, Read), and given up (Done), or they go back to where they were
// (Cancel, or the end of the lease). What was handed over but not given up, as after a crash, is handed over again:
// the ids of jobs, which the journal keeps, make that safe. See Ingest for the way into a queue, and Front for the way into the journal.
//
// docs/journal.md has the format of the files.
package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/haulier/haulier"
)

// Bounds of one Write, within what an engine takes as one request with a key, and a server in one body.
const (
	maxJobs  = 5000
	maxWrite = 12 << 20 // bytes of lines
)

// Options of a Journal.
type Options struct {
	// SegmentBytes and SegmentAge: a file that is as large or as old gets no further lines. Zero: 16 MiB, 1 h.
	SegmentBytes int64
	SegmentAge   time.Duration
	// MaxBytes bounds the lines on disk; beyond it, writes fail. Zero: 1 GiB.
	MaxBytes int64
	// Wait is how long Open waits for another process to close the journal. Zero: not at all.
	Wait time.Duration
	// Log gets what was damaged. Nil: discarded.
	Log *slog.Logger
	// Now is the clock; nil: time.Now.
	Now func() time.Time

	disk disk
}

func (o *Options) complete() {
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = 16 << 20
	}
	if o.SegmentAge <= 0 {
		o.SegmentAge = time.Hour
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 1 << 30
	}
	o.SegmentBytes = min(o.SegmentBytes, max(o.MaxBytes/4, 1)) // the newest stays when all of it is done
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.disk == nil {
		o.disk = osDisk{}
	}
}

// Journal is an open journal. It is safe for concurrent use; one process at a time has it open.
type Journal struct {
	Options
	dir  string
	lock *os.File

	reserving sync.Mutex // one Reserve at a time, so that their lines are in order
	refusing  sync.Mutex // one line of the file of refused jobs at a time

	mu       sync.Mutex
	failed   error // why it is of no use any more: a failed sync, or Close
	segments []*segment
	active   *segment      // gets the lines; nil before the first
	next     uint64        // sequence of the next line
	synced   uint64        // lines up to this one are on stable storage
	syncing  chan struct{} // closed when the sync under way has ended; nil: there is none
	writes   []*queued     // that wait for it
	over     []*segment    // whose files are to be removed
	free     []span        // lines that nobody has reserved, in order
	held     map[Token]*reservation
	tokens   Token
	changed  chan struct{} // closed when there may be something to reserve
}

// Open opens the journal in a folder, which it makes when it is missing. ErrUnavailable: another process has it open.
func Open(dir string, o Options) (j *Journal, err error) {
	o.complete()
	j = &Journal{Options: o, dir: dir, next: 1, held: map[Token]*reservation{}, changed: make(chan struct{})}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("journal: %w; choose another folder", err)
	}
	if j.lock, err = lockFolder(dir, o.Wait); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if err := j.recover(); err != nil {
		return nil, errors.Join(fmt.Errorf("journal: open %s: %w", dir, err), j.closeFiles())
	}
	return j, nil
}

// lockPause is how often a folder that is locked is tried again.
const lockPause = 20 * time.Millisecond

// lockFolder keeps other processes out, until the file is closed.
func lockFolder(dir string, wait time.Duration) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	end := time.NewTimer(wait)
	defer end.Stop()
	pause := time.NewTicker(lockPause)
	defer pause.Stop()
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if errors.Is(err, syscall.EWOULDBLOCK) && wait > 0 {
			select {
			case <-pause.C:
				continue
			case <-end.C:
			}
		}
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = fmt.Errorf("%w: %s is open in another process; let that end, or choose another folder", haulier.ErrUnavailable, dir)
		}
		return nil, errors.Join(err, f.Close())
	}
}

// recover reads what is in the folder.
func (j *Journal) recover() error {
	names, err := j.disk.names(j.dir)
	if err != nil {
		return err
	}
	firsts, orphans := segmentsOf(names)
	for _, name := range orphans {
		if err := j.disk.remove(filepath.Join(j.dir, name)); err != nil {
			return err
		}
	}
	for i, first := range firsts {
		s := &segment{first: first, path: segmentPath(j.dir, first), born: j.Now()}
		j.segments = append(j.segments, s)
		f, err := s.recover(j.disk)
		if err != nil {
			return err
		}
		if f.cut > 0 {
			j.Log.Warn("journal: the end of a file was cut off, for it was not written whole", "file", s.path+linesExt, "bytes", f.cut)
		}
		if s.damaged > 0 {
			j.Log.Error("journal: lines are damaged; the file is kept for you to look at", "file", s.path, "lines", s.damaged)
		}
		j.next = max(j.next, first, f.last+1)
		j.free = append(j.free, f.spans...)
		if i == len(firsts)-1 {
			j.active = s
		} else if s.left == 0 {
			j.over = append(j.over, s)
		}
	}
	j.synced = j.next - 1
	j.segments = slices.DeleteFunc(j.segments, func(s *segment) bool { return slices.Contains(j.over, s) })
	j.sweep()
	return j.disk.syncDir(j.dir)
}

// fail ends the journal's use: what is on the disk is not known any more. The lock is held.
func (j *Journal) fail(err error) error {
	if j.failed == nil {
		j.failed = fmt.Errorf("journal: %w: the disk failed: %w; see to it, and start again", haulier.ErrUnavailable, err)
		j.stir()
	}
	return j.failed
}

// stir wakes those who wait for lines. The lock is held.
func (j *Journal) stir() {
	close(j.changed)
	j.changed = make(chan struct{})
}

// queued is a Write on its way to the file.
type queued struct {
	bodies      [][]byte
	size        int // bytes, about
	first, last uint64
	err         error
	done        chan struct{}
}

// Write appends jobs that belong together: after a crash, all of them are there or none. They are acknowledged only by a Sync that
// follows. It returns the sequences of the first and last. ErrInvalid: a job that is not plain, or has no id. ErrUnavailable: the disk
// or the journal is full; nothing was written. When ctx ends meanwhile, they may be written or not.
func (j *Journal) Write(ctx context.Context, entries []Entry) (first, last uint64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	w := &queued{done: make(chan struct{})}
	if w.bodies, w.size, err = j.encode(entries); err != nil {
		return 0, 0, fmt.Errorf("journal: %w", err)
	}
	if err := j.queue(w); err != nil {
		return 0, 0, err
	}
	j.sweep()
	select {
	case <-w.done:
		return w.first, w.last, w.err
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	}
}

// queue brings a Write to the file, at once or when the sync under way has ended: the disk makes who appends to what it is just
// syncing wait, and all others who want the lock with them.
func (j *Journal) queue(w *queued) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	total := j.bytes()
	for _, other := range j.writes {
		total += int64(other.size)
	}
	if total+int64(w.size) > j.MaxBytes {
		return fmt.Errorf("journal: %w: it is full, with %d bytes that were not ingested yet; see that they are", haulier.ErrUnavailable, total)
	}
	j.writes = append(j.writes, w)
	if j.syncing == nil {
		j.flush()
	}
	return nil
}

// flush writes what is queued. The lock is held, and no sync under way.
func (j *Journal) flush() {
	for rest := j.writes; len(rest) > 0; {
		n, size := 1, rest[0].size
		for n < len(rest) && size+rest[n].size <= maxWrite {
			size += rest[n].size
			n++
		}
		err := j.append(rest[:n], size)
		for _, w := range rest[:n] {
			w.err = err
			close(w.done)
		}
		rest = rest[n:]
	}
	j.writes = nil
}

// encode makes lines without sequence and checksum, and bounds their size.
func (j *Journal) encode(entries []Entry) (bodies [][]byte, size int, err error) {
	if len(entries) == 0 || len(entries) > maxJobs {
		return nil, 0, fmt.Errorf("%w: %d jobs to write at once: from 1 to %d", haulier.ErrInvalid, len(entries), maxJobs)
	}
	bodies = make([][]byte, len(entries))
	now := j.Now()
	for i := range entries {
		e := entries[i]
		e.Nth, e.Of = i+1, len(entries)
		if e.At.IsZero() {
			e.At = now
		}
		if e.Job.ID.IsNil() || !Plain(&e.Job) {
			return nil, 0, fmt.Errorf("jobs[%d]: %w: a journal takes plain jobs with an id alone: enqueue others at the server", i, haulier.ErrInvalid)
		}
		if bodies[i], err = appendBody(nil, &e); err != nil {
			return nil, 0, fmt.Errorf("jobs[%d]: %w", i, err)
		}
		size += len(bodies[i]) + 32
	}
	if size > maxWrite {
		return nil, 0, fmt.Errorf("%w: the jobs take %d bytes, at most %d at once: write fewer", haulier.ErrTooLarge, size, maxWrite)
	}
	return bodies, size, nil
}

// append adds lines to the newest segment, all or none. The lock is held.
func (j *Journal) append(list []*queued, size int) error {
	if j.failed != nil {
		return j.failed
	}
	if err := j.rotate(); err != nil {
		return err
	}
	s := j.active
	text := make([]byte, 0, size)
	seq := j.next
	lines := 0
	for _, w := range list {
		w.first = seq
		for _, body := range w.bodies {
			text = appendLine(text, seq, body)
			seq++
		}
		w.last = seq - 1
		lines += len(w.bodies)
	}
	if _, err := s.lines.WriteAt(text, s.size); err != nil {
		if cut := s.lines.Truncate(s.size); cut != nil {
			return j.fail(cut)
		}
		return fmt.Errorf("journal: %w: %w; nothing was written", haulier.ErrUnavailable, err)
	}
	j.give(span{seg: s, from: s.size, to: s.size + int64(len(text))})
	s.size += int64(len(text))
	s.left += lines
	j.next = seq
	return nil
}

// bytes are those of all lines on disk. The lock is held.
func (j *Journal) bytes() (n int64) {
	for _, s := range j.segments {
		n += s.size
	}
	return n
}

// rotate begins a new segment when there is none or the newest is large or old enough. The lock is held.
func (j *Journal) rotate() error {
	if s := j.active; s != nil && (s.size == 0 || s.size < j.SegmentBytes && j.Now().Sub(s.born) < j.SegmentAge) {
		return nil
	}
	s := &segment{first: j.next, path: segmentPath(j.dir, j.next), born: j.Now()}
	err := s.create(j.disk)
	if err == nil {
		err = j.disk.syncDir(j.dir)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("journal: %w: %w", haulier.ErrUnavailable, err), s.close())
	}
	if old := j.active; old != nil && old.left == 0 {
		j.forget(old)
	}
	j.segments, j.active = append(j.segments, s), s
	return nil
}

// forget takes a segment of which nothing is needed off the list, and leaves its files to sweep. The lock is held.
func (j *Journal) forget(s *segment) {
	j.segments = slices.DeleteFunc(j.segments, func(other *segment) bool { return other == s })
	j.over = append(j.over, s)
}

// sweep removes the files of segments of which nothing is needed. The lock is not held.
func (j *Journal) sweep() {
	j.mu.Lock()
	over := j.over
	j.over = nil
	j.mu.Unlock()
	for _, s := range over {
		j.discard(s)
	}
}

// discard removes a segment's files: the lines first, and for good, as marks without lines mean nothing.
func (j *Journal) discard(s *segment) {
	err := s.close()
	if s.damaged > 0 {
		err = errors.Join(err, j.disk.rename(s.path+linesExt, s.path+damagedExt))
	} else {
		err = errors.Join(err, j.disk.remove(s.path+linesExt))
	}
	if err == nil {
		err = j.disk.syncDir(j.dir)
	}
	if err == nil {
		err = j.disk.remove(s.path + doneExt)
	}
	if err != nil {
		j.Log.Warn("journal: a file that is not needed any more stays until the next start", "file", s.path, "err", err)
	}
}

// Sync waits until all that was written before is on stable storage, which acknowledges it. Callers at the same time share a sync.
// When it fails, the journal is of no use until it is opened again.
func (j *Journal) Sync(ctx context.Context) error {
	defer j.sweep() // of what the flush after a sync has left
	j.mu.Lock()
	defer j.mu.Unlock()
	target := j.next - 1
	for {
		if j.failed != nil {
			return j.failed
		}
		if j.synced >= target {
			return nil
		}
		if j.syncing == nil {
			j.syncRound()
			continue
		}
		round := j.syncing
		j.mu.Unlock()
		var err error
		select {
		case <-round:
		case <-ctx.Done():
			err = ctx.Err()
		}
		j.mu.Lock()
		if err != nil {
			return err
		}
	}
}

// syncRound brings all that is written to stable storage. The lock is held, but not while the disk works.
func (j *Journal) syncRound() {
	j.syncing = make(chan struct{})
	upTo := j.next - 1
	var list []*segment
	var sizes []int64
	for _, s := range j.segments {
		if s.synced < s.size {
			list, sizes = append(list, s), append(sizes, s.size)
		}
	}
	j.mu.Unlock()
	var err error
	for _, s := range list {
		if err = s.lines.Sync(); err != nil {
			break
		}
	}
	j.mu.Lock()
	if err != nil {
		_ = j.fail(err) // which the callers find
	} else {
		for i, s := range list {
			s.synced = sizes[i]
		}
		j.synced = upTo
		j.stir()
	}
	close(j.syncing)
	j.syncing = nil
	j.flush()
}

// Standing is how a journal stands.
type Standing struct {
	Lines    int   // that are not done
	Reserved int   // of them, by leases that hold
	Bytes    int64 // on disk, of lines
	Files    int   // segments
}

// Standing returns how the journal stands.
func (j *Journal) Standing() (s Standing) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.expire()
	for _, seg := range j.segments {
		s.Lines += seg.left
	}
	for _, r := range j.held {
		s.Reserved += len(r.entries)
	}
	s.Bytes, s.Files = j.bytes(), len(j.segments)
	return s
}

// Close syncs what was written, and closes the files. Others that use the journal are told that it is closed.
func (j *Journal) Close() error {
	err := j.Sync(context.Background())
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.syncing != nil {
		round := j.syncing
		j.mu.Unlock()
		<-round
		j.mu.Lock()
	}
	if j.lock == nil {
		return nil // closed before
	}
	if j.failed == nil {
		j.failed = fmt.Errorf("journal: %w: it was closed; open it again", haulier.ErrUnavailable)
	}
	j.stir()
	return errors.Join(err, j.closeFiles())
}

func (j *Journal) closeFiles() (err error) {
	for _, s := range append(j.segments, j.over...) {
		err = errors.Join(err, s.close())
	}
	err = errors.Join(err, j.lock.Close())
	j.lock = nil
	return err
}
