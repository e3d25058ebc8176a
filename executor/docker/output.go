package docker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/moby/moby/client"

	"github.com/haulier/haulier/executor"
	"github.com/haulier/haulier/joblog"
)

// Output kept of a container, in bytes. The server cuts at 4 MiB each; less keeps all of this.
const (
	keepHead = 4<<20 - 64<<10
	keepTail = 4<<20 - 64<<10
)

const (
	maxEntry  = 1 << 20  // bytes of one entry of the engine's log; it cuts lines at 16 KiB
	batchSize = 32 << 10 // bytes of output that are handed over at once
)

// position is a place in the engine's log, and how far the attempt's output goes there.
type position struct {
	Offset int64     `json:"offset"`
	At     time.Time `json:"at"` // of the last entry before it
	N      int       `json:"n"`  // entries of just that time before it
}

// output makes frames of the entries of the engine's log, always the same of the same entries. So a worker that takes over goes
// on where the server has been acknowledged to be: the place is kept in a file, which may lag behind, since the server
// drops what it has. What goes beyond the head stays in memory, of bounded size, until the end.
type output struct {
	path string
	sink executor.Sink

	now  position // after the last entry of the head
	buf  []byte   // frames to be handed over
	from int64    // offset of buf
	full bool     // the head is
	tail [][]byte // frames beyond it
	size int64    // of the tail
	cut  int64    // bytes of data that were dropped

	mu    sync.Mutex
	marks []position // handed over and not acknowledged
	acked position
	saved int64
}

// openOutput goes on where a former worker stopped, if there was one.
func openOutput(path string, sink executor.Sink) *output {
	o := &output{path: path, sink: sink}
	if b, err := os.ReadFile(path); err == nil {
		_ = json.Unmarshal(b, &o.now) // of a file that was not written to its end nothing is taken: all is sent again
	}
	o.from, o.acked, o.saved = o.now.Offset, o.now, o.now.Offset
	return o
}

// ack notes what the server has. It does not block.
func (o *output) ack(offset int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for n < len(o.marks) && o.marks[n].Offset <= offset {
		o.acked = o.marks[n]
		n++
	}
	o.marks = append(o.marks[:0], o.marks[n:]...)
}

// save writes down what the server has, if that is more than before.
func (o *output) save() {
	o.mu.Lock()
	p := o.acked
	o.mu.Unlock()
	if p.Offset == o.saved {
		return
	}
	b, err := json.Marshal(p)
	if err == nil {
		err = os.WriteFile(o.path, b, 0o600)
	}
	if err == nil {
		o.saved = p.Offset
	}
}

// rewind forgets what was read beyond the head, for a reader that begins again.
func (o *output) rewind() position {
	o.full, o.tail, o.size, o.cut = false, nil, 0, 0
	return o.now
}

// add takes an entry of the log.
func (o *output) add(ctx context.Context, stream joblog.Stream, at time.Time, data []byte) error {
	before := o.now
	if at.Equal(o.now.At) {
		o.now.N++
	} else {
		o.now.At, o.now.N = at, 1
	}
	frame := joblog.Append(nil, stream, at, data)
	if !o.full && o.now.Offset+int64(len(frame)) > keepHead {
		o.full = true
	}
	if o.full {
		o.now = before // a reader that begins again reads the tail anew
		o.keep(frame)
		return nil
	}
	o.buf = append(o.buf, frame...)
	o.now.Offset += int64(len(frame))
	if len(o.buf) >= batchSize {
		return o.flush(ctx)
	}
	return nil
}

// keep adds to the tail, and drops the oldest of it.
func (o *output) keep(frame []byte) {
	o.tail, o.size = append(o.tail, frame), o.size+int64(len(frame))
	for o.size > keepTail {
		text, _ := joblog.Text(o.tail[0]) // of our own making
		o.cut += int64(len(text))
		o.size -= int64(len(o.tail[0]))
		o.tail[0] = nil
		o.tail = o.tail[1:]
	}
}

// flush hands over what was read.
func (o *output) flush(ctx context.Context) error {
	if len(o.buf) == 0 {
		return nil
	}
	o.save()
	o.mu.Lock()
	o.marks = append(o.marks, o.now)
	o.mu.Unlock()
	err := o.sink.Log(ctx, o.from, o.buf)
	o.from, o.buf = o.now.Offset, o.buf[:0]
	return err
}

// close hands over the tail, and a note; at is when the container ended.
func (o *output) close(ctx context.Context, at time.Time, note string) error {
	if o.cut > 0 {
		o.buf = joblog.Append(o.buf, joblog.Note, at, fmt.Appendf(nil, "%d bytes of output were cut here; the first and the last of it are kept\n", o.cut))
	}
	for _, frame := range o.tail {
		o.buf = append(o.buf, frame...)
		if len(o.buf) >= batchSize {
			if err := o.flushEnd(ctx); err != nil {
				return err
			}
		}
	}
	o.buf = joblog.Append(o.buf, joblog.Note, at, []byte(note))
	return o.flushEnd(ctx)
}

// flushEnd is flush without a mark: who takes over reads the tail again.
func (o *output) flushEnd(ctx context.Context) error {
	if len(o.buf) == 0 {
		return nil
	}
	err := o.sink.Log(ctx, o.from, o.buf)
	o.from += int64(len(o.buf))
	o.buf = o.buf[:0]
	return err
}

// follow reads the engine's log to its end, which comes with that of the container. A reader that breaks begins again where it was.
// Engines end the stream before the last of it was written; so at the end it is read once more.
func (a *attempt) follow(ctx context.Context) error {
	for live := true; ; {
		err := a.read(ctx, live)
		if missing(err) || errors.Is(err, errSink) {
			return err
		}
		if err == nil {
			err = a.ceased(ctx)
		}
		if err == nil && !live {
			return nil
		}
		if err == nil {
			live = false
			continue
		}
		if !pause(ctx, askAgain) {
			return ctx.Err()
		}
	}
}

// errSink tells a worker that does not take output from an engine that does not give it.
var errSink = errors.New("the worker takes no more output")

// read takes what there is of the log from where the output goes on; live: until the engine ends it.
func (a *attempt) read(ctx context.Context, live bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begin := a.out.rewind()
	opts := client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Timestamps: true, Follow: live}
	if begin.N > 0 {
		opts.Since = strconv.FormatInt(begin.At.Unix(), 10) + fmt.Sprintf(".%09d", begin.At.Nanosecond())
	}
	logs, err := a.x.cli.ContainerLogs(ctx, a.id, opts)
	if err != nil {
		return err
	}
	defer logs.Close()
	in := bufio.NewReaderSize(logs, 64<<10)
	skip := begin.N
	var entry []byte
	for {
		if in.Buffered() == 0 {
			if err := a.out.flush(ctx); err != nil {
				return errors.Join(errSink, err)
			}
		}
		var stream joblog.Stream
		stream, entry, err = nextEntry(in, entry)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		at, data := cutTime(entry)
		if begin.N > 0 && (at.Before(begin.At) || at.Equal(begin.At) && skip > 0) {
			if at.Equal(begin.At) {
				skip--
			}
			continue
		}
		if err := a.out.add(ctx, stream, at, data); err != nil {
			return errors.Join(errSink, err)
		}
	}
	if err := a.out.flush(ctx); err != nil {
		return errors.Join(errSink, err)
	}
	return nil
}

// ceased is nil when the container does not run: then there is no more output. An engine that restarts ends the stream too.
func (a *attempt) ceased(ctx context.Context) error {
	c, err := a.inspect(ctx)
	if err == nil && c.Container.State != nil && c.Container.State.Running {
		return errors.New("the log ended before the container")
	}
	return err
}

// nextEntry reads one entry of the log as the API has it:
//
//	stream (1 byte: 1 stdout, 2 stderr) | 3 bytes of zero | length (4 bytes, big endian) | time in RFC 3339 | space | data
//
// io.EOF: there are no more.
func nextEntry(in *bufio.Reader, buf []byte) (joblog.Stream, []byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return 0, buf, err
	}
	size := binary.BigEndian.Uint32(head[4:])
	if head[0] < 1 || head[0] > 2 || size > maxEntry {
		return 0, buf, fmt.Errorf("the engine's log has an entry of stream %d with %d bytes, which is none", head[0], size)
	}
	if uint32(cap(buf)) < size {
		buf = make([]byte, size)
	}
	buf = buf[:size]
	if _, err := io.ReadFull(in, buf); err != nil {
		return 0, buf, io.ErrUnexpectedEOF
	}
	if head[0] == 2 {
		return joblog.Stderr, buf, nil
	}
	return joblog.Stdout, buf, nil
}

// cutTime splits an entry. One without a time, which no engine writes, is all data.
func cutTime(entry []byte) (time.Time, []byte) {
	if stamp, data, ok := bytes.Cut(entry, []byte(" ")); ok {
		if at, err := time.Parse(time.RFC3339Nano, string(stamp)); err == nil {
			return at.UTC(), data
		}
	}
	return time.Unix(0, 0).UTC(), entry
}

// lastLine is the last line of the standard output that is not blank, as far as a result goes.
func (a *attempt) lastLine(ctx context.Context, most int) []byte {
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	logs, err := a.x.cli.ContainerLogs(ctx, a.id, client.ContainerLogsOptions{ShowStdout: true, Tail: "100"})
	if err != nil {
		return nil
	}
	defer logs.Close()
	var text, entry []byte
	in := bufio.NewReader(logs)
	for {
		if _, entry, err = nextEntry(in, entry); err != nil {
			break
		}
		text = append(text, entry...)
	}
	text = bytes.TrimRight(text, " \t\r\n")
	line := bytes.TrimRight(text[bytes.LastIndexByte(text, '\n')+1:], " \t\r")
	return line[:min(len(line), most)]
}
