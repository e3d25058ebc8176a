package etcd

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/haulier/haulier"
)

// scan reads the first entries of a line.
type scan struct {
	line  *line
	want  int    // entries
	after string // only from here on
	until string // only before here; "": to the end
	keys  []string
	skip  int // of a claim: how many of the first are left to others

	begun string // where it began
	from  string // where it goes on
	width time.Duration
	short int  // how long a line may be to be read to its end: etcd counts all that lies within the bounds of a read
	open  bool // there may be more before until
	whole bool // it began at the head
}

// take are the ids of the first entries that were found.
func (c *scan) take(n int) (ids []haulier.ID, err error) {
	for _, key := range c.keys[:min(n, len(c.keys))] {
		id, err := lastID(key)
		if err != nil {
			return nil, corrupt("%s%.80s ends with no id", c.line.prefix, key)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

const (
	minWidth = time.Microsecond
	maxWidth = 100 * 365 * 24 * time.Hour
)

// scan carries out scans, and beside their first reads some more, whose answers it returns. What it finds is as of the
// moment of the call or later.
func (s *Store) scan(ctx context.Context, beside []*pb.RangeRequest, scans ...*scan) (answers []*pb.RangeResponse, err error) {
	v := s.view
	v.mu.Lock()
	for _, c := range scans {
		c.line.begin()
		c.short = s.sizes.line
		c.restart(c.line.head)
	}
	v.mu.Unlock()
	defer func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, c := range scans {
			c.end(err == nil)
		}
	}()
	for first := true; ; first = false {
		ops, reads := []*pb.RangeRequest{s.logRead()}, []*scan(nil)
		if first {
			ops = append(ops, beside...)
		}
		for _, c := range scans {
			if c.open {
				ops = append(ops, c.read(s))
				reads = append(reads, c)
			}
		}
		if len(reads) == 0 && !first {
			return answers, nil
		}
		got, err := s.read(ctx, ops...)
		if err != nil {
			return nil, err
		}
		if len(got[0].Kvs) > 0 {
			if err := s.feed.await(ctx, got[0].Kvs[0].ModRevision); err != nil {
				return nil, err
			}
		}
		got = got[1:]
		if first {
			answers, got = got[:len(beside)], got[len(beside):]
		}
		for i, c := range reads {
			c.found(s, got[i])
		}
		v.mu.Lock()
		for _, c := range scans {
			if a := c.line.arrived; a != "" && a < c.begun && c.begun > c.after {
				c.restart(a) // another server has added what the view did not have yet
			}
		}
		v.mu.Unlock()
	}
}

func (c *scan) restart(from string) {
	c.begun, c.whole = max(from, c.after), from >= c.after
	c.from, c.width, c.keys = c.begun, c.line.width, nil
	c.open = c.want > 0 && (c.until == "" || c.from < c.until)
	if c.line.n <= int64(c.short) {
		c.width = maxWidth
	}
}

// bound is up to where the next read goes.
func (c *scan) bound() string {
	at := timeOf(c.from)
	if at.IsZero() || c.width >= maxWidth {
		return c.until
	}
	end := timeText(at.Add(c.width))
	if c.until != "" && end >= c.until {
		return c.until
	}
	return end
}

func (c *scan) read(s *Store) *pb.RangeRequest {
	bound := following(c.line.prefix)
	if b := c.bound(); b != "" {
		bound = c.line.prefix + b
	}
	return s.span(c.line.prefix+c.from, bound, c.want-len(c.keys), true)
}

// found takes the answer to read.
func (c *scan) found(s *Store, r *pb.RangeResponse) {
	for _, kv := range r.Kvs {
		c.keys = append(c.keys, string(kv.Key[len(s.prefix)+len(c.line.prefix):]))
	}
	bound := c.bound()
	if len(c.keys) >= c.want || bound == c.until {
		c.open = false
		if r.Count > int64(4*c.want+c.short) && c.width < maxWidth {
			c.width = max(c.width/2, minWidth)
		}
		return
	}
	c.from = bound
	c.width = min(4*c.width, maxWidth)
}

// end leaves the line. The caller holds the lock.
func (c *scan) end(ok bool) {
	first := ""
	if ok && c.whole {
		switch {
		case len(c.keys) > 0:
			first = c.keys[0]
		case c.want > 0:
			first = c.until
		}
	}
	if ok && c.width < maxWidth {
		c.line.width = c.width
	}
	c.line.end(first)
}
