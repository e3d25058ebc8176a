package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/blob"
	"github.com/haulier/haulier/engine"
	"github.com/haulier/haulier/store/etcd"
	"github.com/haulier/haulier/store/mem"
	"github.com/haulier/haulier/store/pebble"
	"github.com/haulier/haulier/store/postgres"
	"github.com/haulier/haulier/store/redis"
	"github.com/haulier/haulier/store/services"
	"github.com/haulier/haulier/store/storetest"
	"github.com/haulier/haulier/store/transfer"
)

func TestMain(m *testing.M) {
	code := m.Run()
	services.StopRedis()
	services.StopPostgres()
	services.StopEtcd()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Println("goroutines are left behind:", err)
		code = 1
	}
	os.Exit(code)
}

var number atomic.Int64

// fresh opens an empty store of each driver.
var fresh = map[string]func(t testing.TB) haulier.Store{
	"mem": func(testing.TB) haulier.Store { return mem.New() },
	"pebble": func(t testing.TB) haulier.Store {
		return opened(t)(pebble.Open(t.TempDir(), pebble.Options{Durability: pebble.Process}))
	},
	"redis": func(t testing.TB) haulier.Store {
		return opened(t)(redis.Open(t.Context(), services.Redis(t).URL(fmt.Sprint("prefix=t", number.Add(1))), redis.Options{}))
	},
	"postgres": func(t testing.TB) haulier.Store {
		return opened(t)(postgres.Open(t.Context(), services.Postgres(t).URL(), postgres.Options{Schema: fmt.Sprint("t", number.Add(1))}))
	},
	"etcd": func(t testing.TB) haulier.Store {
		return opened(t)(etcd.Open(t.Context(), services.Etcd(t).URL(fmt.Sprint("t", number.Add(1))), etcd.Options{}))
	},
}

func opened(t testing.TB) func(s haulier.Store, err error) haulier.Store {
	return func(s haulier.Store, err error) haulier.Store {
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
}

// running is an engine at work over a store, until stop.
type running struct {
	*engine.Engine
	stop func()
}

func start(t *testing.T, s haulier.Store, blobs *blob.Store) running {
	t.Helper()
	e, err := engine.New(engine.Config{Store: s, Blobs: blobs})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	return running{e, func() {
		e.Close()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	}}
}

func openBlobs(t *testing.T) *blob.Store {
	blobs, err := blob.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { blobs.Close() })
	return blobs
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// live makes a store whose server was stopped in the middle of its work: jobs that run, hold keys, wait for keys,
// for others and for their time, that have ended, and documents of most kinds.
func live(t *testing.T, s haulier.Store, blobs *blob.Store) {
	t.Helper()
	ctx := t.Context()
	e := start(t, s, blobs)
	defer e.stop()
	session, err := e.OpenSession(ctx, haulier.Session{Worker: "w", Kinds: []haulier.Kind{haulier.KindGo}, Types: []string{"work"}, Concurrency: 100, Lease: haulier.Duration(time.Minute)})
	must(t, err)
	must(t, e.SetLimit(ctx, "default", "lim", haulier.Limit{Running: 1}))
	_, err = e.SetSchedule(ctx, haulier.Schedule{Name: "nightly", Cron: "@daily", Job: &haulier.Template{Type: "work"}})
	must(t, err)
	_, err = e.SetSecret(ctx, "default", "key", strings.Repeat("s", 32))
	must(t, err)
	must(t, e.PauseQueue(ctx, "default", "idle", true, "test"))
	_, _, err = e.CreateToken(ctx, haulier.Token{Name: "ops", Role: haulier.RoleAdmin})
	must(t, err)
	_, err = e.CreateBatch(ctx, haulier.BatchRequest{Tenant: "default", Name: "b", Jobs: []haulier.Spec{{Type: "work"}, {Type: "work"}}, OnEnd: &haulier.Spec{Type: "work"}})
	must(t, err)
	alone := &haulier.Flow{Holds: []string{"key"}, YieldsTo: []haulier.Yield{{Key: "key"}}}
	var specs []haulier.Spec
	for i := range 4 {
		specs = append(specs, haulier.Spec{Type: "work", Flow: alone}, haulier.Spec{Type: "work", Flow: &haulier.Flow{Limits: []string{"lim"}}},
			haulier.Spec{Type: "work", Flow: &haulier.Flow{Unique: &haulier.Unique{Key: fmt.Sprint(i), Scope: haulier.UniqueActive}}})
	}
	specs = append(specs,
		haulier.Spec{Type: "work", Flow: &haulier.Flow{Ref: "first"}, Payload: []byte{0, 255, '"', '\n'}, Labels: map[string]string{"a": "<&>"}},
		haulier.Spec{Type: "work", Flow: &haulier.Flow{Needs: []haulier.Need{{Ref: "first"}}, Collapse: "c"}},
		haulier.Spec{Type: "work", RunAt: time.Now().Add(time.Hour), Timeout: haulier.Duration(time.Minute), Backoff: &haulier.Backoff{Constant: haulier.Duration(time.Second)}},
		haulier.Spec{Type: "work", Payload: bytes.Repeat([]byte("large "), haulier.MaxPayload/4)})
	for i := range 700 {
		specs = append(specs, haulier.Spec{Type: "rest", Queue: []string{"a", "b"}[i%2], Priority: i % 3})
	}
	res, err := e.Enqueue(ctx, []haulier.EnqueueRequest{{Jobs: specs, Key: "once", By: "test"}})
	must(t, err)
	must(t, res[0].Err)
	jobs, err := e.Claim(ctx, haulier.ClaimRequest{Session: session.ID, N: 100})
	must(t, err)
	if len(jobs) < 8 {
		t.Fatalf("only %d jobs could be claimed", len(jobs))
	}
	var reports []haulier.Report
	for i, j := range jobs {
		ref := haulier.Ref{Job: j.ID, Attempt: j.Attempt}
		reports = append(reports, haulier.Report{Ref: ref, Kind: haulier.ReportStart})
		if i%3 == 2 {
			reports = append(reports, haulier.Report{Ref: ref, Kind: haulier.ReportFinish, Outcome: []haulier.Outcome{haulier.OutcomeOK, haulier.OutcomeError}[i%2], Result: []byte(`{"n":1}`)})
		}
	}
	_, err = e.Report(ctx, session.ID, reports)
	must(t, err)
}

// healthy checks a store as an operator would.
func healthy(t *testing.T, s haulier.Store) {
	t.Helper()
	_, err := engine.Check(t.Context(), s, engine.CheckOptions{Found: func(f engine.Fault) { t.Errorf("check finds %+v", f) }})
	must(t, err)
}

// finish lets an engine over the store complete all jobs that are not meant to stay.
func finish(t *testing.T, s haulier.Store, blobs *blob.Store) {
	t.Helper()
	ctx := t.Context()
	e := start(t, s, blobs)
	defer e.stop()
	old, err := e.Sessions(ctx, "")
	must(t, err)
	if len(old) != 1 {
		t.Fatalf("%d sessions are there, of 1 before", len(old))
	}
	must(t, e.CloseSession(ctx, old[0].ID))
	session, err := e.OpenSession(ctx, haulier.Session{Worker: "w2", Kinds: []haulier.Kind{haulier.KindGo}, Types: []string{"work", "rest"}, Concurrency: 1000})
	must(t, err)
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		jobs, err := e.Claim(ctx, haulier.ClaimRequest{Session: session.ID, N: 1000, Wait: 200 * time.Millisecond})
		must(t, err)
		var reports []haulier.Report
		for _, j := range jobs {
			reports = append(reports, haulier.Report{Ref: haulier.Ref{Job: j.ID, Attempt: j.Attempt}, Kind: haulier.ReportFinish, Outcome: haulier.OutcomeOK})
		}
		_, err = e.Report(ctx, session.ID, reports)
		must(t, err)
		if left := unfinished(t, s); left == 1 { // the one that is for later
			return
		}
	}
	t.Errorf("%d jobs are not done", unfinished(t, s)-1)
}

func unfinished(t *testing.T, s haulier.Store) (n int64) {
	counts, err := s.Counts(t.Context())
	must(t, err)
	for _, c := range counts {
		if !c.State.Terminal() {
			n += c.N
		}
	}
	return n
}

func options(source string) transfer.Options {
	return transfer.Options{Kinds: engine.DocKinds, Source: source}
}

func TestAStoreGoesThroughAllDriversAndItsWorkIsDoneInTheLast(t *testing.T) {
	blobs := openBlobs(t)
	first := mem.New()
	live(t, first, blobs)
	var want transfer.Sum
	s := haulier.Store(first)
	for i, driver := range []string{"pebble", "redis", "postgres", "etcd", "pebble", "mem"} {
		to := fresh[driver](t)
		r, err := transfer.Copy(t.Context(), s, to, options(driver))
		if err != nil {
			t.Fatalf("to %s: %v", driver, err)
		}
		if i == 0 {
			want = r.Sum
		}
		if r.Checksum != want.Checksum || r.Jobs != want.Jobs || r.Jobs < 700 || r.Docs["lock"] == 0 || r.Docs["waiter"] == 0 || r.Docs["session"] != 1 {
			t.Errorf("to %s: %+v, and at first %+v", driver, r, want)
		}
		storetest.Check(t.Context(), t, to)
		healthy(t, to)
		s = to
	}
	finish(t, s, blobs)
	storetest.Check(t.Context(), t, s)
}

func TestEachDriverIsSourceAndTarget(t *testing.T) {
	blobs := openBlobs(t)
	for driver, open := range fresh {
		t.Run(driver, func(t *testing.T) {
			s, back := open(t), mem.New()
			live(t, s, blobs)
			healthy(t, s)
			_, err := transfer.Copy(t.Context(), s, back, options("x"))
			must(t, err)
			to := open(t)
			_, err = transfer.Copy(t.Context(), back, to, options("x"))
			must(t, err)
			finish(t, to, blobs)
			healthy(t, to)
		})
	}
}

// modest takes only a few records in one commit, as etcd does with its own settings.
type modest struct {
	haulier.Store
	refused *int
}

func (s modest) Commit(ctx context.Context, b *haulier.Batch) error {
	if len(b.Insert)+len(b.Docs) > 7 {
		*s.refused++
		return fmt.Errorf("commit: %w", haulier.ErrTooLarge)
	}
	return s.Store.Commit(ctx, b)
}

func TestATargetThatTakesLittleAtOnceGetsLittle(t *testing.T) {
	from, to, refused := mem.New(), mem.New(), 0
	live(t, from, openBlobs(t))
	if _, err := transfer.Copy(t.Context(), from, modest{to, &refused}, options("a")); err != nil || refused == 0 || refused > 12 {
		t.Errorf("%v; %d commits were refused", err, refused)
	}
	healthy(t, to)
	none := storetest.Faulty{Store: mem.New(), Err: haulier.ErrTooLarge, Decide: func(c storetest.Call) storetest.Fault {
		if c.Method == "Commit" {
			return storetest.FailBefore
		}
		return storetest.NoFault
	}}
	if _, err := transfer.Copy(t.Context(), from, &none, options("a")); !errors.Is(err, haulier.ErrTooLarge) {
		t.Errorf("a target that takes nothing: %v", err)
	}
}

// dying fails each commit after the first n, before or after it was made.
func dying(s haulier.Store, n int, fault storetest.Fault) haulier.Store {
	return &storetest.Faulty{Store: s, Decide: func(c storetest.Call) storetest.Fault {
		if c.Method != "Commit" {
			return storetest.NoFault
		}
		if n--; n >= 0 {
			return storetest.NoFault
		}
		return fault
	}}
}

func TestACopyThatWasCutGoesOn(t *testing.T) {
	blobs, from := openBlobs(t), mem.New()
	live(t, from, blobs)
	for _, fault := range []storetest.Fault{storetest.FailBefore, storetest.FailAfter} {
		to := mem.New()
		cuts := 0
		for {
			r, err := transfer.Copy(t.Context(), from, dying(to, 1, fault), options("a"))
			if err == nil {
				if !r.Resumed {
					t.Error("the last part does not say that it went on")
				}
				break
			}
			if !errors.Is(err, haulier.ErrUnavailable) {
				if fault == storetest.FailAfter && errors.Is(err, haulier.ErrConflict) && cuts > 5 {
					break // it was complete, and its answer lost
				}
				t.Fatal(err)
			}
			if cuts++; cuts > 500 {
				t.Fatal("it does not come to an end")
			}
			if cuts == 3 {
				if _, err := transfer.Copy(t.Context(), from, to, options("b")); !errors.Is(err, haulier.ErrConflict) {
					t.Errorf("another source was mixed in: %v", err)
				}
				if _, err := engine.New(engine.Config{Store: to, Blobs: blobs}); !errors.Is(err, haulier.ErrConflict) {
					t.Errorf("a server starts over half a copy: %v", err)
				}
				if _, err := transfer.Copy(t.Context(), to, mem.New(), options("a")); !errors.Is(err, haulier.ErrConflict) {
					t.Errorf("half a copy was copied: %v", err)
				}
			}
		}
		if cuts < 8 {
			t.Errorf("it was cut only %d times", cuts)
		}
		storetest.Check(t.Context(), t, to)
		finish(t, to, blobs)
	}
}

func TestATargetWithOtherDataIsRefused(t *testing.T) {
	from := mem.New()
	full := mem.New()
	must(t, full.Commit(t.Context(), &haulier.Batch{Docs: []haulier.DocWrite{{Kind: haulier.DocQueue, Key: "default/x", Value: []byte("{}")}}}))
	if _, err := transfer.Copy(t.Context(), from, full, options("a")); !errors.Is(err, haulier.ErrConflict) || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("copied over a document: %v", err)
	}
	live(t, from, openBlobs(t))
	to := mem.New()
	_, err := transfer.Copy(t.Context(), from, to, options("a"))
	must(t, err)
	if _, err := transfer.Copy(t.Context(), from, to, options("a")); !errors.Is(err, haulier.ErrConflict) {
		t.Errorf("copied twice: %v", err)
	}
}

// forgetful loses a job on the way.
type forgetful struct{ haulier.Store }

func (s forgetful) Commit(ctx context.Context, b *haulier.Batch) error {
	c := *b
	if len(c.Insert) > 1 {
		c.Insert = c.Insert[1:]
	}
	return s.Store.Commit(ctx, &c)
}

// changing alters a job on the way.
type changing struct{ haulier.Store }

func (s changing) Commit(ctx context.Context, b *haulier.Batch) error {
	if len(b.Insert) > 0 {
		b.Insert[0].Step = "altered"
	}
	return s.Store.Commit(ctx, b)
}

func TestWhatArrivesOtherwiseIsNoticed(t *testing.T) {
	from := mem.New()
	live(t, from, openBlobs(t))
	for name, to := range map[string]haulier.Store{"a job is lost": forgetful{mem.New()}, "a job is altered": changing{mem.New()}} {
		_, err := transfer.Copy(t.Context(), from, to, options("a"))
		if !errors.Is(err, haulier.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := to.Doc(t.Context(), haulier.DocCopy, haulier.CopyKey); err != nil {
			t.Errorf("%s: the copy does not say that it is not whole: %v", name, err)
		}
	}
}

func TestAnExportIsImported(t *testing.T) {
	blobs, from := openBlobs(t), mem.New()
	live(t, from, blobs)
	odd := []haulier.DocWrite{
		{Kind: haulier.DocWork, Key: "not json", Value: []byte{0, 1, 2}}, {Kind: haulier.DocWork, Key: "wide", Value: []byte(`{"a": 1}`)},
		{Kind: haulier.DocRequest, Key: "default/\xff\x00", Value: []byte("{\"a\":\"<\u2028>\"}")}, {Kind: haulier.DocRequest, Key: "empty", Value: []byte{}},
		{Kind: haulier.DocRequest, Key: "null", Value: []byte("null")},
	}
	must(t, from.Commit(t.Context(), &haulier.Batch{Docs: odd}))
	var file bytes.Buffer
	sum, err := transfer.Export(t.Context(), from, &file, options(""))
	must(t, err)
	text := file.String()
	if !strings.Contains(text, `{"job":{"spec":{"id":`) || strings.Contains(text, `{"job":{"wire"`) {
		t.Errorf("jobs can't be read by people: %.2000s", text)
	}
	to := fresh["pebble"](t)
	r, err := transfer.Import(t.Context(), strings.NewReader(text), to, options(""))
	must(t, err)
	if r.Checksum != sum.Checksum || r.Jobs != sum.Jobs {
		t.Errorf("imported %+v, exported %+v", r, sum)
	}
	if _, err := transfer.Import(t.Context(), strings.NewReader(text), to, options("")); !errors.Is(err, haulier.ErrConflict) {
		t.Errorf("imported twice: %v", err)
	}
	for _, d := range odd {
		got, err := to.Doc(t.Context(), d.Kind, d.Key)
		if err != nil || !bytes.Equal(got.Value, d.Value) {
			t.Errorf("document %q is %q, %v", d.Key, got.Value, err)
		}
	}
}

func TestADamagedFileIsNoticed(t *testing.T) {
	from := mem.New()
	live(t, from, openBlobs(t))
	var file bytes.Buffer
	_, err := transfer.Export(t.Context(), from, &file, options(""))
	must(t, err)
	lines := strings.SplitAfter(file.String(), "\n")
	end := len(lines) - 2 // the last is empty
	for name, text := range map[string]string{
		"nothing":        "",
		"no header":      strings.Join(lines[1:], ""),
		"no end":         strings.Join(lines[:end], ""),
		"half a line":    strings.Join(lines[:end-3], "") + lines[end-3][:20],
		"a line less":    strings.Join(append(lines[:end-4:end-4], lines[end-3:]...), ""),
		"another value":  lines[0] + strings.Replace(strings.Join(lines[1:], ""), `"priority":1`, `"priority":2`, 1),
		"a line of text": lines[0] + "hello\n" + strings.Join(lines[1:], ""),
		"an empty line":  lines[0] + "{}\n" + strings.Join(lines[1:], ""),
	} {
		to := mem.New()
		if _, err := transfer.Import(t.Context(), strings.NewReader(text), to, options("")); !errors.Is(err, haulier.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	newer := strings.Replace(file.String(), `"format":1`, `"format":9`, 1)
	if _, err := transfer.Import(t.Context(), strings.NewReader(newer), mem.New(), options("")); !errors.Is(err, haulier.ErrInvalid) {
		t.Errorf("a newer format: %v", err)
	}
	strange := strings.Replace(file.String(), `"kind":"session"`, `"kind":"novel"`, 1)
	if _, err := transfer.Import(t.Context(), strings.NewReader(strange), mem.New(), options("")); !errors.Is(err, haulier.ErrInvalid) {
		t.Errorf("an unknown kind: %v", err)
	}
}

func TestAnImportThatWasCutGoesOn(t *testing.T) {
	blobs, from := openBlobs(t), mem.New()
	live(t, from, blobs)
	var file bytes.Buffer
	_, err := transfer.Export(t.Context(), from, &file, options(""))
	must(t, err)
	to := mem.New()
	for cuts := 0; ; cuts++ {
		_, err := transfer.Import(t.Context(), bytes.NewReader(file.Bytes()), dying(to, 1, storetest.FailBefore), options(""))
		if err == nil {
			break
		}
		if !errors.Is(err, haulier.ErrUnavailable) || cuts > 500 {
			t.Fatal(err)
		}
	}
	finish(t, to, blobs)
}

// BenchmarkCopy copies 20,000 jobs of 100 bytes each from a folder, and checks the copy.
func BenchmarkCopy(b *testing.B) {
	from := fresh["pebble"](b)
	now := time.Now().UTC().Truncate(time.Microsecond)
	for range 20 {
		jobs := make([]haulier.Job, 1000)
		for i := range jobs {
			s := haulier.Spec{
				ID: haulier.NewID(now), Tenant: "default", Queue: "q", Type: []string{"a", "b"}[i%2], MaxAttempts: 10, CreatedAt: now, Payload: bytes.Repeat([]byte("x"), 100),
			}
			jobs[i] = haulier.Job{Spec: s, Status: s.First(now, "bench")}
		}
		must(b, from.Commit(b.Context(), &haulier.Batch{Insert: jobs}))
	}
	for driver, open := range fresh {
		b.Run(driver, func(b *testing.B) {
			var copying, checking time.Duration
			for b.Loop() {
				to, begin := open(b), time.Now()
				_, err := transfer.Copy(b.Context(), from, to, options("a"))
				must(b, err)
				copying += time.Since(begin)
				begin = time.Now()
				_, err = engine.Check(b.Context(), to, engine.CheckOptions{})
				must(b, err)
				checking += time.Since(begin)
			}
			b.ReportMetric(20_000*float64(b.N)/copying.Seconds(), "copied/s")
			b.ReportMetric(20_000*float64(b.N)/checking.Seconds(), "checked/s")
		})
	}
}
