package etcd

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/wire"
)

// record is a job as it was read.
type record struct {
	spec     *haulier.Spec // nil: not read
	status   haulier.Status
	revision int64 // of etcd, at which the status was written
}

func (r *record) job() *haulier.Job { return &haulier.Job{Spec: *r.spec, Status: r.status} }

func parseStatus(id haulier.ID, kv *mvccpb.KeyValue) (*record, error) {
	if kv == nil {
		return nil, nil
	}
	r := &record{revision: kv.ModRevision}
	if err := wire.ReadStatus(kv.Value, &r.status); err != nil {
		return nil, fmt.Errorf("job %v: %w", id, err)
	}
	return r, nil
}

// records reads jobs; those that do not exist are nil.
func (s *Store) records(ctx context.Context, ids []haulier.ID) ([]*record, error) {
	keys := make([]string, 0, 2*len(ids))
	for _, id := range ids {
		text := id.String()
		keys = append(keys, "job/"+text, "status/"+text)
	}
	found, err := s.gets(ctx, keys, false)
	if err != nil {
		return nil, err
	}
	out := make([]*record, len(ids))
	for i := range out {
		spec, status := found[2*i], found[2*i+1]
		if out[i], err = parseStatus(ids[i], status); err != nil || out[i] == nil {
			if err != nil {
				return nil, err
			}
			continue
		}
		if spec == nil {
			return nil, corrupt("job %v has a status and no spec", ids[i])
		}
		parsed, err := wire.ParseSpec(spec.Value)
		if err != nil {
			return nil, fmt.Errorf("job %v: %w", ids[i], err)
		}
		out[i].spec = &parsed
	}
	return out, nil
}

// remembered finds jobs as this server last heard of them, or else as etcd has them; those that do not exist are nil.
func (s *Store) remembered(ctx context.Context, ids []haulier.ID) ([]*record, error) {
	out, all := s.view.cached(ids)
	if all {
		return out, nil
	}
	var missing []haulier.ID
	var which []int
	for i, r := range out {
		if r == nil {
			missing, which = append(missing, ids[i]), append(which, i)
		}
	}
	more, err := s.records(ctx, missing)
	for i, r := range more {
		out[which[i]] = r
	}
	return out, err
}

// Jobs implements haulier.Store.
func (s *Store) Jobs(ctx context.Context, ids []haulier.ID) ([]*haulier.Job, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	records, err := s.jobs(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	jobs := make([]*haulier.Job, len(ids))
	for i, r := range records {
		if r != nil {
			jobs[i] = r.job()
		}
	}
	return jobs, nil
}

// jobs finds jobs as they are. Those that are remembered are true as soon as the log has been followed.
func (s *Store) jobs(ctx context.Context, ids []haulier.ID) ([]*record, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	if _, all := s.view.cached(ids); !all {
		return s.records(ctx, ids)
	}
	if err := s.current(ctx); err != nil {
		return nil, err
	}
	return s.remembered(ctx, ids)
}

// logRead reads at which revision the log is.
func (s *Store) logRead() *pb.RangeRequest {
	return &pb.RangeRequest{Key: []byte(s.prefix + "log"), KeysOnly: true}
}

// current waits until the view has all that etcd has at the moment of the call.
func (s *Store) current(ctx context.Context) error {
	answers, err := s.read(ctx, s.logRead())
	if err != nil || len(answers[0].Kvs) == 0 {
		return err
	}
	return s.feed.await(ctx, answers[0].Kvs[0].ModRevision)
}

// Bands implements haulier.Store.
func (s *Store) Bands(ctx context.Context) ([]haulier.BandHead, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	if err := s.current(ctx); err != nil {
		return nil, fmt.Errorf("bands: %w", err)
	}
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	heads := make([]haulier.BandHead, 0, len(s.view.bands))
	for b, l := range s.view.bands {
		if l.n > 0 {
			heads = append(heads, haulier.BandHead{Band: b, N: l.n, Since: timeOf(l.head)})
		}
	}
	return heads, nil
}

// timeOf is the time with which the place in a line begins; zero when it does not.
func timeOf(at string) time.Time {
	if len(at) < len(timeForm) {
		return time.Time{}
	}
	t, _ := time.Parse(timeForm, at[:len(timeForm)]) // zero, too, where it is none: what waits since then is not missed
	return t
}

// Counts implements haulier.Store.
func (s *Store) Counts(ctx context.Context) ([]haulier.Count, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	if err := s.current(ctx); err != nil {
		return nil, fmt.Errorf("counts: %w", err)
	}
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	counts := make([]haulier.Count, 0, len(s.view.counts))
	for t, n := range s.view.counts {
		counts = append(counts, haulier.Count{Lane: t.lane, State: t.state, N: n})
	}
	return counts, nil
}

// Due implements haulier.Store. Timers and removals fall due by this machine's clock; a lease, when its
// time has passed since this server heard of it.
func (s *Store) Due(ctx context.Context, limit int) (haulier.Due, error) {
	if err := s.enter(); err != nil {
		return haulier.Due{}, err
	}
	defer s.leave()
	due, err := s.due(ctx, max(limit, 0))
	if err != nil {
		return haulier.Due{}, fmt.Errorf("due: %w", err)
	}
	return due, nil
}

func (s *Store) due(ctx context.Context, limit int) (due haulier.Due, err error) {
	now := s.now()
	passed := timeText(now.Add(time.Microsecond)) // what lies before it
	timers := &scan{line: s.view.timers, want: limit + 1, until: passed}
	purges := &scan{line: s.view.purges, want: limit + 1, until: passed}
	if _, err := s.scan(ctx, nil, timers, purges); err != nil {
		return due, err
	}
	for _, part := range []struct {
		*scan
		ids *[]haulier.ID
	}{{timers, &due.Timers}, {purges, &due.Purge}} {
		if *part.ids, err = part.take(limit); err != nil {
			return due, err
		}
		next, err := s.next(ctx, part.scan, limit)
		if err != nil {
			return due, err
		}
		if !next.IsZero() && (due.Next.IsZero() || next.Before(due.Next)) {
			due.Next = next
		}
	}
	var left time.Duration
	if due.Sessions, left = s.view.expired(limit); left >= 0 {
		if next := now.Add(left); due.Next.IsZero() || next.Before(due.Next) {
			due.Next = next
		}
	}
	return due, nil
}

// next is the time of what follows the first entries of a line, of which a scan has looked at those that are due; zero: nothing does.
func (s *Store) next(ctx context.Context, due *scan, limit int) (time.Time, error) {
	if len(due.keys) > limit {
		return timeOf(due.keys[limit]), nil
	}
	s.view.mu.Lock()
	empty, head := due.line.n <= int64(len(due.keys)), due.line.head
	s.view.mu.Unlock()
	switch {
	case empty:
		return time.Time{}, nil
	case len(due.keys) == 0 && head > due.until:
		return timeOf(head), nil
	}
	// The first that lies ahead is looked up once: then it is the head.
	ahead := &scan{line: due.line, want: 1, after: due.until}
	if _, err := s.scan(ctx, nil, ahead); err != nil || len(ahead.keys) == 0 {
		return time.Time{}, err
	}
	return timeOf(ahead.keys[0]), nil
}

// Doc implements haulier.Store.
func (s *Store) Doc(ctx context.Context, kind haulier.DocKind, key string) (haulier.Doc, error) {
	if err := s.enter(); err != nil {
		return haulier.Doc{}, err
	}
	defer s.leave()
	found, err := s.gets(ctx, []string{docKey(kind, key)}, false)
	if err == nil && found[0] == nil {
		err = haulier.ErrNotFound
	}
	if err != nil {
		return haulier.Doc{}, fmt.Errorf("document %s %s: %w", kind, key, err)
	}
	return newDoc(kind, key, found[0]), nil
}

func newDoc(kind haulier.DocKind, key string, kv *mvccpb.KeyValue) haulier.Doc {
	value := kv.Value
	if value == nil {
		value = []byte{}
	}
	return haulier.Doc{Kind: kind, Key: key, Rev: uint64(kv.Version), Value: value}
}

// Docs implements haulier.Store.
func (s *Store) Docs(ctx context.Context, kind haulier.DocKind, prefix, after string, limit int) ([]haulier.Doc, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	if limit <= 0 {
		return nil, nil
	}
	all := docKey(kind, "")
	from := all + prefix
	if after >= prefix && after != "" {
		from = all + after + "\x00"
	}
	end := following(all + prefix)
	if from >= end {
		return nil, nil
	}
	answers, err := s.read(ctx, s.span(from, end, limit, false))
	if err != nil {
		return nil, fmt.Errorf("documents %s: %w", kind, err)
	}
	docs := make([]haulier.Doc, 0, len(answers[0].Kvs))
	for _, kv := range answers[0].Kvs {
		docs = append(docs, newDoc(kind, string(kv.Key[len(s.prefix)+len(all):]), kv))
	}
	return docs, nil
}
