package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/client"
	"github.com/haulier/haulier/store/services"
)

// TestCrashWithAJournal kills a server that acknowledges from its journal, again and again, while callers enqueue; a store that is shared goes
// away and comes back meanwhile. In the end each job that was acknowledged is there under the id that was told, and none is there twice.
func TestCrashWithAJournal(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds; run without -short")
	}
	seed := *crashSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d: repeat the choices with -crash.seed %d", seed, seed)
	t.Run("pebble", func(t *testing.T) {
		t.Parallel()
		newOutpost(t, seed, nil).run()
	})
	t.Run("redis", func(t *testing.T) {
		store := sharedStores["redis"](t)
		t.Parallel()
		newOutpost(t, seed, &store).run()
	})
}

// outpost is a server with a journal, and those who enqueue there.
type outpost struct {
	t    *testing.T
	site *site
	args []string
	way  *services.Link // to the shared store; nil: the store is the server's own
	dice *rand.Rand

	stop  chan struct{}
	acked atomic.Int64 // requests

	mu    sync.Mutex
	asked []*request
}

func newOutpost(t *testing.T, seed uint64, store *sharedStore) *outpost {
	o := &outpost{t: t, site: newSite(t), dice: rand.New(rand.NewPCG(seed, seed)), stop: make(chan struct{})}
	o.args = []string{"--journal", o.site.path("journal")}
	if store != nil {
		o.way = services.NewLink(t, store.network, store.addr)
		o.args = append(o.args, "--store", store.url(o.way.Addr()))
	}
	return o
}

func (o *outpost) run() {
	ctx, cancel := context.WithTimeout(o.t.Context(), 5*time.Minute)
	defer cancel()
	o.site.serve(o.args...)
	o.site.ready(ctx)
	c, err := client.New(client.Config{URL: o.site.url, Journal: true, Retry: -1})
	if err != nil {
		o.t.Fatal(err)
	}
	defer c.Close()
	var callers sync.WaitGroup
	for i := range 4 {
		callers.Go(func() { o.call(ctx, c, i) })
	}
	for round := range *journalRounds {
		o.more(ctx, 1+o.dice.Int64N(40))
		away := o.way != nil && round%2 == 0
		if away {
			o.way.Set(services.LinkDown)
			o.site.await(ctx, "the server knows that the store is away", func() bool { return !o.site.isReady(ctx) })
			o.more(ctx, 20) // the journal goes on without it
		}
		o.site.server.kill()
		if away {
			o.way.Set(services.LinkUp)
		}
		o.site.serve(o.args...)
		if o.dice.IntN(3) > 0 { // else the next blow may fall while it ingests what is left
			o.site.ready(ctx)
		}
	}
	o.site.ready(ctx)
	o.more(ctx, 10)
	close(o.stop)
	callers.Wait()
	o.settle(ctx)
}

// more waits until so many more requests were acknowledged.
func (o *outpost) more(ctx context.Context, n int64) {
	o.t.Helper()
	want := o.acked.Load() + n
	o.site.await(ctx, "more requests are acknowledged", func() bool {
		if o.site.server.ended() {
			o.t.Fatalf("the server ended by itself:\n%s", tail(o.site.server.output(o.t)))
		}
		return o.acked.Load() >= want
	})
}

// call enqueues until the end. What has ids of its caller's choice is repeated until it is acknowledged; of other requests
// without an answer nobody knows.
func (o *outpost) call(ctx context.Context, c *client.Client, caller int) {
	pause := time.NewTicker(5 * time.Millisecond)
	defer pause.Stop()
	for n := 0; ; n++ {
		r := newErrands(fmt.Sprintf("%d-%d", caller, n), n)
		o.mu.Lock()
		o.asked = append(o.asked, r)
		o.mu.Unlock()
		for again := true; again; {
			results, err := c.Enqueue(ctx, []haulier.EnqueueRequest{r.EnqueueRequest})
			if err == nil {
				err = results[0].Err
			}
			switch {
			case err == nil:
				r.ids, again = results[0].IDs, false
				o.acked.Add(1)
			case !errors.Is(err, haulier.ErrUnavailable):
				o.t.Errorf("enqueue while the server was being killed: %v; want ErrUnavailable or nothing", err)
				return
			default:
				again = r.KeepIDs && ctx.Err() == nil
			}
			<-pause.C
		}
		select {
		case <-o.stop:
			return
		case <-ctx.Done():
			return
		default:
		}
	}
}

// newErrands is a request of one job or three, of which every other has ids of its own.
func newErrands(label string, n int) *request {
	r := &request{label: label}
	for range 1 + 2*(n/2%2) {
		r.Jobs = append(r.Jobs, haulier.Spec{Type: "errand", Labels: map[string]string{"request": label}})
	}
	if n%2 == 0 {
		r.Key, r.KeepIDs = label, true
		for i := range r.Jobs {
			r.Jobs[i].ID = haulier.NewID(time.Now())
		}
	}
	return r
}

// settle waits until the journal is empty, and compares.
func (o *outpost) settle(ctx context.Context) {
	var ids []haulier.ID
	for _, r := range o.asked {
		ids = append(ids, r.ids...)
	}
	o.site.await(ctx, "all that was acknowledged is in the queue", func() bool {
		for from := 0; from < len(ids); from += 500 {
			jobs, err := o.site.client.Get(ctx, haulier.DefaultTenant, ids[from:min(from+500, len(ids))])
			if err != nil {
				o.t.Fatal("get jobs: ", err)
			}
			for _, j := range jobs {
				if j == nil {
					return false
				}
			}
		}
		return true
	})
	if code := o.site.server.stop(); code != 0 { // which leaves nothing of the journal on its way
		o.t.Errorf("the server ended with code %d on TERM:\n%s", code, tail(o.site.server.output(o.t)))
	}
	o.site.serve(o.args...) // which ingests what is left before it answers
	o.site.ready(ctx)
	if err := os.WriteFile(o.site.ledger, nil, 0o600); err != nil { // nobody works here
		o.t.Fatal(err)
	}
	facts := o.site.facts(ctx)
	kept, unknown := 0, 0
	for _, r := range o.asked {
		n := facts.labelled[r.label]
		switch {
		case r.ids == nil && n != 0 && n != len(r.Jobs):
			o.t.Errorf("of request %s, which was not acknowledged, %d of %d jobs are there", r.label, n, len(r.Jobs))
		case r.ids == nil:
			unknown++
		case n != len(r.Jobs):
			o.t.Errorf("request %s of %d jobs was acknowledged, %d are there", r.label, len(r.Jobs), n)
		case r.KeepIDs && r.ids[0] != r.Jobs[0].ID:
			o.t.Errorf("request %s was answered the id %v, it had chosen %v", r.label, r.ids[0], r.Jobs[0].ID)
		default:
			kept++
		}
		for _, id := range r.ids {
			if j := facts.jobs[id]; j == nil || j.Labels["request"] != r.label {
				o.t.Errorf("job %v of request %s is not what was asked for: %+v", id, r.label, j)
			}
		}
	}
	o.t.Logf("%d requests acknowledged, %d not; %d jobs", kept, unknown, len(facts.jobs))
	if refused, _ := filepath.Glob(filepath.Join(o.site.path("journal"), "refused")); len(refused) > 0 {
		o.t.Error("the journal holds jobs that were refused")
	}
}
