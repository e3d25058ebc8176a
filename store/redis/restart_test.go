package redis_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/store/redis"
	"github.com/haulier/haulier/store/services"
	"github.com/haulier/haulier/store/storetest"
)

// facts are what was acknowledged: how far each job must be.
type facts struct {
	mu    sync.Mutex
	least map[haulier.ID]haulier.State
}

func (f *facts) hold(s haulier.State, ids ...haulier.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		f.least[id] = max(f.least[id], s)
	}
}

func (f *facts) check(t *testing.T, s haulier.Store) {
	t.Helper()
	ids := make([]haulier.ID, 0, len(f.least))
	for id := range f.least {
		ids = append(ids, id)
	}
	jobs, err := s.Jobs(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		switch {
		case jobs[i] == nil:
			t.Fatalf("job %v is lost, which was %v", id, f.least[id])
		case jobs[i].State < f.least[id]:
			t.Fatalf("job %v is %v, and was %v", id, jobs[i].State, f.least[id])
		}
	}
}

// TestKillOfRedis kills Redis under load, again and again, and looks whether all that was acknowledged still holds. The
// store stays open all the time.
func TestKillOfRedis(t *testing.T) {
	server := services.StartRedis(t, t.TempDir(), "--appendfsync", "always", "--save", "")
	s := open(t, server.URL(""), redis.Options{})
	session := newSession(t, s)
	f := &facts{least: map[haulier.ID]haulier.State{}}
	for round := range 5 {
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { f.insert(ctx, t, s) })
		}
		for range 2 {
			wg.Go(func() { f.work(ctx, t, s, session) })
		}
		sleep(time.Duration(50+rand.IntN(300)) * time.Millisecond)
		server.Kill()
		stop()
		wg.Wait()
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the store is back", func() bool { _, err := s.Now(t.Context()); return err == nil })
		f.check(t, s)
		if round == 4 {
			storetest.Check(t.Context(), t, s)
		}
	}
	t.Logf("%d jobs", len(f.least))
}

// unavailable ends the load: Redis was killed.
func unavailable(t *testing.T, err error) bool {
	if err != nil && !errors.Is(err, haulier.ErrUnavailable) && !errors.Is(err, context.Canceled) {
		t.Errorf("while Redis was killed: %v, want ErrUnavailable", err)
	}
	return err != nil
}

func (f *facts) insert(ctx context.Context, t *testing.T, s haulier.Store) {
	for {
		jobs := newJobs(1 + rand.IntN(20))
		if unavailable(t, s.Commit(ctx, &haulier.Batch{Insert: jobs, Sync: true})) {
			return
		}
		for i := range jobs {
			f.hold(haulier.Pending, jobs[i].ID)
		}
	}
}

func (f *facts) work(ctx context.Context, t *testing.T, s haulier.Store, session haulier.ID) {
	for {
		claimed, err := s.Claim(ctx, session, "w", []haulier.Take{{Band: benchBand, N: 1 + rand.IntN(30)}})
		if unavailable(t, err) {
			return
		}
		b := haulier.Batch{Sync: true}
		for i := range claimed {
			j := &claimed[i]
			f.hold(haulier.Claimed, j.ID)
			if i%2 == 0 {
				b.Update = append(b.Update, finish(t, j))
			}
		}
		if unavailable(t, s.Commit(ctx, &b)) {
			return
		}
		for _, u := range b.Update {
			f.hold(haulier.Succeeded, u.Spec.ID)
		}
	}
}

func finish(t testing.TB, j *haulier.Job) haulier.JobUpdate {
	next, err := j.Next(haulier.Event{Kind: haulier.EventFinish, Session: j.Session, Attempt: j.Attempt, Outcome: haulier.OutcomeOK}, time.Now())
	if err != nil {
		t.Error(err)
	}
	return haulier.JobUpdate{Spec: &j.Spec, Expect: j.Rev, Status: next}
}

func newSession(t testing.TB, s haulier.Store) haulier.ID {
	t.Helper()
	id := haulier.NewID(time.Now())
	b := haulier.Batch{Docs: []haulier.DocWrite{{Kind: haulier.DocSession, Key: id.String(), Value: []byte("{}"), Lease: time.Hour}}}
	if err := s.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return id
}

func sleep(d time.Duration) { <-time.After(d) }

// eventually asks until ok or twenty seconds have passed.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("twenty seconds have passed, and not yet: %s", what)
		}
	}
}

// TestLossOfData takes away what Redis had while a store is open: it must not go on as if nothing were.
func TestLossOfData(t *testing.T) {
	dir := t.TempDir()
	server := services.StartRedis(t, dir, "--save", "")
	s := open(t, server.URL(""), redis.Options{})
	if err := s.Commit(t.Context(), &haulier.Batch{Insert: newJobs(3)}); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	if err := os.RemoveAll(dir + "/appendonlydir"); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Failed():
	case <-time.After(20 * time.Second):
		t.Fatal("the store goes on")
	}
	if _, err := s.Now(t.Context()); !errors.Is(err, haulier.ErrUnavailable) {
		t.Errorf("error is %v, want ErrUnavailable", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	again := open(t, server.URL(""), redis.Options{})
	if again.Opened().ClaimsLost {
		t.Error("a store that was emptied has no claims to lose")
	}
}

// TestLossOfTheLastSecond has Redis forget the end of its file, as a loss of power does with appendfsync everysec: the store that has heard
// of more fails, and who opens it anew finds what was there before, whole, and is told that claims may be lost.
func TestLossOfTheLastSecond(t *testing.T) {
	dir := t.TempDir()
	server := services.StartRedis(t, dir, "--save", "", "--appendfsync", "everysec")
	s := open(t, server.URL(""), redis.Options{})
	session := newSession(t, s)
	kept, lost := newJobs(10), newJobs(5)
	if err := s.Commit(t.Context(), &haulier.Batch{Insert: kept}); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(dir + "/appendonlydir/*.incr.aof")
	if err != nil || len(files) != 1 {
		t.Fatal("the file that Redis appends to: ", files, err)
	}
	synced, err := os.Stat(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if jobs, err := s.Claim(t.Context(), session, "w", []haulier.Take{{Band: benchBand, N: 3}}); err != nil || len(jobs) != 3 {
		t.Fatalf("%d jobs were claimed: %v", len(jobs), err)
	}
	if err := s.Commit(t.Context(), &haulier.Batch{Insert: lost}); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	if err := os.Truncate(files[0], synced.Size()); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	again := open(t, server.URL(""), redis.Options{})
	if !again.Opened().ClaimsLost {
		t.Error("claims are not said to be lost")
	}
	if err := again.Commit(t.Context(), &haulier.Batch{Insert: newJobs(8)}); err != nil { // as many changes as were lost, and others
		t.Fatal(err)
	}
	select {
	case <-s.Failed():
	case <-time.After(20 * time.Second):
		t.Fatal("the store goes on that knows of what is lost")
	}
	if _, err := s.Claim(t.Context(), session, "w", []haulier.Take{{Band: benchBand, N: 3}}); !errors.Is(err, haulier.ErrUnavailable) {
		t.Errorf("a claim of the store that has failed: %v, want ErrUnavailable", err)
	}
	for i, batch := range [][]haulier.Job{kept, lost} {
		for _, j := range batch {
			found, err := again.Jobs(t.Context(), []haulier.ID{j.ID})
			if err != nil || (found[0] == nil) != (i == 1) || found[0] != nil && found[0].State != haulier.Pending {
				t.Errorf("job %v of part %d is %+v: %v", j.ID, i, found, err)
			}
		}
	}
	storetest.Check(t.Context(), t, again)
}

// TestClaimsLost says that claims may be lost after a restart of Redis, to all servers that open soon after.
func TestClaimsLost(t *testing.T) {
	server := services.StartRedis(t, t.TempDir(), "--save", "")
	if err := open(t, server.URL(""), redis.Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	if open(t, server.URL(""), redis.Options{}).Opened().ClaimsLost {
		t.Error("claims are said to be lost, though Redis has run all the time")
	}
	server.Kill()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if !open(t, server.URL(""), redis.Options{}).Opened().ClaimsLost {
			t.Error("claims are not said to be lost, though Redis was started anew")
		}
	}
}
