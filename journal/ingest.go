package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/haulier/haulier"
)

// RefusedFile is where, in the journal's folder, jobs go that the queue refuses: a line with the reason, which begins with #, and the job's own.
const RefusedFile = "refused"

const (
	ingestLines = 1000            // at a time
	ingestLease = 2 * time.Minute // of what is on its way
	ingestMost  = time.Minute     // that an enqueue may take
	pauseFirst  = 50 * time.Millisecond
	pauseMost   = 10 * time.Second // between tries while the queue is away
)

// Ingest brings the jobs of a journal into a queue, in their order and each once: a request's key and its jobs' ids are those that the
// journal keeps, so that the queue knows what it has got before. What the queue refuses goes to RefusedFile and does not hold up the rest.
type Ingest struct {
	Journal *Journal
	Queue   haulier.Producer
	Log     *slog.Logger // nil: discarded
}

// Ingested counts jobs.
type Ingested struct {
	Added   int `json:"added"`   // that are in the queue now, or were before
	Dropped int `json:"dropped"` // that a hook kept from being added
	Refused int `json:"refused"` // that are in RefusedFile now
}

// Run ingests until ctx ends, and then returns nil. While the queue is away it tries again and again. An error is the journal's own.
func (in *Ingest) Run(ctx context.Context) error {
	pause := time.Duration(0)
	for ctx.Err() == nil {
		if err := in.Journal.Wait(ctx); err != nil {
			return unlessEnded(ctx, err)
		}
		_, err := in.pass(ctx)
		if err == nil {
			pause = 0
			continue
		}
		if in.Journal.Err() != nil {
			return unlessEnded(ctx, err)
		}
		pause = min(max(2*pause, pauseFirst), pauseMost)
		in.log().Warn("journal: jobs were not ingested, and stay", "again_in", pause, "err", err)
		if err := await(ctx, nil, pause); err != nil {
			return unlessEnded(ctx, err)
		}
	}
	return nil
}

func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Once ingests all that is there. The error is why some may be left.
func (in *Ingest) Once(ctx context.Context) (sum Ingested, err error) {
	for {
		n, err := in.pass(ctx)
		sum.Added, sum.Dropped, sum.Refused = sum.Added+n.Added, sum.Dropped+n.Dropped, sum.Refused+n.Refused
		if err != nil || n == (Ingested{}) {
			return sum, err
		}
	}
}

func (in *Ingest) log() *slog.Logger {
	if in.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return in.Log
}

// pass ingests some.
func (in *Ingest) pass(ctx context.Context) (n Ingested, err error) {
	token, err := in.Journal.Reserve(ingestLines, ingestLease)
	if err != nil || token == 0 {
		return n, err
	}
	entries, err := in.Journal.Read(token)
	if err == nil {
		n, err = in.send(ctx, requestsOf(entries))
	}
	if err == nil {
		err = in.Journal.Done(ctx, token)
	} else if back := in.Journal.Cancel(token); back != nil && !errors.Is(back, haulier.ErrLeaseLost) {
		err = errors.Join(err, back)
	}
	return n, err
}

// requestsOf are the requests that the entries came in.
func requestsOf(entries []Entry) (list [][]Entry) {
	from := 0
	for i := range entries {
		if i+1 == len(entries) || entries[i].Nth == entries[i].Of || entries[i+1].Nth != entries[i].Nth+1 {
			list = append(list, entries[from:i+1])
			from = i + 1
		}
	}
	return list
}

// request asks for what entries say.
func request(entries []Entry) haulier.EnqueueRequest {
	r := haulier.EnqueueRequest{
		Jobs: make([]haulier.Spec, len(entries)), Key: "journal:" + entries[0].Job.ID.String(), KeepIDs: true, By: entries[0].By,
	}
	for i := range entries {
		r.Jobs[i] = entries[i].Job
	}
	return r
}

// send enqueues requests. The error is that of those which are to be tried again.
func (in *Ingest) send(ctx context.Context, list [][]Entry) (n Ingested, err error) {
	reqs := make([]haulier.EnqueueRequest, len(list))
	for i := range list {
		reqs[i] = request(list[i])
	}
	most, cancel := context.WithTimeout(ctx, ingestMost)
	results, err := in.Queue.Enqueue(most, reqs)
	cancel()
	switch {
	case err != nil && errors.Is(err, haulier.ErrInvalid) && len(list) > 1:
		return in.halves(ctx, list) // one of them spoils the whole
	case err != nil && errors.Is(err, haulier.ErrInvalid):
		results = []haulier.EnqueueResult{{Err: err}}
	case err != nil:
		return n, err
	case len(results) != len(reqs):
		return n, fmt.Errorf("journal: %d results for %d requests", len(results), len(reqs))
	}
	var again []error
	for i := range results {
		if err := in.settle(list[i], &results[i], &n); err != nil {
			again = append(again, err)
		}
	}
	if len(again) > 0 {
		return n, fmt.Errorf("%d of %d requests, such as: %w", len(again), len(list), again[0])
	}
	return n, nil
}

func (in *Ingest) halves(ctx context.Context, list [][]Entry) (n Ingested, err error) {
	for _, part := range [][][]Entry{list[:len(list)/2], list[len(list)/2:]} {
		k, err := in.send(ctx, part)
		n.Added, n.Dropped, n.Refused = n.Added+k.Added, n.Dropped+k.Dropped, n.Refused+k.Refused
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// settle takes note of what became of a request. The error: it is to be tried again.
func (in *Ingest) settle(entries []Entry, r *haulier.EnqueueResult, n *Ingested) error {
	switch {
	case r.Err == nil || len(r.IDs) > 0:
		if r.Err != nil {
			in.log().Warn("journal: a hook failed after jobs were ingested", "job", entries[0].Job.ID, "err", r.Err)
		}
		for _, d := range r.Dropped {
			in.log().Warn("journal: a hook kept a job from being added", "job", entries[min(d.At, len(entries)-1)].Job.ID, "reason", d.Reason)
		}
		n.Dropped += len(r.Dropped)
		n.Added += len(entries) - len(r.Dropped)
		return nil
	case final(r.Err):
		in.log().Error("journal: jobs were refused, and are in the file "+RefusedFile, "job", entries[0].Job.ID, "jobs", len(entries), "err", r.Err)
		if err := in.Journal.refuse(entries, r.Err); err != nil {
			return err
		}
		n.Refused += len(entries)
		return nil
	}
	return r.Err
}

// final reports whether repeating a request would bring the same answer.
func final(err error) bool {
	if errors.Is(err, haulier.ErrUnavailable) {
		return false
	}
	for _, is := range []error{haulier.ErrInvalid, haulier.ErrConflict, haulier.ErrRefused, haulier.ErrForbidden, haulier.ErrNotFound} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// refuse writes entries to RefusedFile, durably.
func (j *Journal) refuse(entries []Entry, why error) error {
	text := []byte("# " + strings.Join(strings.Fields(why.Error()), " ") + "\n")
	for i := range entries {
		body, err := appendBody(nil, &entries[i])
		if err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		text = appendLine(text, entries[i].Seq, body)
	}
	j.refusing.Lock()
	defer j.refusing.Unlock()
	f, err := j.disk.open(filepath.Join(j.dir, RefusedFile))
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	err = appendTo(f, text)
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = j.disk.syncDir(j.dir)
	}
	if err != nil {
		return fmt.Errorf("journal: %s: %w: %w", RefusedFile, haulier.ErrUnavailable, err)
	}
	return nil
}

// appendTo writes text after the last whole line of a file, and syncs it.
func appendTo(f file, text []byte) error {
	old, err := contentOf(f)
	if err != nil {
		return err
	}
	end := int64(bytes.LastIndexByte(old, '\n') + 1)
	if _, err := f.WriteAt(text, end); err != nil {
		return errors.Join(err, f.Truncate(end))
	}
	return f.Sync()
}

// Err is why the journal is of no use any more, or nil.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failed
}
