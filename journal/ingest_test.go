package journal_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/blob"
	"github.com/haulier/haulier/engine"
	"github.com/haulier/haulier/journal"
	"github.com/haulier/haulier/store/mem"
)

func newEngine(t testing.TB) *engine.Engine {
	t.Helper()
	blobs, err := blob.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	store := mem.New()
	e, err := engine.New(engine.Config{Store: store, Blobs: blobs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.Close()
		store.Close()
		blobs.Close()
	})
	return e
}

// unsteady is a queue that is away as often as fault says, before or after it did what it was asked.
type unsteady struct {
	haulier.Producer
	mu    sync.Mutex
	fault func(call int) (before, after error)
	calls int
}

func (u *unsteady) Enqueue(ctx context.Context, reqs []haulier.EnqueueRequest) ([]haulier.EnqueueResult, error) {
	u.mu.Lock()
	u.calls++
	before, after := u.fault(u.calls)
	u.mu.Unlock()
	if before != nil {
		return nil, before
	}
	res, err := u.Producer.Enqueue(ctx, reqs)
	if after != nil {
		return nil, after
	}
	return res, err
}

// accept enqueues at a front, and returns the ids.
func accept(t testing.TB, f *journal.Front, reqs ...haulier.EnqueueRequest) []haulier.EnqueueResult {
	t.Helper()
	res, err := f.Enqueue(t.Context(), reqs)
	if err != nil || len(res) != len(reqs) {
		t.Fatal(res, err)
	}
	return res
}

func payloads(list ...string) (specs []haulier.Spec) {
	for _, p := range list {
		specs = append(specs, haulier.Spec{Type: "mail", Queue: "bulk", Payload: []byte(p), Labels: map[string]string{"p": p}})
	}
	return specs
}

// TestNothingIsLostOrDoubled: with a queue that fails before and after it has done its work, and restarts of the journal, each job
// that was acknowledged is in the queue once, under the id that was told.
func TestNothingIsLostOrDoubled(t *testing.T) {
	e := newEngine(t)
	dir := t.TempDir()
	want := map[haulier.ID]string{}
	away := fmt.Errorf("%w: somewhere else", haulier.ErrUnavailable)
	q := &unsteady{Producer: e, fault: func(call int) (error, error) {
		switch call % 4 {
		case 1:
			return away, nil
		case 2:
			return nil, away
		}
		return nil, nil
	}}
	for round := range 5 {
		j := open(t, dir, journal.Options{SegmentBytes: 2000})
		f := &journal.Front{Journal: j}
		for i := range 20 {
			text := fmt.Sprintf("%d-%d", round, i)
			res := accept(t, f, haulier.EnqueueRequest{Jobs: payloads(text, text+"+"), By: "ann"})[0]
			if res.Err != nil || len(res.IDs) != 2 {
				t.Fatal(res)
			}
			want[res.IDs[0]], want[res.IDs[1]] = text, text+"+"
		}
		in := &journal.Ingest{Journal: j, Queue: q}
		for range round {
			if _, err := in.Once(t.Context()); err != nil && !errors.Is(err, haulier.ErrUnavailable) {
				t.Fatal(err)
			}
		}
		j.Close()
	}
	j := open(t, dir, journal.Options{})
	in := &journal.Ingest{Journal: j, Queue: q}
	for j.Standing().Lines > 0 {
		if _, err := in.Once(t.Context()); err != nil && !errors.Is(err, haulier.ErrUnavailable) {
			t.Fatal(err)
		}
	}
	for id, text := range want {
		list, err := e.Get(t.Context(), "", []haulier.ID{id})
		if err != nil || list[0] == nil {
			t.Fatalf("%s is lost: %v", text, err)
		}
		if got := list[0]; string(got.Payload) != text || got.Queue != "bulk" || got.Labels["p"] != text || got.History[0].By != "ann" {
			t.Errorf("%s has become %+v", text, got)
		}
	}
	counts, err := e.Counts(t.Context(), "")
	n := 0
	for _, c := range counts {
		n += int(c.N)
	}
	if err != nil || n != len(want) {
		t.Errorf("%d jobs are in the queue, want %d (%v)", n, len(want), err)
	}
}

// TestRunWaits for jobs, and for a queue that is away.
func TestRunWaits(t *testing.T) {
	e := newEngine(t)
	j := open(t, t.TempDir(), journal.Options{})
	calls := make(chan int, 10)
	q := &unsteady{Producer: e, fault: func(call int) (before, _ error) {
		calls <- call
		if call < 3 {
			before = haulier.ErrUnavailable
		}
		return before, nil
	}}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := (&journal.Ingest{Journal: j, Queue: q}).Run(ctx); err != nil {
			t.Error(err)
		}
	})
	f := &journal.Front{Journal: j}
	id := accept(t, f, haulier.EnqueueRequest{Jobs: payloads("a")})[0].IDs[0]
	for <-calls < 3 {
	}
	accept(t, f, haulier.EnqueueRequest{Jobs: payloads("b")})
	<-calls // which comes when the first is done
	if list, err := e.Get(t.Context(), "", []haulier.ID{id}); err != nil || list[0] == nil {
		t.Error("the first job is not there: ", err)
	}
	cancel()
	running.Wait()
}

// TestRefusedJobsDoNotHoldUpTheRest, and are kept with the reason.
func TestRefusedJobsDoNotHoldUpTheRest(t *testing.T) {
	e := newEngine(t)
	dir := t.TempDir()
	j := open(t, dir, journal.Options{})
	f := &journal.Front{Journal: j}
	bad := payloads("bad")
	bad[0].Priority = 99
	res := accept(t, f, haulier.EnqueueRequest{Jobs: payloads("a")}, haulier.EnqueueRequest{Jobs: bad}, haulier.EnqueueRequest{Jobs: payloads("b", "c")})
	sum, err := (&journal.Ingest{Journal: j, Queue: e}).Once(t.Context())
	if err != nil || sum != (journal.Ingested{Added: 3, Refused: 1}) {
		t.Fatal(sum, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, journal.RefusedFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"# jobs[0].priority: is 99", res[1].IDs[0].String(), "|bad|"} {
		if !strings.Contains(string(text), words) {
			t.Errorf("lacks %q:\n%s", words, text)
		}
	}
	if s := j.Standing(); s.Lines != 0 {
		t.Errorf("standing %+v", s)
	}

	again := t.TempDir() // the file is a journal's
	if err := os.WriteFile(filepath.Join(again, "00000000000000000001.journal"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, "in a folder of its own", rest(t, open(t, again, journal.Options{})), "bad")
}

// TestRequestThatSpoilsTheWhole: a queue that refuses a call as a whole gets its requests one by one.
func TestRequestThatSpoilsTheWhole(t *testing.T) {
	e := newEngine(t)
	j := open(t, t.TempDir(), journal.Options{})
	f := &journal.Front{Journal: j}
	for _, p := range []string{"a", "b", "spoils", "c"} {
		accept(t, f, haulier.EnqueueRequest{Jobs: payloads(p)})
	}
	sum, err := (&journal.Ingest{Journal: j, Queue: spoiled{e}}).Once(t.Context())
	if err != nil || sum != (journal.Ingested{Added: 3, Refused: 1}) {
		t.Fatal(sum, err)
	}
}

type spoiled struct{ haulier.Producer }

func (s spoiled) Enqueue(ctx context.Context, reqs []haulier.EnqueueRequest) ([]haulier.EnqueueResult, error) {
	for i := range reqs {
		if string(reqs[i].Jobs[0].Payload) == "spoils" {
			return nil, haulier.ErrTooLarge
		}
	}
	return s.Producer.Enqueue(ctx, reqs)
}

// TestFrontPassesOn what the journal can't keep, and refuses it when there is nobody to pass it to.
func TestFrontPassesOn(t *testing.T) {
	e := newEngine(t)
	j := open(t, t.TempDir(), journal.Options{})
	check := func(specs []haulier.Spec, by string) error {
		_, err := engine.PlainJobs(specs, by, time.Now())
		return err
	}
	f := &journal.Front{Journal: j, Next: e, Check: check}
	flow := payloads("flow")
	flow[0].Flow = &haulier.Flow{Holds: []string{"k"}}
	wrong := payloads("wrong")
	wrong[0].Queue = "a b"
	kept := payloads("kept")
	kept[0].ID = haulier.NewID(time.Now())
	reqs := []haulier.EnqueueRequest{
		{Jobs: payloads("plain")}, {Jobs: flow}, {Jobs: payloads("keyed"), Key: "k"}, {Jobs: wrong}, {Jobs: kept, Key: "k2", KeepIDs: true}, {},
	}
	res := accept(t, f, reqs...)
	if s := j.Standing(); s.Lines != 2 {
		t.Errorf("standing %+v, want the plain one and the one with its id", s)
	}
	if res[4].IDs[0] != kept[0].ID {
		t.Errorf("the id was not kept: %v", res[4])
	}
	for i, r := range res {
		bad := i == 3 || i == 5
		if (r.Err != nil) != bad || bad && !errors.Is(r.Err, haulier.ErrInvalid) {
			t.Errorf("request %d: %v", i, r.Err)
		}
	}
	accept(t, f, reqs[4]) // again
	if sum, err := (&journal.Ingest{Journal: j, Queue: e}).Once(t.Context()); err != nil || sum.Added != 3 {
		t.Fatal(sum, err)
	}
	counts, err := e.Counts(t.Context(), "")
	n := 0
	for _, c := range counts {
		n += int(c.N)
	}
	if err != nil || n != 4 {
		t.Errorf("%d jobs, want 4: %v", n, err)
	}
	f.Next = nil
	for i, r := range accept(t, f, reqs[1], reqs[2]) {
		if !errors.Is(r.Err, haulier.ErrInvalid) {
			t.Errorf("request %d: %v", i, r.Err)
		}
	}
}
