package engine

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/engine/flow"
)

// keepKeys is how long an idempotency key is remembered.
const keepKeys = 7 * 24 * time.Hour

// maxKeyed bounds a request with a key, whose ids must fit a document.
const maxKeyed = 5000

// keyedAtOnce is how many requests with a key are on their way to the store together, which joins their commits.
const keyedAtOnce = 64

// enqueueTries bounds how often a request is decided anew because others changed what it depends on: each time one of them was served.
const enqueueTries = 1000

// enqueue is Enqueue without hooks, or for requests whose hooks were asked.
func (e *Engine) enqueue(ctx context.Context, reqs []haulier.EnqueueRequest, asks []*asked) ([]haulier.EnqueueResult, error) {
	now, err := e.now(ctx)
	if err != nil {
		return nil, err
	}
	results := make([]haulier.EnqueueResult, len(reqs))
	total := 0
	for i := range reqs {
		total += min(len(reqs[i].Jobs), haulier.MaxBatch)
	}
	// Jobs are large: all of them are made in one place, and stay there.
	joined := haulier.Batch{Insert: make([]haulier.Job, 0, total)}
	ids := make([]haulier.ID, total)
	var members []int // requests of the joined batch
	var alone errgroup.Group
	alone.SetLimit(keyedAtOnce)
	puts := &keeping{e: e}
	for i := range reqs {
		var ask *asked
		if asks != nil {
			ask = asks[i]
		}
		at, n := len(joined.Insert), min(len(reqs[i].Jobs), haulier.MaxBatch)
		own := ids[at : at+n : at+n]
		if reqs[i].Key != "" || flows(reqs[i].Jobs) {
			own = make([]haulier.ID, n)
			b, puts := &haulier.Batch{Insert: make([]haulier.Job, n)}, &keeping{e: e}
			if err := e.prepare(ctx, &reqs[i], ask, now, own, b, puts); err != nil {
				results[i].Err = err
				continue
			}
			alone.Go(func() error {
				results[i] = e.enqueueAlone(ctx, &reqs[i], ask, b, own, puts, now)
				return nil
			})
			continue
		}
		b := haulier.Batch{Insert: joined.Insert[at : at+n]}
		mark := puts.mark()
		if err := e.prepare(ctx, &reqs[i], ask, now, own, &b, puts); err != nil {
			puts.rewind(mark)
			results[i].Err = err
			continue
		}
		results[i].IDs = own
		joined.Insert = joined.Insert[:at+n]
		members = append(members, i)
	}
	if len(members) > 0 {
		if err := e.commitJoined(ctx, &joined, puts); err != nil {
			for _, i := range members {
				results[i] = haulier.EnqueueResult{Err: fmt.Errorf("enqueue: %w", err)}
			}
		}
	}
	return results, alone.Wait()
}

// commitJoined adds the jobs of requests that depend on nothing, with the blobs that they refer to.
func (e *Engine) commitJoined(ctx context.Context, b *haulier.Batch, puts *keeping) error {
	b.Sync = true
	for range enqueueTries {
		docs, err := puts.writes(ctx, b.Insert)
		if err != nil {
			return err
		}
		b.Docs = docs
		if err := e.store.Commit(ctx, b); len(docs) == 0 || !errors.Is(err, haulier.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("%w: others keep changing its blobs; try again", haulier.ErrUnavailable)
}

// prepare turns a request into the batch b that adds its jobs, and sets their ids; both have room for them.
func (e *Engine) prepare(ctx context.Context, r *haulier.EnqueueRequest, ask *asked, now time.Time, ids []haulier.ID, b *haulier.Batch, puts *keeping) error {
	if err := checkRequest(r); err != nil {
		return err
	}
	if err := setIDs(ids, r, now); err != nil {
		return err
	}
	b.CheckIDs = r.KeepIDs
	for i := range r.Jobs {
		j := &b.Insert[i]
		j.Spec = r.Jobs[i]
		j.ID, j.CreatedAt, j.Parent = ids[i], now.UTC().Truncate(time.Microsecond), haulier.NilID
		if err := complete(&j.Spec, now); err != nil {
			return inJob(i, err)
		}
		if len(j.Payload) > haulier.MaxPayload {
			j.Blob = puts.content(j.Tenant, j.Payload, j.ID.String(), j.ID)
			j.Payload = nil
		}
		for _, addr := range j.Task.Blobs() {
			if err := puts.named(ctx, j, addr, now); err != nil {
				return inJob(i, err)
			}
		}
		j.Status = j.Spec.First(now, r.By)
		ask.note(i, &j.Status)
	}
	return nil
}

// setIDs makes the ids of a request's jobs, or takes those that they have.
func setIDs(ids []haulier.ID, r *haulier.EnqueueRequest, now time.Time) error {
	if !r.KeepIDs {
		haulier.FillIDs(ids, now)
		return nil
	}
	if r.Key == "" {
		return field("key", "is missing: a request that keeps the ids of its jobs needs one")
	}
	seen := make(map[haulier.ID]bool, len(ids))
	for i := range r.Jobs {
		ids[i] = r.Jobs[i].ID
		if ids[i][6]>>4 != 7 || ids[i][8]>>6 != 2 || seen[ids[i]] {
			return inJob(i, field("id", fmt.Sprintf("%v is not a UUID of version 7, or another job of the request has it", ids[i])))
		}
		seen[ids[i]] = true
	}
	return nil
}

// checkRequest checks how much a request is.
func checkRequest(r *haulier.EnqueueRequest) error {
	switch {
	case len(r.Jobs) == 0:
		return &haulier.FieldError{Field: "jobs", Msg: "is empty: name at least one job"}
	case len(r.Jobs) > haulier.MaxBatch || r.Key != "" && len(r.Jobs) > maxKeyed:
		return &haulier.FieldError{Field: "jobs", Kind: haulier.ErrTooLarge, Msg: fmt.Sprintf(
			"has %d jobs: send at most %d in a request, or %d with an idempotency key", len(r.Jobs), haulier.MaxBatch, maxKeyed)}
	case len(r.Key) > haulier.MaxName:
		return &haulier.FieldError{Field: "key", Kind: haulier.ErrTooLarge, Msg: fmt.Sprintf("is longer than %d bytes", haulier.MaxName)}
	}
	return nil
}

// keyed is the document of an idempotency key.
type keyed struct {
	Digest  []byte            `json:"digest"` // of the request's jobs
	Expires time.Time         `json:"expires"`
	IDs     []haulier.ID      `json:"ids"`
	Dropped []haulier.Dropped `json:"dropped,omitempty"`
}

// enqueueAlone commits a request by itself: it has a key, or jobs whose flow depends on what is there.
func (e *Engine) enqueueAlone(ctx context.Context, r *haulier.EnqueueRequest, ask *asked, b *haulier.Batch, ids []haulier.ID, puts *keeping, now time.Time) haulier.EnqueueResult {
	key := b.Insert[0].Tenant + "/" + r.Key
	var digest []byte
	if r.Key != "" {
		var err error
		if digest, err = digestOf(ask.origin(r)); err != nil {
			return haulier.EnqueueResult{Err: err}
		}
	}
	tied := flows(r.Jobs)
	for range enqueueTries {
		commit, work := *b, []string(nil)
		commit.Sync = true
		if tied {
			commit.Insert = nil
			t := flow.Begin(e.store, now)
			var err error
			if ids, err = t.Add(ctx, b.Insert); err != nil {
				return haulier.EnqueueResult{Err: fmt.Errorf("enqueue: %w", err)}
			}
			if work, err = t.Flush(ctx, &commit); err != nil {
				return haulier.EnqueueResult{Err: fmt.Errorf("enqueue: %w", err)}
			}
		}
		docs, err := puts.writes(ctx, commit.Insert)
		if err != nil {
			return haulier.EnqueueResult{Err: fmt.Errorf("enqueue: %w", err)}
		}
		commit.Docs = append(commit.Docs[:len(commit.Docs):len(commit.Docs)], docs...)
		if r.Key != "" {
			all := ask.spread(haulier.EnqueueResult{IDs: ids})
			doc, known, err := e.keyDoc(ctx, key, &keyed{Digest: digest, Expires: now.Add(keepKeys), IDs: all.IDs, Dropped: all.Dropped}, now)
			if err != nil {
				return haulier.EnqueueResult{Err: fmt.Errorf("enqueue: idempotency key %q: %w", r.Key, err)}
			}
			if known != nil {
				return repeated(r.Key, known, digest)
			}
			commit.Docs = append(commit.Docs[:len(commit.Docs):len(commit.Docs)], doc)
		}
		err = e.commit(ctx, &commit, work)
		if errors.Is(err, haulier.ErrConflict) {
			if res, ok := e.addedBefore(ctx, r, b.Insert); ok {
				return res
			}
			continue // somebody used the key or changed a job at the same time
		}
		if err != nil {
			return haulier.EnqueueResult{Err: fmt.Errorf("enqueue: %w", err)}
		}
		return haulier.EnqueueResult{IDs: ids, Existing: existing(b.Insert, ids)}
	}
	return haulier.EnqueueResult{Err: fmt.Errorf("enqueue: %w: the jobs that it depends on keep changing; try again", haulier.ErrUnavailable)}
}

// addedBefore answers a request that keeps its ids, when jobs have them already: its key may have been forgotten since.
func (e *Engine) addedBefore(ctx context.Context, r *haulier.EnqueueRequest, jobs []haulier.Job) (res haulier.EnqueueResult, ok bool) {
	if !r.KeepIDs {
		return res, false
	}
	ids := make([]haulier.ID, len(jobs))
	for i := range jobs {
		ids[i] = jobs[i].ID
	}
	there, err := e.store.Jobs(ctx, ids)
	if err != nil {
		return haulier.EnqueueResult{Err: fmt.Errorf("enqueue: %w", err)}, true
	}
	for i, j := range there {
		if j == nil {
			continue // or purged since: all of them were added, or none
		}
		if ok = j.Tenant == jobs[i].Tenant && j.Type == jobs[i].Type; !ok {
			return haulier.EnqueueResult{Err: fmt.Errorf("enqueue: %w: another job has the id %v", haulier.ErrConflict, ids[i])}, true
		}
	}
	return haulier.EnqueueResult{IDs: ids, Repeated: true}, ok
}

// existing are the places of the ids that are not the new jobs' own.
func existing(jobs []haulier.Job, ids []haulier.ID) []int {
	var out []int
	for i := range jobs {
		if jobs[i].ID != ids[i] {
			out = append(out, i)
		}
	}
	return out
}

// keyDoc is the write that takes an idempotency key, or what is known of it.
func (e *Engine) keyDoc(ctx context.Context, key string, k *keyed, now time.Time) (w haulier.DocWrite, known *keyed, err error) {
	w = haulier.DocWrite{Kind: haulier.DocRequest, Key: key}
	old, err := e.store.Doc(ctx, haulier.DocRequest, key)
	switch {
	case err == nil:
		var v keyed
		if err := json.Unmarshal(old.Value, &v); err != nil {
			return w, nil, fmt.Errorf("%w: %w", haulier.ErrCorrupt, err)
		}
		if now.Before(v.Expires) {
			return w, &v, nil
		}
		w.Expect = old.Rev
	case !errors.Is(err, haulier.ErrNotFound):
		return w, nil, err
	}
	w.Value, err = json.Marshal(k)
	return w, nil, err
}

// flows reports whether one of the jobs has a flow or nothing to run.
func flows(jobs []haulier.Spec) bool {
	for i := range jobs {
		if jobs[i].Flow != nil || jobs[i].Task.None != nil {
			return true
		}
	}
	return false
}

// repeated answers a request whose key is known. The first answer may not be on
// stable storage yet when the second is given; both ask for the same sync.
func repeated(key string, k *keyed, digest []byte) haulier.EnqueueResult {
	if string(k.Digest) != string(digest) {
		return haulier.EnqueueResult{Err: fmt.Errorf(
			"idempotency key %q: %w: it was used for other jobs; choose a new key for a new request", key, haulier.ErrConflict)}
	}
	return haulier.EnqueueResult{IDs: k.IDs, Repeated: true, Dropped: k.Dropped}
}

// digestOf is what two requests must share to count as the same: everything that the caller gave.
func digestOf(jobs []haulier.Spec) ([]byte, error) {
	h := sha256.New()
	for i := range jobs {
		if err := digestSpec(h, &jobs[i]); err != nil {
			return nil, err
		}
	}
	return h.Sum(nil), nil
}

func digestSpec(h hash.Hash, s *haulier.Spec) error {
	c := *s
	c.ID, c.CreatedAt, c.Parent = haulier.NilID, time.Time{}, haulier.NilID
	// A start or deadline that a client computed from its clock differs in each repetition.
	c.RetryUntil = time.Time{}
	b, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("enqueue: %w: %w", haulier.ErrInvalid, err)
	}
	fmt.Fprintf(h, "%d %s %d %s\n", len(b), b, len(s.Payload), s.Payload)
	return nil
}
