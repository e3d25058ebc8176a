package journal

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/haulier/haulier"
)

// A segment is two files, named after the sequence of its first line:
//
//	00000000000000000017.journal  lines
//	00000000000000000017.done     which of them are done: lines of first-last|checksum
//
// It goes when all of its lines are done. With damaged lines in it, it stays as 00000000000000000017.damaged.
const (
	linesExt   = ".journal"
	doneExt    = ".done"
	damagedExt = ".damaged"
)

// segment is one of them. Its fields belong to the journal's lock, but for those of marks.
type segment struct {
	first   uint64
	path    string // without what it ends in
	lines   file
	size    int64 // bytes of whole writes
	synced  int64 // bytes on stable storage
	left    int   // lines that are not done
	damaged int   // lines that can't be read
	born    time.Time

	marks    sync.Mutex
	done     file
	doneSize int64
}

// span is whole lines of a segment, one after the other, without the damaged.
type span struct {
	seg      *segment
	from, to int64
}

func compareSpans(a, b span) int {
	return cmp.Or(cmp.Compare(a.seg.first, b.seg.first), cmp.Compare(a.from, b.from))
}

func segmentPath(dir string, first uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%020d", first))
}

// segmentsOf are the first sequences of those in a folder, in order, and of marks whose lines are gone.
func segmentsOf(names []string) (firsts []uint64, orphans []string) {
	for _, name := range names {
		if base, ok := strings.CutSuffix(name, linesExt); ok {
			if n, err := strconv.ParseUint(base, 10, 64); err == nil && n > 0 {
				firsts = append(firsts, n)
			}
		}
		if base, ok := strings.CutSuffix(name, doneExt); ok && !slices.Contains(names, base+linesExt) {
			orphans = append(orphans, name)
		}
	}
	slices.Sort(firsts)
	return firsts, orphans
}

// found is what a segment turned out to have.
type found struct {
	spans []span // lines that are not done
	last  uint64 // highest sequence that its files know
	cut   int64  // bytes cut from its end
}

// recover reads a segment's files. What follows the last whole request is cut off: it was never acknowledged.
func (s *segment) recover(fs disk) (f found, err error) {
	if s.lines, err = fs.open(s.path + linesExt); err != nil {
		return f, err
	}
	text, err := contentOf(s.lines)
	if err != nil {
		return f, err
	}
	ended, err := s.readMarks(fs)
	if err != nil {
		return f, err
	}
	for _, m := range ended {
		f.last = max(f.last, m.last)
	}
	keep := wholeEnd(text)
	if f.cut = int64(len(text)) - keep; f.cut > 0 {
		if err := s.lines.Truncate(keep); err != nil {
			return f, err
		}
	}
	s.size, s.synced = keep, keep
	s.collect(text[:keep], ended, &f)
	return f, s.lines.Sync()
}

// contentOf reads a file.
func contentOf(f file) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b := make([]byte, info.Size())
	n, err := f.ReadAt(b, 0)
	if err == io.EOF { //nolint:errorlint // ReaderAt returns this very value
		err = nil
	}
	return b[:n], err
}

// wholeEnd is where the last line of the text ends that is well and the last of its request.
func wholeEnd(text []byte) (end int64) {
	at := 0
	for {
		n := bytes.IndexByte(text[at:], '\n')
		if n < 0 {
			return end
		}
		if e, _, ok := parseHead(text[at : at+n]); ok && e.Nth == e.Of {
			end = int64(at + n + 1)
		}
		at += n + 1
	}
}

// collect makes spans of the lines that are neither damaged nor done.
func (s *segment) collect(text []byte, ended []mark, f *found) {
	var now span // the one that grows
	flush := func() {
		if now.seg != nil {
			f.spans = append(f.spans, now)
		}
		now = span{}
	}
	for at := 0; at < len(text); {
		n := bytes.IndexByte(text[at:], '\n') // there is one: the text ends with a whole request
		e, _, ok := parseHead(text[at : at+n])
		if ok {
			f.last = max(f.last, e.Seq)
		}
		switch {
		case text[at] == '#': // a remark, as RefusedFile has
			flush()
		case !ok:
			s.damaged++
			flush()
		case slices.ContainsFunc(ended, func(m mark) bool { return m.first <= e.Seq && e.Seq <= m.last }):
			flush()
		default:
			if now.seg == nil {
				now = span{seg: s, from: int64(at)}
			}
			s.left++
			now.to = int64(at + n + 1)
		}
		at += n + 1
	}
	flush()
}

// mark says that lines are done.
type mark struct{ first, last uint64 }

func (m mark) append(b []byte) []byte {
	start := len(b)
	b = strconv.AppendUint(b, m.first, 10)
	b = append(b, '-')
	b = strconv.AppendUint(b, m.last, 10)
	return appendSum(b, start)
}

func parseMark(line []byte) (m mark, ok bool) {
	line, ok = summed(line)
	if !ok {
		return m, false
	}
	first, last, _ := strings.Cut(string(line), "-")
	m.first, _ = strconv.ParseUint(first, 10, 64)
	m.last, _ = strconv.ParseUint(last, 10, 64)
	return m, 0 < m.first && m.first <= m.last
}

// readMarks reads which lines are done. A damaged mark is none: its lines are given again, which is safe.
func (s *segment) readMarks(fs disk) ([]mark, error) {
	f, err := fs.open(s.path + doneExt)
	if err != nil {
		return nil, err
	}
	s.done = f
	text, err := contentOf(f)
	if err != nil {
		return nil, err
	}
	var list []mark
	at := 0
	for {
		n := bytes.IndexByte(text[at:], '\n')
		if n < 0 {
			break
		}
		if m, ok := parseMark(text[at : at+n]); ok {
			list = append(list, m)
		}
		at += n + 1
	}
	s.doneSize = int64(at)
	if at < len(text) {
		err = f.Truncate(s.doneSize)
	}
	return joined(list), err
}

// joined makes one of marks that follow each other.
func joined(list []mark) []mark {
	slices.SortFunc(list, func(a, b mark) int { return cmp.Compare(a.first, b.first) })
	out := list[:0]
	for _, m := range list {
		if n := len(out) - 1; n >= 0 && m.first <= out[n].last+1 {
			out[n].last = max(out[n].last, m.last)
			continue
		}
		out = append(out, m)
	}
	return out
}

// markDone writes that lines are done, durably. broken: what is on the disk is not known any more.
func (s *segment) markDone(m mark) (broken bool, err error) {
	s.marks.Lock()
	defer s.marks.Unlock()
	text := m.append(nil)
	if _, err := s.done.WriteAt(text, s.doneSize); err != nil {
		return s.done.Truncate(s.doneSize) != nil, err
	}
	if err := s.done.Sync(); err != nil {
		return true, err
	}
	s.doneSize += int64(len(text))
	return false, nil
}

// read returns the entries of a piece of the segment: whole requests, of n lines or one of more, and where they end.
func (s *segment) read(from, limit int64, n int) (list []Entry, to int64, err error) {
	for size := min(limit-from, 256<<10); ; size = min(limit-from, 4*size) {
		buf := make([]byte, size)
		if k, err := s.lines.ReadAt(buf, from); k < len(buf) {
			return nil, 0, fmt.Errorf("%s: %w", s.path+linesExt, err)
		}
		list, to, err = entriesOf(buf, n, size == limit-from)
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", s.path+linesExt, err)
		}
		if len(list) > 0 {
			return list, from + to, nil
		}
		if size == limit-from {
			return nil, 0, fmt.Errorf("%w: %s has no line at byte %d", haulier.ErrCorrupt, s.path+linesExt, from)
		}
	}
}

// entriesOf parses whole requests at the beginning of text. At the end of a span, a request may have lost the rest of it to damage.
func entriesOf(text []byte, n int, end bool) (list []Entry, to int64, err error) {
	whole := 0
	for at := 0; ; {
		k := bytes.IndexByte(text[at:], '\n')
		if k < 0 {
			if end && len(list) > whole && (whole == 0 || len(list) <= n) {
				return list, int64(at), nil
			}
			return list[:whole], to, nil
		}
		e, err := parseLine(text[at : at+k])
		if err != nil {
			return nil, 0, err
		}
		list = append(list, e)
		at += k + 1
		if e.Nth < e.Of {
			continue
		}
		if whole > 0 && len(list) > n {
			return list[:whole], to, nil
		}
		if whole, to = len(list), int64(at); whole >= n {
			return list, to, nil
		}
	}
}

// create makes the files of a new segment.
func (s *segment) create(fs disk) (err error) {
	if s.lines, err = fs.open(s.path + linesExt); err != nil {
		return err
	}
	s.done, err = fs.open(s.path + doneExt)
	return err
}

func (s *segment) close() (err error) {
	if s.lines != nil {
		err = s.lines.Close()
	}
	if s.done != nil {
		if e := s.done.Close(); err == nil {
			err = e
		}
	}
	return err
}
