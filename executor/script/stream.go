package script

import (
	"bytes"
	"os"
	"sync"
	"time"

	"github.com/haulier/haulier/joblog"
)

// streams tells which output of a context belongs to which job. A mark that the handlers do not know ends what belongs
// to one; what follows is the next one's.
//
//	output of job 0, MARK, output of job 1, MARK, …     on standard output and on standard error alike
type streams struct {
	mark []byte

	mu    sync.Mutex
	moved sync.Cond // when a mark or an end came
	jobs  []*attempt
	at    [2]int  // place of the job that a stream's output belongs to
	over  [2]bool // the stream has ended
	busy  int     // streams of which something is being handed on
}

func newStreams(mark []byte) *streams {
	s := &streams{mark: mark}
	s.moved.L = &s.mu
	return s
}

// begin says whose output comes next.
func (s *streams) begin(jobs []*attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs, s.at = jobs, [2]int{}
}

// markWait is how long a mark may take that was written before the line that came.
const markWait = 2 * time.Second

// await waits until all output of the job at the place is in its log; false: its end does not come.
func (s *streams) await(place int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.until(func(i int) bool { return s.at[i] > place || s.over[i] })
}

// broken reports whether a stream has ended: what later jobs say would be lost.
func (s *streams) broken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over[0] || s.over[1]
}

// drained waits until all output is in the logs, after the context has ended.
func (s *streams) drained() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until(func(i int) bool { return s.over[i] })
}

// until waits until both streams are as is says, for at most markWait in which they hand on nothing. It is called with the lock held.
func (s *streams) until(is func(i int) bool) bool {
	if is(0) && is(1) {
		return true
	}
	late := false
	var timer *time.Timer
	timer = time.AfterFunc(markWait, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.busy > 0 { // the server is slow to take it
			timer.Reset(markWait)
			return
		}
		late = true
		s.moved.Broadcast()
	})
	defer timer.Stop()
	for !(is(0) && is(1)) {
		if late {
			return false
		}
		s.moved.Wait()
	}
	return true
}

// read reads a stream to its end.
func (s *streams) read(i int, f *os.File) {
	buf := make([]byte, 32<<10)
	n := 0 // bytes in buf that may begin a mark
	for {
		m, err := f.Read(buf[n:])
		rest := s.split(i, buf[:n+m])
		n = copy(buf, rest)
		if err != nil {
			s.write(i, buf[:n])
			s.mu.Lock()
			s.over[i] = true
			s.moved.Broadcast()
			s.mu.Unlock()
			return
		}
	}
}

// split writes output up to the last mark, and returns what is left when it may begin another.
func (s *streams) split(i int, data []byte) []byte {
	for {
		before, after, found := bytes.Cut(data, s.mark)
		if !found {
			break
		}
		s.write(i, before)
		s.mu.Lock()
		s.at[i]++
		s.moved.Broadcast()
		s.mu.Unlock()
		data = after
	}
	hold := min(len(data), len(s.mark)-1)
	for hold > 0 && !bytes.HasPrefix(s.mark, data[len(data)-hold:]) {
		hold--
	}
	s.write(i, data[:len(data)-hold])
	return data[len(data)-hold:]
}

func (s *streams) write(i int, data []byte) {
	if len(data) == 0 {
		return
	}
	s.mu.Lock()
	var a *attempt
	if s.at[i] < len(s.jobs) {
		a = s.jobs[s.at[i]]
	}
	s.busy++
	s.mu.Unlock()
	if a != nil {
		a.log(joblog.Stdout+joblog.Stream(i), data)
	}
	s.mu.Lock()
	s.busy--
	s.mu.Unlock()
}
