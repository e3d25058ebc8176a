package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/joblog"
)

// DocChain is the kind of the document of how far the output of a job that chains was read for jobs. Its key is the job's id.
const DocChain haulier.DocKind = "chain"

const (
	chainMark = "J: "
	maxLine   = 60 << 10 // bytes of a line; what is longer is no job
	maxChain  = 10_000   // lines of an attempt that bring jobs
)

// chained is the document: what was read of an attempt's standard output.
type chained struct {
	Attempt int    `json:"attempt"`
	Lines   int    `json:"lines"`          // that brought jobs
	Refused int    `json:"refused"`        // that were to, and could not
	Rest    []byte `json:"rest,omitempty"` // the beginning of the next line
	Long    bool   `json:"long,omitempty"` // the rest belongs to a line that is too long
}

// chain reads jobs from the output of an attempt.
type chain struct {
	chained
	job   *haulier.Job
	r     *reporting
	rev   uint64
	specs []haulier.Spec // to be added
	why   error          // of the first line that was refused
}

// chain begins to read the output of a job that says so, or of a script; nil: it does not.
func (r *reporting) chain(ctx context.Context, j *haulier.Job, attempt int) (*chain, error) {
	if j.Task.Script == nil && (j.Flow == nil || !j.Flow.Chain) {
		return nil, nil
	}
	c := &chain{job: j, r: r}
	d, err := r.e.store.Doc(ctx, DocChain, j.ID.String())
	switch {
	case err == nil:
		c.rev = d.Rev
		if err := json.Unmarshal(d.Value, &c.chained); err != nil {
			return nil, fmt.Errorf("chain %v: %w: %w", j.ID, haulier.ErrCorrupt, err)
		}
	case !errors.Is(err, haulier.ErrNotFound):
		return nil, err
	}
	if c.Attempt != attempt {
		c.chained = chained{Attempt: attempt}
	}
	return c, nil
}

// read takes frames that follow those of before.
func (c *chain) read(frames []byte) error {
	for len(frames) > 0 {
		f, n, err := joblog.Next(frames)
		if err != nil {
			return err
		}
		frames = frames[n:]
		if f.Stream == joblog.Stdout {
			c.text(f.Data)
		}
	}
	return nil
}

func (c *chain) text(data []byte) {
	for len(data) > 0 {
		line, rest, whole := bytes.Cut(data, []byte("\n"))
		data = rest
		if len(c.Rest)+len(line) > maxLine {
			c.Rest, c.Long = nil, true
		} else if !c.Long {
			c.Rest = append(c.Rest, line...)
		}
		if whole {
			c.line()
		}
	}
}

// line ends a line.
func (c *chain) line() {
	text, long := c.Rest, c.Long
	c.Rest, c.Long = nil, false
	if long || !bytes.HasPrefix(text, []byte(chainMark)) {
		return
	}
	if err := c.add(bytes.TrimSuffix(text[len(chainMark):], []byte("\r"))); err != nil {
		c.Refused++
		if c.why == nil {
			c.why = err
		}
	}
}

// add makes a job of what follows the mark: type|payload.
func (c *chain) add(text []byte) error {
	typ, payload, ok := bytes.Cut(text, []byte("|"))
	if !ok {
		return fmt.Errorf("%.80q is not of the form type|payload", text)
	}
	if c.Lines >= maxChain {
		return fmt.Errorf("an attempt brings at most %d jobs", maxChain)
	}
	j := c.job
	s := haulier.Spec{
		ID: chainID(j.ID, c.Lines, text), Tenant: j.Tenant, Queue: j.Queue, Type: string(bytes.TrimSpace(typ)), Payload: bytes.Clone(payload),
		Priority: j.Priority, Group: j.Group, Labels: j.Labels, Parent: j.ID, CreatedAt: c.r.now,
	}
	if j.Task.Script != nil {
		s.Task.Script = &haulier.ScriptTask{}
	}
	if c.batch() {
		s.Flow = &haulier.Flow{Batch: j.Flow.Batch} // as long as j runs, the batch has not ended
	}
	if err := complete(&s, c.r.now); err != nil {
		return err
	}
	c.Lines++
	c.specs = append(c.specs, s)
	return nil
}

// batch reports whether the job belongs to one.
func (c *chain) batch() bool { return c.job.Flow != nil && !c.job.Flow.Batch.IsNil() }

// chainID is the id of the job that a line brings: the same for the same line in the same place of another
// attempt, which so brings no second one.
func chainID(job haulier.ID, line int, text []byte) haulier.ID {
	h := sha256.New()
	h.Write(job[:])
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(line)))
	h.Write(text)
	var id haulier.ID
	copy(id[:], h.Sum(nil))
	copy(id[:6], job[:6]) // the time
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
	return id
}

// commit adds the jobs, and how far the output was read, to the commit.
func (c *chain) commit(ctx context.Context, ended bool) error {
	if ended && len(c.Rest) > 0 {
		c.line()
	}
	if c.why != nil {
		c.r.e.log.Warn("a line of a job's output brings no job", "job", c.job.ID, "refused", c.Refused, "err", c.why)
	}
	if err := c.insert(ctx); err != nil {
		return err
	}
	w := haulier.DocWrite{Kind: DocChain, Key: c.job.ID.String(), Expect: c.rev}
	if !ended {
		var err error
		if w.Value, err = json.Marshal(c.chained); err != nil {
			return err
		}
	} else if c.rev == 0 {
		return nil
	}
	c.r.batch.Docs = append(c.r.batch.Docs, w)
	return nil
}

// insert adds the jobs that an earlier attempt has not added.
func (c *chain) insert(ctx context.Context) error {
	if len(c.specs) == 0 {
		return nil
	}
	ids := make([]haulier.ID, len(c.specs))
	for i := range c.specs {
		ids[i] = c.specs[i].ID
	}
	there, err := c.r.e.store.Jobs(ctx, ids)
	if err != nil {
		return err
	}
	by := "job " + c.job.ID.String()
	var fresh []haulier.Job
	for i := range c.specs {
		if there[i] == nil {
			s := &c.specs[i]
			fresh = append(fresh, haulier.Job{Spec: *s, Status: s.First(c.r.now, by)})
		}
	}
	c.r.batch.Sync = true
	if !c.batch() {
		c.r.batch.Insert = append(c.r.batch.Insert, fresh...)
		return nil
	}
	_, err = c.r.flow().Add(ctx, fresh)
	return err
}
