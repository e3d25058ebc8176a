package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/client"
)

// attempts is more than the suite can take from a job by killing.
const attempts = 500

// batchSize is the number of jobs in a batch of the load.
const batchSize = 20

// request is what the load asked for, under a label that its jobs carry.
type request struct {
	haulier.EnqueueRequest
	label string
	ids   []haulier.ID // nil: not acknowledged
}

// load enqueues until it is told to stop, whatever happens to the server. Requests with
// a key are repeated until they are acknowledged; one without is sent once, so that
// of an unacknowledged one nobody knows whether it was carried out.
type load struct {
	site  *site
	seed  uint64
	stop  chan struct{}
	ended sync.Once
	all   sync.WaitGroup

	mu       sync.Mutex
	requests []*request
	clients  []*client.Client // of several servers; nil: the site's
}

func (s *site) load(ctx context.Context, seed uint64, callers int) *load {
	l := &load{site: s, seed: seed, stop: make(chan struct{})}
	for c := range callers {
		l.all.Go(func() { l.call(ctx, c) })
	}
	return l
}

// end stops the callers, who first see their requests through. A second call does nothing.
func (l *load) end() {
	l.ended.Do(func() { close(l.stop) })
	l.all.Wait()
}

func (l *load) call(ctx context.Context, caller int) {
	dice := rand.New(rand.NewPCG(l.seed, uint64(caller)))
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-l.stop:
			return
		case <-tick.C:
		}
		r := l.request(dice, fmt.Sprintf("%d-%d", caller, n))
		l.send(ctx, r)
		l.mu.Lock()
		l.requests = append(l.requests, r)
		l.mu.Unlock()
	}
}

// request makes up something to ask for: mostly one job, now and then a batch.
func (l *load) request(dice *rand.Rand, label string) *request {
	r := &request{label: label}
	n := 1
	if dice.IntN(40) == 0 {
		n = batchSize
	}
	for range n {
		spec := l.spec(dice)
		spec.Labels = map[string]string{"request": label}
		r.Jobs = append(r.Jobs, spec)
	}
	if dice.IntN(3) > 0 {
		r.Key = label
	}
	return r
}

func (l *load) spec(dice *rand.Rand) haulier.Spec {
	var spec haulier.Spec
	switch k := dice.IntN(20); {
	case k < 4:
		spec = l.site.shell(marked, fmt.Sprintf("%.2f", dice.Float64()/4))
	case k < 5:
		spec = l.site.shell(flaky, "0.01")
	default:
		payload, err := json.Marshal(errand{Millis: dice.IntN(30), Child: k < 7})
		if err != nil {
			panic(err)
		}
		spec = haulier.Spec{Type: "errand", Payload: payload}
	}
	spec.MaxAttempts = attempts
	spec.Backoff = &haulier.Backoff{Constant: haulier.Duration(50 * time.Millisecond)}
	spec.Priority = dice.IntN(3) - 1
	return spec
}

// send makes the request, again and again if it has a key.
func (l *load) send(ctx context.Context, r *request) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ids, err := l.once(ctx, r)
		if err == nil {
			r.ids = ids
			return
		}
		if !errors.Is(err, haulier.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) { // of once: the network may be silent
			l.site.t.Errorf("enqueue while the server was being killed: %v; want ErrUnavailable or nothing", err)
		}
		if r.Key == "" || ctx.Err() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (l *load) client() *client.Client {
	if l.clients == nil {
		return l.site.client
	}
	return l.clients[rand.IntN(len(l.clients))]
}

// once makes the request one time, and gives up on a server that does not answer.
func (l *load) once(ctx context.Context, r *request) ([]haulier.ID, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	results, err := l.client().Enqueue(ctx, []haulier.EnqueueRequest{r.EnqueueRequest})
	if err != nil {
		return nil, err
	}
	return results[0].IDs, results[0].Err
}

// repeatKeys makes some requests with a key once more: their answer must be the same ids.
func (l *load) repeatKeys(ctx context.Context, t testing.TB) {
	repeated := 0
	for _, r := range l.requests {
		if r.Key == "" || r.ids == nil || repeated == 50 {
			continue
		}
		repeated++
		results, err := l.site.client.Enqueue(ctx, []haulier.EnqueueRequest{r.EnqueueRequest})
		if err != nil || results[0].Err != nil {
			t.Errorf("request %s repeated: %v, %v", r.Key, err, results)
			continue
		}
		if !results[0].Repeated || fmt.Sprint(results[0].IDs) != fmt.Sprint(r.ids) {
			t.Errorf("request %s repeated: answered %v (repeated %v), at first %v", r.Key, results[0].IDs, results[0].Repeated, r.ids)
		}
	}
}
