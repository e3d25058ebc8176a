package pebble_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/store/pebble"
	"github.com/haulier/haulier/store/storetest"
)

var benchBand = haulier.Band{Lane: haulier.Lane{Tenant: "default", Queue: "default", Type: "bench", Kind: haulier.KindGo}}

// begin opens a session.
func begin(t testing.TB, s haulier.Store) haulier.ID {
	t.Helper()
	id := haulier.NewID(time.Now())
	err := s.Commit(t.Context(), &haulier.Batch{Sync: true, Docs: []haulier.DocWrite{{
		Kind: haulier.DocSession, Key: id.String(), Value: []byte("session"), Lease: time.Hour,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// shuffled are pending jobs whose time is in no relation to their ids.
func shuffled(n int) []haulier.Job {
	jobs := newJobs(n)
	for i, k := range rand.Perm(n) {
		jobs[i].Status.RunAt = jobs[i].CreatedAt.Add(time.Duration(k-n) * time.Second)
	}
	return jobs
}

func insert(t testing.TB, s haulier.Store, jobs []haulier.Job) {
	t.Helper()
	for part := range slices.Chunk(jobs, 100) {
		if err := s.Commit(t.Context(), &haulier.Batch{Insert: part}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestJobsAreClaimedInOrderHoweverFewAreInMemory(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir := t.TempDir()
	s := open(t, dir, pebble.Small(pebble.Options{}))
	session := begin(t, s)
	jobs := shuffled(1000)
	insert(t, s, jobs)
	slices.SortFunc(jobs, func(a, b haulier.Job) int { return a.Status.RunAt.Compare(b.Status.RunAt) })
	reopened := false
	for n := 0; n < len(jobs); {
		if n > 500 && !reopened { // what stood in memory is gone
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s, reopened = open(t, dir, pebble.Small(pebble.Options{})), true
		}
		got, err := s.Claim(t.Context(), session, "w", []haulier.Take{{Band: benchBand, N: 1 + rand.IntN(30)}})
		if err != nil || len(got) == 0 {
			t.Fatalf("claim after %d: %d jobs, %v", n, len(got), err)
		}
		for i := range got {
			if got[i].ID != jobs[n].ID {
				t.Fatalf("job %d is %v, want %v", n, got[i].ID, jobs[n].ID)
			}
			n++
		}
	}
	storetest.Check(t.Context(), t, s)
	s.Close()
}

func TestManyClaimCancelAndInsertAtOnce(t *testing.T) {
	s := open(t, t.TempDir(), pebble.Small(pebble.Options{}))
	session := begin(t, s)
	jobs := shuffled(3000)
	insert(t, s, jobs[:1000])
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var mu sync.Mutex
	ended := map[haulier.ID]string{}
	end := func(id haulier.ID, how string) {
		mu.Lock()
		defer mu.Unlock()
		if was := ended[id]; was != "" {
			t.Errorf("job %v was %s and then %s", id, was, how)
		}
		if ended[id] = how; len(ended) == len(jobs) {
			stop()
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { insert(t, s, jobs[1000:]) })
	for range 3 {
		wg.Go(func() {
			for ctx.Err() == nil {
				got, err := s.Claim(context.Background(), session, "w", []haulier.Take{{Band: benchBand, N: 1 + rand.IntN(20)}, {Band: benchBand, N: 3}})
				if err != nil {
					t.Error(err)
					return
				}
				for i := range got {
					end(got[i].ID, "claimed")
				}
			}
		})
	}
	wg.Go(func() { cancelSome(ctx, t, s, jobs, end) })
	wg.Wait()
	if len(ended) != len(jobs) {
		t.Errorf("%d of %d jobs ended", len(ended), len(jobs))
	}
	storetest.Check(t.Context(), t, s)
}

func cancelSome(ctx context.Context, t *testing.T, s haulier.Store, jobs []haulier.Job, end func(haulier.ID, string)) {
	for ctx.Err() == nil {
		found, err := s.Jobs(context.Background(), []haulier.ID{jobs[rand.IntN(len(jobs))].ID})
		if err != nil {
			t.Error(err)
			return
		}
		j := found[0]
		if j == nil || j.State != haulier.Pending {
			continue
		}
		next, err := j.Next(haulier.Event{Kind: haulier.EventCancel, By: "test"}, time.Now())
		if err != nil {
			t.Error(err)
			return
		}
		err = s.Commit(context.Background(), &haulier.Batch{Update: []haulier.JobUpdate{{Spec: &j.Spec, Expect: j.Rev, Status: next}}})
		switch {
		case err == nil:
			end(j.ID, "cancelled")
		case !errors.Is(err, haulier.ErrConflict):
			t.Error(err)
			return
		}
	}
}
