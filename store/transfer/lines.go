package transfer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/wire"
)

// A file of a store is JSON, a value a line: a header, jobs and documents in any order, and an end, by which a file that
// was cut is told from a whole one.
//
//	{"haulier":{"format":1,"id":…,"time":…,"jobs":[{"tenant":…,"queue":…,"type":…,"kind":…,"state":…,"n":…}]}}
//	{"doc":{"kind":"queue","key":"default/mail","value":{…}}}          or "bytes" in base64, when the value is no JSON
//	{"job":{"spec":{…,"payload":…},"status":{…,"result":…}}}           or "wire" in base64, when JSON can't tell all of it
//	{"end":{"jobs":…,"states":[…],"docs":{…},"checksum":…}}

// Format is the version of the file that Export writes.
const Format = 1

// maxLine bounds a line of a file, in bytes.
const maxLine = 16 << 20

type fileLine struct {
	Header *Header  `json:"haulier,omitempty"`
	Doc    *docLine `json:"doc,omitempty"`
	Job    *jobLine `json:"job,omitempty"`
	End    *Sum     `json:"end,omitempty"`
}

// Header is the first line of a file.
type Header struct {
	Format int             `json:"format"`
	ID     haulier.ID      `json:"id"`
	Time   time.Time       `json:"time"` // by the store's clock
	Jobs   []haulier.Count `json:"jobs"` // as the store counts them; the end says how many were written
}

type docLine struct {
	Kind     haulier.DocKind `json:"kind"`
	Key      string          `json:"key,omitempty"`
	KeyBytes []byte          `json:"key_bytes,omitempty"` // of a key that is no text
	Value    json.RawMessage `json:"value,omitempty"`
	Bytes    []byte          `json:"bytes,omitempty"`
}

type jobLine struct {
	Spec   *specLine   `json:"spec,omitempty"`
	Status *statusLine `json:"status,omitempty"`
	Wire   []byte      `json:"wire,omitempty"`
}

// specLine and statusLine add what the JSON for people leaves out.
type specLine struct {
	haulier.Spec
	Payload []byte    `json:"payload,omitempty"`
	RunAt   time.Time `json:"run_at,omitzero"`
}

type statusLine struct {
	haulier.Status
	Result []byte `json:"result,omitempty"`
}

// Export writes all that is in a store as JSON lines, and returns what it wrote.
func Export(ctx context.Context, from haulier.Store, out io.Writer, o Options) (Sum, error) {
	src := &storeSource{store: from, kinds: kindsOf(o.Kinds)}
	if err := src.check(ctx); err != nil {
		return Sum{}, err
	}
	now, err := from.Now(ctx)
	if err != nil {
		return Sum{}, err
	}
	h := Header{Format: Format, ID: haulier.NewID(now), Time: now}
	if h.Jobs, err = from.Counts(ctx); err != nil {
		return Sum{}, err
	}
	p := Progress{}
	for _, c := range h.Jobs {
		p.Of += c.N
	}
	buffered := bufio.NewWriterSize(out, 1<<16)
	e := json.NewEncoder(buffered)
	e.SetEscapeHTML(false)
	if err := e.Encode(fileLine{Header: &h}); err != nil {
		return Sum{}, err
	}
	t := newTally()
	err = src.pages(ctx, place{}, func(page []record, _ place) error {
		for i := range page {
			t.add(&page[i])
			l, err := lineOf(&page[i])
			if err == nil {
				err = e.Encode(l)
			}
			if err != nil {
				return err
			}
			if page[i].job != nil {
				p.Jobs++
			} else {
				p.Docs++
			}
		}
		o.tell(p)
		return nil
	})
	if err != nil {
		return Sum{}, err
	}
	sum := t.sum()
	if err := e.Encode(fileLine{End: &sum}); err != nil {
		return sum, err
	}
	return sum, buffered.Flush()
}

func lineOf(r *record) (fileLine, error) {
	if r.job != nil {
		return lineOfJob(r.job)
	}
	l := &docLine{Kind: r.doc.Kind, Key: r.doc.Key}
	if !utf8.ValidString(l.Key) {
		l.Key, l.KeyBytes = "", []byte(r.doc.Key)
	}
	var tight bytes.Buffer
	if json.Compact(&tight, r.doc.Value) == nil && bytes.Equal(tight.Bytes(), r.doc.Value) {
		l.Value = r.doc.Value
	} else {
		l.Bytes = r.doc.Value
	}
	return fileLine{Doc: l}, nil
}

// lineOfJob makes sure that what is read again is the same job to the last bit.
func lineOfJob(j *haulier.Job) (fileLine, error) {
	whole := wire.AppendJob(nil, j)
	l := fileLine{Job: &jobLine{
		Spec:   &specLine{Spec: j.Spec, Payload: j.Payload, RunAt: j.Spec.RunAt},
		Status: &statusLine{Status: j.Status, Result: j.Result},
	}}
	text, err := json.Marshal(l)
	if err != nil {
		return l, fmt.Errorf("job %v: %w", j.ID, err)
	}
	var again fileLine
	if json.Unmarshal(text, &again) == nil {
		if same, err := again.Job.job(); err == nil && bytes.Equal(wire.AppendJob(nil, same), whole) {
			return l, nil
		}
	}
	return fileLine{Job: &jobLine{Wire: whole}}, nil
}

func (l *jobLine) job() (*haulier.Job, error) {
	if l.Wire != nil {
		j, err := wire.ParseJob(l.Wire)
		return &j, err
	}
	if l.Spec == nil || l.Status == nil {
		return nil, fmt.Errorf("%w: a job has neither spec and status nor wire", haulier.ErrCorrupt)
	}
	j := &haulier.Job{Spec: l.Spec.Spec, Status: l.Status.Status}
	j.Payload, j.Result, j.Spec.RunAt = l.Spec.Payload, l.Status.Result, l.Spec.RunAt
	return j, nil
}

// record is what a line between the first and the last tells.
func (l *fileLine) record() (record, error) {
	switch {
	case l.Job != nil:
		j, err := l.Job.job()
		return record{job: j}, err
	case l.Doc == nil || l.Doc.Kind == "":
		return record{}, fmt.Errorf("%w: neither job nor document", haulier.ErrCorrupt)
	}
	d := haulier.Doc{Kind: l.Doc.Kind, Key: l.Doc.Key, Value: l.Doc.Value}
	if l.Doc.KeyBytes != nil {
		d.Key = string(l.Doc.KeyBytes)
	}
	if d.Value == nil {
		d.Value = l.Doc.Bytes
	}
	return record{doc: d}, nil
}

// Import writes what Export has written into a store, which must be empty or have an unfinished import of the same file.
// ErrCorrupt: the file is damaged or not whole; what arrived stays marked as not complete.
func Import(ctx context.Context, in io.Reader, to haulier.Store, o Options) (Result, error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 1<<16), maxLine)
	src := &lineSource{lines: lines, tally: newTally(), kinds: map[haulier.DocKind]bool{}}
	for _, kind := range kindsOf(o.Kinds) {
		src.kinds[kind] = true
	}
	first, err := src.next()
	if err != nil || first.Header == nil {
		return Result{}, errors.Join(fmt.Errorf("line 1: %w: this is no export of a store", haulier.ErrCorrupt), err)
	}
	if first.Header.Format != Format {
		return Result{}, fmt.Errorf("%w: the file has format %d, and this program reads %d: take the program that wrote it", haulier.ErrInvalid, first.Header.Format, Format)
	}
	of := int64(0)
	for _, c := range first.Header.Jobs {
		of += c.N
	}
	o.Source = "file " + first.Header.ID.String()
	return move(ctx, src, to, of, o)
}

// lineSource reads a file once. Its place is the number of records before.
type lineSource struct {
	lines *bufio.Scanner
	line  int // number of the last one that was read
	kinds map[haulier.DocKind]bool
	tally *tally
	end   *Sum
}

func (s *lineSource) next() (l fileLine, err error) {
	if !s.lines.Scan() {
		if err := s.lines.Err(); err != nil {
			return l, fmt.Errorf("line %d: %w", s.line+1, err)
		}
		return l, fmt.Errorf("line %d: %w: the file ends here, before its end: it was cut", s.line+1, haulier.ErrCorrupt)
	}
	s.line++
	if err := json.Unmarshal(s.lines.Bytes(), &l); err != nil {
		return l, fmt.Errorf("line %d: %w: %w", s.line, haulier.ErrCorrupt, err)
	}
	return l, nil
}

func (s *lineSource) pages(_ context.Context, from place, f func([]record, place) error) error {
	done := 0
	if len(from.After) > 0 {
		n, err := strconv.Atoi(string(from.After))
		if err != nil {
			return fmt.Errorf("%w: %q is no place in a file", haulier.ErrCorrupt, from.After)
		}
		done = n
	}
	var page []record
	bytes := 0
	for n := 0; s.end == nil; {
		l, err := s.next()
		if err != nil {
			return err
		}
		if s.end = l.End; s.end == nil {
			r, err := s.take(&l)
			if err != nil {
				return fmt.Errorf("line %d: %w", s.line, err)
			}
			if n++; n > done {
				page = append(page, r)
				bytes += r.size()
			}
		}
		if len(page) == mostRecords || bytes > mostBytes || s.end != nil && len(page) > 0 {
			if err := f(page, place{Stage: "lines", After: strconv.AppendInt(nil, int64(n), 10)}); err != nil {
				return err
			}
			page, bytes = page[:0], 0
		}
	}
	sum := s.tally.sum()
	if err := compare(s.end, &sum); err != nil {
		return fmt.Errorf("the file is not as it was written: %w", err)
	}
	return nil
}

// take makes a record of a line and counts it.
func (s *lineSource) take(l *fileLine) (record, error) {
	r, err := l.record()
	if err == nil && r.job == nil && !s.kinds[r.doc.Kind] {
		err = fmt.Errorf("%w: documents of kind %q are not known: take the program that wrote the file, or a newer one", haulier.ErrInvalid, r.doc.Kind)
	}
	if err != nil {
		return r, err
	}
	if r.job != nil && !r.job.State.Valid() {
		return r, fmt.Errorf("job %v: %w: its state is none", r.job.ID, haulier.ErrCorrupt)
	}
	s.tally.add(&r)
	return r, nil
}

func (s *lineSource) sum(context.Context) (Sum, error) { return *s.end, nil }
