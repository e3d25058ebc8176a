package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/joblog"
)

// An attempt's output is a sequence of log frames, kept as documents of the
// kind "log" while it grows:
//
//	JOB/ATTEMPT/OFFSET   frames from that offset on, at most chunkSize bytes
//	JOB/ATTEMPT/blob     when the attempt has ended with much output: the blob that took the chunks' place
//
// Of more output than is to be kept, the chunks between head and tail are removed.
const (
	chunkSize    = 64 << 10
	blobFrom     = 128 << 10 // output of this size becomes a blob when the attempt ends
	defaultKeep  = 4 << 20
	outputMarker = "blob"
	resultMarker = "result" // names the blob of the result, which a later attempt does not end
)

// segment is a run of bytes of an attempt's output.
type segment struct {
	From int64 `json:"from"`
	Size int64 `json:"size"`
}

// outputBlob is the marker document: the blob holds the segments one after the other.
type outputBlob struct {
	Blob     string    `json:"blob"`
	Size     int64     `json:"size"` // offset after the last byte, cut parts counted
	Segments []segment `json:"segments"`
}

// outputs knows the live attempts that have output.
type outputs struct {
	head, tail int64
	mu         sync.Mutex
	live       map[haulier.Ref]*output
}

func newOutputs(head, tail int64) *outputs {
	if head <= 0 {
		head = defaultKeep
	}
	if tail <= 0 {
		tail = defaultKeep
	}
	return &outputs{head: head, tail: tail, live: map[haulier.Ref]*output{}}
}

// output is what is kept of one attempt's output. It stays locked from the look
// at it to the commit that writes what was appended.
type output struct {
	mu     sync.Mutex
	ref    haulier.Ref
	keep   [2]int64  // head and tail
	chunks []segment // committed
	end    int64

	next    []segment // chunks after the commit under way
	nextEnd int64
	docs    []haulier.DocWrite
	fresh   map[int64][]byte // bytes of chunks which the commit adds, by offset
	closed  bool
}

// output finds or makes the output that a report belongs to, and locks it.
func (r *reporting) output(ctx context.Context, j *haulier.Job, rep *haulier.Report) (*output, error) {
	ref := rep.Ref
	t := r.e.outputs
	t.mu.Lock()
	o := t.live[ref]
	t.mu.Unlock()
	shared := r.e.duty.shared // then some of it may have come to another server
	if known := o != nil; !known || shared && o.end != rep.LogFrom {
		o = &output{ref: ref, keep: [2]int64{t.head, t.tail}}
		if rep.LogFrom > 0 || j.UpdatedAt.Before(r.e.started) || shared && (known || len(rep.Log) > 0) {
			chunks, _, err := r.e.chunks(ctx, ref)
			if err != nil {
				return nil, err
			}
			o.load(chunks)
		}
	}
	o.mu.Lock()
	o.next, o.nextEnd, o.docs, o.fresh, o.closed = append([]segment(nil), o.chunks...), o.end, nil, nil, false
	r.grown = append(r.grown, o)
	return o, nil
}

func (o *output) load(chunks []haulier.Doc) {
	for _, d := range chunks {
		from, _ := chunkOffset(d.Key)
		o.chunks = append(o.chunks, segment{from, int64(len(d.Value))})
		o.end = from + int64(len(d.Value))
	}
}

// append adds a report's frames, less those that are here already.
// It returns those that are new.
func (o *output) append(rep *haulier.Report) ([]byte, error) {
	data, from := rep.Log, rep.LogFrom
	if len(data) == 0 {
		return nil, nil
	}
	if n, err := joblog.Whole(data); err != nil || n != len(data) || from < 0 {
		return nil, field("log", "does not consist of whole log frames")
	}
	if have := o.nextEnd - from; have > 0 {
		if have >= int64(len(data)) {
			return nil, nil
		}
		data, from = data[have:], o.nextEnd
		if n, err := joblog.Whole(data); err != nil || n != len(data) {
			return nil, field("log_from", "does not lie between two frames that were sent before")
		}
	}
	fresh := data
	for len(data) > 0 {
		n := len(data)
		if n > chunkSize {
			n, _ = joblog.Whole(data[:chunkSize])
		}
		o.add(from, data[:n])
		data, from = data[n:], from+int64(n)
	}
	o.trim()
	return fresh, nil
}

func (o *output) add(from int64, data []byte) {
	if o.fresh == nil {
		o.fresh = map[int64][]byte{}
	}
	o.fresh[from] = data
	o.next = append(o.next, segment{from, int64(len(data))})
	o.nextEnd = from + int64(len(data))
	o.docs = append(o.docs, haulier.DocWrite{Kind: haulier.DocLog, Key: o.key(from), Expect: haulier.AnyRev, Value: data})
}

// trim removes what lies between head and tail.
func (o *output) trim() {
	first := 0
	for first < len(o.next) && o.next[first].From < o.keep[0] {
		first++
	}
	last := first
	for last < len(o.next) && o.next[last].From+o.next[last].Size < o.nextEnd-o.keep[1] {
		o.drop(o.next[last])
		last++
	}
	o.next = append(o.next[:first], o.next[last:]...)
}

func (o *output) drop(s segment) {
	delete(o.fresh, s.From)
	o.docs = append(o.docs, haulier.DocWrite{Kind: haulier.DocLog, Key: o.key(s.From), Expect: haulier.AnyRev})
}

// close ends the output with its attempt: much of it becomes a blob.
func (o *output) close(ctx context.Context, r *reporting, tenant string) (blob string, size int64, err error) {
	o.closed = true
	kept := int64(0)
	for _, s := range o.next {
		kept += s.Size
	}
	if kept < blobFrom {
		return "", o.nextEnd, nil
	}
	content := make([]byte, 0, kept)
	for _, s := range o.next {
		data, ok := o.fresh[s.From]
		if !ok {
			d, err := r.e.store.Doc(ctx, haulier.DocLog, o.key(s.From))
			if err != nil {
				return "", 0, fmt.Errorf("read output of job %v: %w", o.ref.Job, err)
			}
			data = d.Value
		}
		content = append(content, data...)
	}
	addr := r.puts.content(tenant, content, o.ref.Job.String(), haulier.NilID)
	marker, err := json.Marshal(outputBlob{Blob: addr, Size: o.nextEnd, Segments: joinSegments(o.next)})
	if err != nil {
		return "", 0, err
	}
	for _, s := range o.next {
		o.drop(s)
	}
	o.docs = append(o.docs,
		haulier.DocWrite{Kind: haulier.DocLog, Key: outputPrefix(o.ref) + outputMarker, Expect: haulier.AnyRev, Value: marker})
	return addr, o.nextEnd, nil
}

func joinSegments(in []segment) []segment {
	var out []segment
	for _, s := range in {
		if n := len(out); n > 0 && out[n-1].From+out[n-1].Size == s.From {
			out[n-1].Size += s.Size
		} else {
			out = append(out, s)
		}
	}
	return out
}

// writes are the documents that the commit has to write. A chunk that was added and dropped in one commit is written by neither.
func (o *output) writes() []haulier.DocWrite {
	last := make(map[string]int, len(o.docs))
	for i, d := range o.docs {
		last[d.Key] = i
	}
	if len(last) == len(o.docs) {
		return o.docs
	}
	var out []haulier.DocWrite
	for i, d := range o.docs {
		if last[d.Key] == i {
			out = append(out, d)
		}
	}
	return out
}

// commit notes that the writes were made, and reports whether the output grew. The caller holds the lock.
func (o *output) commit(t *outputs) (grew bool) {
	grew = o.nextEnd != o.end
	o.chunks, o.end = o.next, o.nextEnd
	o.next, o.docs, o.fresh = nil, nil, nil
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case o.closed:
		delete(t.live, o.ref)
	case grew:
		t.live[o.ref] = o
	}
	return grew
}

func outputPrefix(r haulier.Ref) string { return fmt.Sprintf("%v/%06d/", r.Job, r.Attempt) }

func (o *output) key(from int64) string { return outputPrefix(o.ref) + fmt.Sprintf("%012x", from) }

func chunkOffset(key string) (int64, bool) {
	name := key[strings.LastIndexByte(key, '/')+1:]
	if name == outputMarker {
		return 0, false
	}
	n, err := strconv.ParseInt(name, 16, 64)
	return n, err == nil
}

// chunks reads an attempt's documents: its chunks in order, and the marker when it became a blob.
func (e *Engine) chunks(ctx context.Context, ref haulier.Ref) ([]haulier.Doc, *outputBlob, error) {
	var chunks []haulier.Doc
	prefix := outputPrefix(ref)
	for after := ""; ; {
		docs, err := e.store.Docs(ctx, haulier.DocLog, prefix, after, 256)
		if err != nil {
			return nil, nil, err
		}
		for _, d := range docs {
			after = d.Key
			if _, ok := chunkOffset(d.Key); ok {
				chunks = append(chunks, d)
				continue
			}
			if strings.HasSuffix(d.Key, "/"+resultMarker) {
				continue
			}
			var m outputBlob
			if err := json.Unmarshal(d.Value, &m); err != nil {
				return nil, nil, fmt.Errorf("output %s: %w: %w", d.Key, haulier.ErrCorrupt, err)
			}
			return nil, &m, nil
		}
		if len(docs) < 256 {
			return chunks, nil, nil
		}
	}
}

// Log implements haulier.Operator.
func (e *Engine) Log(ctx context.Context, r haulier.LogRequest) (haulier.LogChunk, error) {
	if r.Max <= 0 || r.Max > 8<<20 {
		r.Max = 1 << 20
	}
	for {
		changed, cancel := e.hub.await(r.Job)
		elsewhere := e.duty.soon()
		chunk, err := e.readLog(ctx, &r)
		if err != nil || len(chunk.Frames) > 0 || chunk.End || !r.Wait {
			cancel()
			return chunk, err
		}
		select {
		case <-changed:
			cancel()
		case <-elsewhere:
			cancel()
		case <-ctx.Done():
			cancel()
			return chunk, ctx.Err()
		case <-e.hub.done:
			cancel()
			return chunk, fmt.Errorf("read output: %w: the server is closing", haulier.ErrUnavailable)
		}
	}
}

func (e *Engine) readLog(ctx context.Context, r *haulier.LogRequest) (haulier.LogChunk, error) {
	jobs, err := e.Get(ctx, r.Tenant, []haulier.ID{r.Job})
	if err != nil {
		return haulier.LogChunk{}, err
	}
	j := jobs[0]
	if j == nil {
		return haulier.LogChunk{}, fmt.Errorf("job %v: %w", r.Job, haulier.ErrNotFound)
	}
	// A retry by hand or by back-off begins a new attempt: the one that was followed has ended.
	if r.Attempt == 0 && (j.State.Owned() || j.Attempt > 0) {
		r.Attempt = j.Attempt
	}
	chunk := haulier.LogChunk{Attempt: r.Attempt, From: max(r.From, 0), Next: max(r.From, 0)}
	if r.Attempt == 0 || r.Attempt > j.Attempt { // it has not begun
		chunk.End = j.State.Terminal()
		return chunk, nil
	}
	ended := j.Attempt > r.Attempt || !j.State.Owned()
	segs, content, err := e.kept(ctx, j.Tenant, haulier.Ref{Job: j.ID, Attempt: r.Attempt})
	if err != nil {
		return chunk, err
	}
	end := cutOutput(&chunk, segs, content, r.From, r.Max)
	chunk.End = ended && chunk.Next >= end
	return chunk, nil
}

// kept returns what is kept of an attempt's output: the segments and their bytes, one after the other.
func (e *Engine) kept(ctx context.Context, tenant string, ref haulier.Ref) ([]segment, []byte, error) {
	chunks, marker, err := e.chunks(ctx, ref)
	if err != nil {
		return nil, nil, fmt.Errorf("read output of job %v: %w", ref.Job, err)
	}
	if marker != nil {
		content, err := e.readBlob(ctx, tenant, marker.Blob)
		if err != nil {
			return nil, nil, fmt.Errorf("read output of job %v: %w", ref.Job, err)
		}
		return marker.Segments, content, nil
	}
	var segs []segment
	var content []byte
	for _, d := range chunks {
		from, _ := chunkOffset(d.Key)
		segs = append(segs, segment{from, int64(len(d.Value))})
		content = append(content, d.Value...)
	}
	return joinSegments(segs), content, nil
}

// cutOutput fills the chunk with up to most bytes of whole frames from the offset
// on, and returns the offset of the output's end.
func cutOutput(c *haulier.LogChunk, segs []segment, content []byte, from int64, most int) (end int64) {
	if n := len(segs); n > 0 {
		end = segs[n-1].From + segs[n-1].Size
	}
	if from < 0 {
		from = max(end+from, 0)
	}
	c.From, c.Next = from, from
	at := int64(0) // where the segment begins in content
	for _, s := range segs {
		data := content[at : at+s.Size]
		at += s.Size
		if from >= s.From+s.Size {
			continue
		}
		start := s.From
		for start < from { // to the frame boundary at or after from
			_, n, err := joblog.Next(data)
			if err != nil {
				return end
			}
			data, start = data[n:], start+int64(n)
		}
		if len(data) == 0 {
			continue
		}
		if len(data) > most {
			n, _ := joblog.Whole(data[:most])
			if n == 0 { // the first frame alone is larger than asked for
				_, n, _ = joblog.Next(data)
			}
			data = data[:n]
		}
		c.From, c.Next, c.Frames = start, start+int64(len(data)), data
		return end
	}
	return end
}

// dropOutputs lists the writes that remove all output of a job, and the blobs it held.
func (e *Engine) dropOutputs(ctx context.Context, id haulier.ID) ([]haulier.DocWrite, []string, error) {
	var writes []haulier.DocWrite
	var blobs []string
	for after := ""; ; {
		docs, err := e.store.Docs(ctx, haulier.DocLog, id.String()+"/", after, 256)
		if err != nil {
			return nil, nil, err
		}
		for _, d := range docs {
			after = d.Key
			writes = append(writes, haulier.DocWrite{Kind: haulier.DocLog, Key: d.Key, Expect: haulier.AnyRev})
			var m outputBlob
			if _, chunk := chunkOffset(d.Key); !chunk && json.Unmarshal(d.Value, &m) == nil {
				blobs = append(blobs, m.Blob)
			}
		}
		if len(docs) < 256 {
			return writes, blobs, nil
		}
	}
}
