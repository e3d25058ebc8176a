package journal

import (
	"context"
	"fmt"

	"github.com/haulier/haulier"
)

// Front is a haulier.Producer that accepts jobs into a journal: what it acknowledges is durable there, and gets into the queue by an
// Ingest. The ids that it answers are those that the jobs have in the queue.
//
// The journal takes requests of plain jobs (see Plain) without a key: whether a key is known is the queue's to say. A request whose ids
// its caller chose (KeepIDs) is safe to repeat here as well, and may have one.
type Front struct {
	Journal *Journal
	// Next gets the requests that the journal does not take. Nil: they are refused.
	Next haulier.Producer
	// Check refuses jobs that the queue would refuse later. Nil: nothing is checked here.
	Check func(jobs []haulier.Spec, by string) error
}

var _ haulier.Producer = (*Front)(nil)

// Enqueue implements haulier.Producer.
func (f *Front) Enqueue(ctx context.Context, reqs []haulier.EnqueueRequest) ([]haulier.EnqueueResult, error) {
	results := make([]haulier.EnqueueResult, len(reqs))
	var written, others []int
	for i := range reqs {
		why := f.passes(&reqs[i])
		switch {
		case why == nil:
			results[i] = f.write(ctx, &reqs[i])
			if results[i].Err == nil {
				written = append(written, i)
			}
		case f.Next != nil:
			others = append(others, i)
		default:
			results[i].Err = why
		}
	}
	if len(written) > 0 {
		if err := f.Journal.Sync(ctx); err != nil {
			for _, i := range written {
				results[i] = haulier.EnqueueResult{Err: err}
			}
		}
	}
	if len(others) > 0 {
		f.pass(ctx, reqs, others, results)
	}
	return results, nil
}

// passes tells why the journal does not take a request, or nil.
func (f *Front) passes(r *haulier.EnqueueRequest) error {
	if r.Key != "" && !r.KeepIDs {
		return &haulier.FieldError{Field: "key", Msg: "can't be kept in a journal: leave it out, or enqueue at the server"}
	}
	if len(r.Jobs) == 0 || len(r.Jobs) > maxJobs {
		return &haulier.FieldError{Field: "jobs", Msg: fmt.Sprintf("are %d: a journal takes from 1 to %d in a request", len(r.Jobs), maxJobs)}
	}
	for i := range r.Jobs {
		if !Plain(&r.Jobs[i]) {
			return &haulier.FieldError{Field: fmt.Sprintf("jobs[%d]", i), Msg: fmt.Sprintf(
				"needs the store: a journal takes jobs without flow, files and payloads over %d bytes; enqueue it at the server", haulier.MaxPayload)}
		}
	}
	return nil
}

// write appends a request's jobs.
func (f *Front) write(ctx context.Context, r *haulier.EnqueueRequest) haulier.EnqueueResult {
	if f.Check != nil {
		if err := f.Check(r.Jobs, r.By); err != nil {
			return haulier.EnqueueResult{Err: err}
		}
	}
	now := f.Journal.Now()
	ids := make([]haulier.ID, len(r.Jobs))
	if !r.KeepIDs {
		haulier.FillIDs(ids, now)
	}
	entries := make([]Entry, len(r.Jobs))
	for i := range r.Jobs {
		if r.KeepIDs {
			ids[i] = r.Jobs[i].ID
		}
		entries[i] = Entry{At: now, Job: r.Jobs[i], By: r.By}
		entries[i].Job.ID = ids[i]
	}
	if _, _, err := f.Journal.Write(ctx, entries); err != nil {
		return haulier.EnqueueResult{Err: err}
	}
	return haulier.EnqueueResult{IDs: ids}
}

// pass hands on the requests that the journal does not take.
func (f *Front) pass(ctx context.Context, reqs []haulier.EnqueueRequest, places []int, results []haulier.EnqueueResult) {
	list := make([]haulier.EnqueueRequest, len(places))
	for k, i := range places {
		list[k] = reqs[i]
	}
	done, err := f.Next.Enqueue(ctx, list)
	if err == nil && len(done) != len(list) {
		err = fmt.Errorf("enqueue: %d results for %d requests", len(done), len(list))
	}
	for k, i := range places {
		if err != nil {
			results[i] = haulier.EnqueueResult{Err: err}
			continue
		}
		results[i] = done[k]
	}
}
