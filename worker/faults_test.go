package worker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/fileset"
	"github.com/haulier/haulier/worker"
)

// outage stands between a worker and its server. While it is down all calls fail; answers lost
// are those of calls that the server carried out.
type outage struct {
	haulier.Consumer
	mu     sync.Mutex
	down   chan struct{} // closed while down
	loseIt atomic.Int32  // answers to reports yet to be lost
	// loseClaims is how many replies to claims with jobs are yet to be lost.
	loseClaims atomic.Int32
}

func newOutage(c haulier.Consumer) *outage {
	return &outage{Consumer: c, down: make(chan struct{})}
}

func (o *outage) set(down bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if down {
		close(o.down)
	} else {
		o.down = make(chan struct{})
	}
}

var errDown = fmt.Errorf("connection refused: %w", haulier.ErrUnavailable)

// through makes a call that breaks when the server goes down.
func through[T any](ctx context.Context, o *outage, call func(context.Context) (T, error)) (T, error) {
	o.mu.Lock()
	down := o.down
	o.mu.Unlock()
	var none T
	select {
	case <-down:
		return none, errDown
	default:
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		v   T
		err error
	}
	done := make(chan answer, 1)
	go func() {
		v, err := call(ctx)
		done <- answer{v, err}
	}()
	select {
	case a := <-done:
		return a.v, a.err
	case <-down:
		cancel()
		<-done
		return none, errDown
	}
}

func (o *outage) OpenSession(ctx context.Context, s haulier.Session) (haulier.Session, error) {
	return through(ctx, o, func(ctx context.Context) (haulier.Session, error) { return o.Consumer.OpenSession(ctx, s) })
}

func (o *outage) Renew(ctx context.Context, r haulier.RenewRequest) (haulier.RenewReply, error) {
	return through(ctx, o, func(ctx context.Context) (haulier.RenewReply, error) { return o.Consumer.Renew(ctx, r) })
}

func (o *outage) Claim(ctx context.Context, r haulier.ClaimRequest) ([]haulier.Job, error) {
	jobs, err := through(ctx, o, func(ctx context.Context) ([]haulier.Job, error) { return o.Consumer.Claim(ctx, r) })
	if len(jobs) > 0 && o.loseClaims.Add(-1) >= 0 {
		return nil, errDown
	}
	return jobs, err
}

func (o *outage) Report(ctx context.Context, id haulier.ID, reports []haulier.Report) ([]error, error) {
	errs, err := through(ctx, o, func(ctx context.Context) ([]error, error) { return o.Consumer.Report(ctx, id, reports) })
	if err == nil && o.loseIt.Add(-1) >= 0 {
		return nil, errDown
	}
	return errs, err
}

func TestServerIsAwayWhileJobsRun(t *testing.T) {
	q := queue(t)
	o := newOutage(q)
	dir := t.TempDir()
	start(t, worker.Config{Consumer: o, Executors: commands(), Concurrency: 2, Lease: 15 * time.Second})
	script := `echo run >>` + dir + `/runs; echo before; while [ ! -e ` + dir + `/go ]; do sleep 0.02; done; echo after; echo done >` + dir + `/ended; echo result`
	id := enqueue(t, q, sh(script))[0]
	output(t, q, id, "before")
	o.set(true)
	write(t, dir+"/go")
	awaitFile(t, dir+"/ended")
	o.set(false)
	if j := end(t, q, id)[0]; j.State != haulier.Succeeded || j.Attempt != 1 || string(j.Result) != "result" {
		t.Fatalf("got %+v", j.Status)
	}
	if got := output(t, q, id, ""); got != "before\nafter\nresult\n" {
		t.Fatalf("output %q", got)
	}
	if runs, _ := os.ReadFile(dir + "/runs"); string(runs) != "run\n" {
		t.Fatalf("it ran as often as %q", runs)
	}
}

func TestLostAnswersAreNoHarm(t *testing.T) {
	q := queue(t)
	o := newOutage(q)
	o.loseIt.Store(6)
	start(t, worker.Config{Consumer: o, Executors: commands(), Concurrency: 4})
	specs := make([]haulier.Spec, 20)
	for i := range specs {
		specs[i] = sh(fmt.Sprintf("echo %d", i))
	}
	for i, j := range end(t, q, enqueue(t, q, specs...)...) {
		if j.State != haulier.Succeeded || j.Attempt != 1 || string(j.Result) != fmt.Sprint(i) {
			t.Fatalf("got %+v", j.Status)
		}
		if got := output(t, q, j.ID, ""); got != fmt.Sprintf("%d\n", i) {
			t.Fatalf("output %q", got)
		}
	}
}

func TestLeaseRunsOutWhileTheServerIsAway(t *testing.T) {
	q := queue(t)
	o := newOutage(q)
	dir := t.TempDir()
	start(t, worker.Config{Consumer: o, Executors: commands(), Lease: time.Second})
	script := `if [ $HAULIER_ATTEMPT = 1 ]; then echo $$ >` + dir + `/pid; echo here; exec sleep 60; fi`
	id := enqueue(t, q, sh(script))[0]
	output(t, q, id, "here")
	o.set(true)
	awaitDead(t, readPID(t, dir+"/pid"))
	o.set(false)
	if j := end(t, q, id)[0]; j.State != haulier.Succeeded || j.Attempt != 2 {
		t.Fatalf("got %+v", j.Status)
	}
}

func TestJobThatIsNoLongerTheWorkersIsEnded(t *testing.T) {
	q := queue(t)
	dir := t.TempDir()
	start(t, worker.Config{Consumer: q, Executors: commands(), Lease: time.Second, Name: "first"})
	id := enqueue(t, q, sh(`echo $$ >`+dir+`/pid.$HAULIER_ATTEMPT; echo here; [ $HAULIER_ATTEMPT = 2 ] || exec sleep 60`))[0]
	output(t, q, id, "here")
	sessions, err := q.Sessions(t.Context(), "")
	if err != nil || len(sessions) != 1 {
		t.Fatalf("sessions %v, %v", sessions, err)
	}
	if err := q.CloseSession(t.Context(), sessions[0].ID); err != nil {
		t.Fatal(err)
	}
	awaitDead(t, readPID(t, dir+"/pid.1"))
	if j := end(t, q, id)[0]; j.State != haulier.Succeeded || j.Attempt != 2 {
		t.Fatalf("got %+v", j.Status)
	}
}

func TestDrainWaitsForWhatRuns(t *testing.T) {
	q := queue(t)
	dir := t.TempDir()
	w := start(t, worker.Config{Consumer: q, Executors: commands(), Concurrency: 1})
	running := enqueue(t, q, sh(`echo here; while [ ! -e `+dir+`/go ]; do sleep 0.02; done`))[0]
	output(t, q, running, "here")
	waiting := enqueue(t, q, sh("true"))[0]
	w.stop()
	until(t, q, running, "of a draining worker", func(*haulier.Job) bool {
		s, err := q.Sessions(t.Context(), "")
		return err == nil && len(s) == 1 && s[0].Draining
	})
	write(t, dir+"/go")
	w.wait(t)
	jobs, err := q.Get(t.Context(), haulier.DefaultTenant, []haulier.ID{running, waiting})
	if err != nil || jobs[0].State != haulier.Succeeded || jobs[1].State != haulier.Pending {
		t.Fatalf("got %+v and %+v, %v", jobs[0].Status, jobs[1].Status, err)
	}
}

func TestAbortGivesJobsBack(t *testing.T) {
	q := queue(t)
	dir := t.TempDir()
	block := make(chan struct{})
	t.Cleanup(func() { close(block) })
	w := start(t, worker.Config{Consumer: q, Executors: commands(), Concurrency: 4, Types: []string{"sh"}, Grace: 300 * time.Millisecond}, func(r haulier.Registry) {
		haulier.Handle(r, "stuck", func(context.Context, *haulier.Job, struct{}) error { <-block; return nil })
	})
	ids := enqueue(t, q, sh(`echo $$ >`+dir+`/pid; echo here; exec sleep 60`), sh(`trap '' TERM; echo here; while :; do sleep 1; done`), haulier.Spec{Type: "stuck"})
	output(t, q, ids[0], "here")
	output(t, q, ids[1], "here")
	until(t, q, ids[2], "running", inState(haulier.Running))
	begin := time.Now()
	w.stop()
	w.Abort()
	w.wait(t)
	if took := time.Since(begin); took > 5*time.Second {
		t.Fatalf("it took %v", took)
	}
	awaitDead(t, readPID(t, dir+"/pid"))
	for _, id := range ids {
		if j := until(t, q, id, "pending", inState(haulier.Pending)); j.Tries() != 0 {
			t.Fatalf("counted as a try: %+v", j.Status)
		}
	}
}

func TestCancelOfWhatHasNotStarted(t *testing.T) {
	q := queue(t)
	hold := make(chan struct{})
	var ran atomic.Int32
	start(t, worker.Config{Consumer: q, Concurrency: 1}, func(r haulier.Registry) {
		haulier.Handle(r, "quick", func(context.Context, *haulier.Job, struct{}) error { return nil })
		haulier.Handle(r, "hold", func(context.Context, *haulier.Job, struct{}) error { <-hold; return nil })
		haulier.Handle(r, "late", func(context.Context, *haulier.Job, struct{}) error { ran.Add(1); return nil })
	})
	quick := make([]haulier.Spec, 2000) // so that the worker claims ahead
	for i := range quick {
		quick[i].Type = "quick"
	}
	enqueue(t, q, quick...)
	ids := enqueue(t, q, haulier.Spec{Type: "hold"}, haulier.Spec{Type: "late"})
	until(t, q, ids[0], "running", inState(haulier.Running))
	cancelJob(t, q, ids[1])
	if j := end(t, q, ids[1])[0]; j.State != haulier.Cancelled || ran.Load() != 0 {
		t.Fatalf("got %+v after %d runs", j.Status, ran.Load())
	}
	close(hold)
	end(t, q, ids[0])
}

func TestSecondWorkerOfAStateFolder(t *testing.T) {
	q := queue(t)
	dir := t.TempDir()
	w := start(t, worker.Config{Consumer: q, Executors: commands(), Dir: dir})
	id := enqueue(t, q, sh("true"))[0]
	end(t, q, id)
	second, err := worker.New(worker.Config{Consumer: q, Executors: commands(), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Run(t.Context()); !errors.Is(err, haulier.ErrConflict) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Fatalf("got %v", err)
	}
	w.stop()
	w.wait(t)
}

func TestWorkerThatTheServerRefuses(t *testing.T) {
	w, err := worker.New(worker.Config{Consumer: refusing{}, Executors: commands()})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(t.Context()); !errors.Is(err, haulier.ErrForbidden) {
		t.Fatalf("got %v", err)
	}
}

type refusing struct{ haulier.Consumer }

func (refusing) OpenSession(context.Context, haulier.Session) (haulier.Session, error) {
	return haulier.Session{}, fmt.Errorf("%w: the token is a viewer's", haulier.ErrForbidden)
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func awaitFile(t *testing.T, path string) {
	t.Helper()
	eventually(t, path+" does not appear", func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
}

// eventually looks at what other processes do; they tell nobody.
func eventually(t *testing.T, otherwise string, f func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for stop := time.Now().Add(20 * time.Second); !f(); <-tick.C {
		if time.Now().After(stop) {
			t.Fatal(otherwise)
		}
	}
}

func readPID(t *testing.T, path string) int {
	t.Helper()
	awaitFile(t, path)
	var pid int
	eventually(t, "no pid in "+path, func() bool {
		b, err := os.ReadFile(path)
		n, _ := fmt.Sscan(string(b), &pid)
		return err == nil && n == 1
	})
	return pid
}

func awaitDead(t *testing.T, pid int) {
	t.Helper()
	eventually(t, fmt.Sprintf("process %d still runs", pid), func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return syscall.Kill(pid, 0) != nil
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		return strings.HasPrefix(rest, "Z")
	})
}

func TestRepliesToClaimsAreLost(t *testing.T) {
	q := queue(t)
	o := newOutage(q)
	o.loseClaims.Store(5)
	start(t, worker.Config{Consumer: o, Executors: commands(), Concurrency: 2})
	specs := make([]haulier.Spec, 20)
	for i := range specs {
		specs[i] = sh("true")
	}
	for _, j := range end(t, q, enqueue(t, q, specs...)...) {
		if j.State != haulier.Succeeded || j.Tries() != 1 {
			t.Fatalf("got %+v", j.Status)
		}
	}
}

// cutBlobs can't be reached at first: each of its calls fails some times.
type cutBlobs struct {
	fileset.Blobs
	mu         sync.Mutex
	left       int
	reads, put int
}

func (c *cutBlobs) fails(n *int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *n++; *n <= c.left {
		return fmt.Errorf("cut off: %w", haulier.ErrUnavailable)
	}
	return nil
}

func (c *cutBlobs) ReadBlob(ctx context.Context, tenant, addr string, from, n int64) (io.ReadCloser, int64, error) {
	if err := c.fails(&c.reads); err != nil {
		return nil, 0, err
	}
	return c.Blobs.ReadBlob(ctx, tenant, addr, from, n)
}

func (c *cutBlobs) PutBlob(ctx context.Context, tenant, addr string, content io.Reader) error {
	if err := c.fails(&c.put); err != nil {
		return err
	}
	return c.Blobs.PutBlob(ctx, tenant, addr, content)
}
