package process

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/haulier/haulier/joblog"
)

// spool keeps the output of one command as log frames: its head, and of what
// goes beyond the newest part, the tail. A little output stays in memory; more
// of it is in a file of bounded size:
//
//	| head, at most maxHead | ring of tailParts segments |
//
// While the command runs, only the head can be read. Sealing it fixes what is kept: head, a note that says
// how much was cut, tail. Offsets count the bytes of that, so they have no gaps.
type spool struct {
	path             string
	maxHead, maxTail int64

	mu     sync.Mutex
	mem    []byte // the head, as long as there is no file
	file   *os.File
	head   int64     // bytes of the head
	inTail bool      // the head is full
	ring   []segment // of the tail, the oldest first; the last one grows
	slot   int       // where in the file the next segment goes
	cut    int64     // bytes of data, not of frames, that were dropped
	broken error     // why the file can't be written; what came after is dropped
	sealed []extent
	size   int64 // once sealed
	gone   bool
}

// segment is a part of the tail within the file.
type segment struct {
	at, size int64
	data     int64 // bytes of data in its frames
}

// extent is a part of the sealed output: of the file, or of the memory.
type extent struct {
	at, size int64
	mem      []byte
}

const (
	inMemory  = 16 << 10 // bytes of output that need no file
	tailParts = 5        // segments of the ring; all but one are full, each of a quarter of maxTail
	readChunk = 64 << 10 // more than the largest frame
)

func newSpool(path string, head, tail int64) *spool {
	return &spool{path: path, maxHead: max(head, joblog.MaxFrame*2), maxTail: max(tail, joblog.MaxFrame*2)}
}

// add appends data of a stream, and reports whether there is more to read.
func (s *spool) add(stream joblog.Stream, at time.Time, data []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed != nil || s.gone {
		return false
	}
	grew := false
	var frame []byte
	for len(data) > 0 {
		part := data[:min(len(data), joblog.MaxFrame)]
		data = data[len(part):]
		frame = joblog.Append(frame[:0], stream, at, part)
		if !s.inTail && s.head+int64(len(frame)) > s.maxHead {
			s.inTail = true
		}
		if s.inTail {
			s.addTail(frame, int64(len(part)))
			continue
		}
		if s.addHead(frame) {
			grew = true
		} else {
			s.cut += int64(len(part))
		}
	}
	return grew
}

func (s *spool) addHead(frame []byte) bool {
	if s.file == nil && len(s.mem)+len(frame) <= inMemory {
		s.mem = append(s.mem, frame...)
		s.head += int64(len(frame))
		return true
	}
	if !s.open() || !s.write(frame, s.head) {
		s.inTail = true // what follows must not join on after a gap
		return false
	}
	s.head += int64(len(frame))
	return true
}

// open makes the file and moves what is in memory into it.
func (s *spool) open() bool {
	if s.file != nil || s.broken != nil {
		return s.broken == nil
	}
	f, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		s.broken = err
		return false
	}
	s.file = f
	if !s.write(s.mem, 0) {
		f.Close()
		s.file = nil
		return false
	}
	s.mem = nil
	return true
}

func (s *spool) write(b []byte, at int64) bool {
	if s.broken != nil {
		return false
	}
	_, s.broken = s.file.WriteAt(b, at)
	return s.broken == nil
}

func (s *spool) addTail(frame []byte, data int64) {
	part := s.maxTail / (tailParts - 1)
	last := len(s.ring) - 1
	if last < 0 || s.ring[last].size >= part {
		if len(s.ring) == tailParts {
			s.cut += s.ring[0].data // the new segment takes the place of the oldest
			s.ring = append(s.ring[:0], s.ring[1:]...)
		}
		s.ring = append(s.ring, segment{at: s.maxHead + int64(s.slot)*(part+joblog.MaxFrame*2)})
		s.slot = (s.slot + 1) % tailParts
		last = len(s.ring) - 1
	}
	seg := &s.ring[last]
	if !s.open() || !s.write(frame, seg.at+seg.size) {
		s.cut += data
		return
	}
	seg.size += int64(len(frame))
	seg.data += data
}

// seal ends the output and returns its size. Nothing can be added any more.
func (s *spool) seal(now time.Time) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed != nil {
		return s.size
	}
	s.trimTail()
	s.sealed = []extent{{size: s.head, mem: s.mem}}
	if s.cut > 0 {
		text := fmt.Sprintf("%d bytes of output were cut here; the first and the last of it are kept\n", s.cut)
		if s.broken != nil {
			text = fmt.Sprintf("%d bytes of output were cut here, since they could not be kept: %v\n", s.cut, s.broken)
		}
		note := joblog.Append(nil, joblog.Note, now, []byte(text))
		s.sealed = append(s.sealed, extent{size: int64(len(note)), mem: note})
	}
	for _, seg := range s.ring {
		s.sealed = append(s.sealed, extent{at: seg.at, size: seg.size})
	}
	for _, e := range s.sealed {
		s.size += e.size
	}
	return s.size
}

// trimTail drops the oldest frames of the ring that are more than maxTail.
func (s *spool) trimTail() {
	over := -s.maxTail
	for _, seg := range s.ring {
		over += seg.size
	}
	for over > 0 && len(s.ring) > 0 {
		first := &s.ring[0]
		b := make([]byte, first.size)
		if _, err := s.file.ReadAt(b, first.at); err != nil {
			b = nil
		}
		for over > 0 {
			f, n, err := joblog.Next(b)
			if err != nil {
				over -= first.size
				s.cut += first.data
				s.ring = s.ring[1:]
				break
			}
			b, over = b[n:], over-int64(n)
			first.at, first.size, first.data = first.at+int64(n), first.size-int64(n), first.data-int64(len(f.Data))
			s.cut += int64(len(f.Data))
		}
	}
}

// read returns whole frames from the offset on, of at most limit bytes; none when there are no more yet, or no
// frame fits. The result may share memory with the spool.
func (s *spool) read(offset, limit int64) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	extents := s.sealed
	if extents == nil {
		extents = []extent{{size: s.head, mem: s.mem}}
	}
	for _, e := range extents {
		if offset >= e.size {
			offset -= e.size
			continue
		}
		return s.cutFrames(e, offset, min(e.size-offset, limit, readChunk))
	}
	return nil, nil
}

func (s *spool) cutFrames(e extent, from, n int64) ([]byte, error) {
	var b []byte
	if e.mem != nil {
		b = e.mem[from : from+n]
	} else {
		b = make([]byte, n)
		if _, err := s.file.ReadAt(b, e.at+from); err != nil {
			return nil, fmt.Errorf("read spool: %w", err)
		}
	}
	whole, err := joblog.Whole(b)
	return b[:whole], err
}

// remove drops the output and its file.
func (s *spool) remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	s.mem, s.sealed, s.ring = nil, []extent{}, nil
	if s.file != nil {
		s.file.Close()
		os.Remove(s.path)
		s.file = nil
	}
}
