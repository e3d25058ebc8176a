package pebble_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/store/pebble"
	"github.com/haulier/haulier/store/storetest"
)

// load runs in a process of its own until it is killed: it inserts, claims and
// finishes jobs, and says each thing that was acknowledged by a line "word id".
func load(dir string) {
	s, err := pebble.Open(dir, pebble.Options{MemTable: 512 << 10})
	if err != nil {
		panic(err)
	}
	var mu sync.Mutex
	say := func(word string, ids ...haulier.ID) {
		var b strings.Builder
		for _, id := range ids {
			fmt.Fprintf(&b, "%s %v\n", word, id)
		}
		mu.Lock()
		defer mu.Unlock()
		io.WriteString(os.Stdout, b.String())
	}
	ctx := context.Background()
	session := haulier.NewID(time.Now())
	err = s.Commit(ctx, &haulier.Batch{Docs: []haulier.DocWrite{{Kind: haulier.DocSession, Key: session.String(), Value: []byte("s"), Lease: time.Hour}}})
	must(err)
	for range 4 {
		go func() {
			for {
				jobs := newJobs(1 + rand.IntN(20))
				must(s.Commit(ctx, &haulier.Batch{Insert: jobs, Sync: true}))
				for i := range jobs {
					say("inserted", jobs[i].ID)
				}
			}
		}()
	}
	for {
		claimed, err := s.Claim(ctx, session, "w", []haulier.Take{{Band: benchBand, N: 1 + rand.IntN(30)}})
		must(err)
		for i := range claimed {
			say("claimed", claimed[i].ID)
		}
		finish(ctx, s, claimed[:len(claimed)/2], func(id haulier.ID) { say("finished", id) })
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func finish(ctx context.Context, s haulier.Store, jobs []haulier.Job, done func(haulier.ID)) {
	var b haulier.Batch
	for i := range jobs {
		j := &jobs[i]
		next, err := j.Next(haulier.Event{Kind: haulier.EventFinish, Session: j.Session, Attempt: j.Attempt, Outcome: haulier.OutcomeOK}, time.Now())
		must(err)
		b.Update = append(b.Update, haulier.JobUpdate{Spec: &j.Spec, Expect: j.Rev, Status: next})
	}
	b.Sync = true
	must(s.Commit(ctx, &b))
	for i := range jobs {
		done(jobs[i].ID)
	}
}

// TestKill kills a process under load, again and again, and looks whether all that it was told still holds.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	least := map[haulier.ID]haulier.State{} // how far a job must be
	for round := range 6 {
		cmd := child(t, "load", dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n, stop := 0, 200+rand.IntN(4000); lines.Scan(); n++ {
			if n == stop {
				cmd.Process.Kill()
			}
			word, id, ok := strings.Cut(lines.Text(), " ")
			j, err := haulier.ParseID(id)
			if !ok || err != nil {
				break // cut by the kill
			}
			least[j] = max(least[j], map[string]haulier.State{"inserted": haulier.Pending, "claimed": haulier.Claimed, "finished": haulier.Succeeded}[word])
		}
		cmd.Wait()
		s := open(t, dir, pebble.Options{})
		if s.Opened().ClaimsLost {
			t.Error("claims are said to be lost, though the machine did not go down")
		}
		reached(t, s, least)
		if round == 5 {
			storetest.Check(t.Context(), t, s)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d jobs", len(least))
}

// reached checks that each job is at least where it must be.
func reached(t *testing.T, s haulier.Store, least map[haulier.ID]haulier.State) {
	t.Helper()
	ids := make([]haulier.ID, 0, len(least))
	for id := range least {
		ids = append(ids, id)
	}
	jobs, err := s.Jobs(context.Background(), ids)
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		switch {
		case jobs[i] == nil:
			t.Fatalf("job %v is lost, which was %v", id, least[id])
		case jobs[i].State < least[id]:
			t.Fatalf("job %v is %v, and was %v", id, jobs[i].State, least[id])
		}
	}
}
