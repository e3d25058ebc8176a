package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/engine"
	"github.com/haulier/haulier/store/postgres"
	"github.com/haulier/haulier/store/services"
	"github.com/haulier/haulier/store/storetest"
)

// ear is what a watcher of one server heard: of each job the newest.
type ear struct {
	t       *testing.T
	mu      sync.Mutex
	newest  map[haulier.ID]haulier.Status
	removed map[haulier.ID]bool
	changed chan struct{} // there is something new
}

func listenTo(t *testing.T, s *postgres.Store) *ear {
	e := &ear{t: t, newest: map[haulier.ID]haulier.Status{}, removed: map[haulier.ID]bool{}, changed: make(chan struct{}, 1)}
	s.Watch(t.Context(), e.hear)
	return e
}

func (e *ear) hear(changes []haulier.JobChange) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range changes {
		id := c.Spec.ID
		if last := e.newest[id]; e.removed[id] || c.Status.State != 0 && c.Status.Rev <= last.Rev {
			e.t.Errorf("after revision %d (removed: %v) of job %v came %d", last.Rev, e.removed[id], id, c.Status.Rev)
		}
		e.newest[id] = c.Status
		e.removed[id] = c.Status.State == 0
	}
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// await waits until ok, which looks at what was heard.
func (e *ear) await(what string, ok func() bool) {
	e.t.Helper()
	end := time.NewTimer(20 * time.Second)
	defer end.Stop()
	for {
		e.mu.Lock()
		done := ok()
		e.mu.Unlock()
		if done {
			return
		}
		select {
		case <-e.changed:
		case <-end.C:
			e.t.Fatalf("twenty seconds have passed, and not yet: %s", what)
		}
	}
}

// agrees waits until what was heard is what the store has.
func (e *ear) agrees(s *postgres.Store) {
	e.t.Helper()
	jobs := all(e.t, s)
	e.await("what was heard is what there is", func() bool {
		for _, j := range jobs {
			if e.newest[j.ID].Rev != j.Rev || e.newest[j.ID].State != j.State {
				return false
			}
		}
		there := len(jobs)
		for id := range e.newest {
			if !e.removed[id] {
				there--
			}
		}
		return there == 0
	})
}

func all(t *testing.T, s *postgres.Store) (jobs []*haulier.Job) {
	t.Helper()
	q := haulier.Query{Limit: 1000}
	for {
		page, err := s.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, page.Jobs...)
		if q.Cursor = page.Next; q.Cursor == "" {
			return jobs
		}
	}
}

var band = haulier.Band{Lane: haulier.Lane{Tenant: "default", Queue: "default", Type: "bench", Kind: haulier.KindGo}}

func openSession(t testing.TB, s *postgres.Store) haulier.ID {
	t.Helper()
	id := haulier.NewID(time.Now())
	err := s.Commit(t.Context(), &haulier.Batch{Docs: []haulier.DocWrite{{Kind: haulier.DocSession, Key: id.String(), Value: []byte("x"), Lease: time.Hour}}})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestServersHearOfEachOther(t *testing.T) {
	url := services.Postgres(t).URL()
	schema := newSchema(t, url)
	a, b := open(t, url, schema), open(t, url, schema)
	atA, atB := listenTo(t, a), listenTo(t, b)
	session := openSession(t, a)
	jobs := newJobs(3)
	if err := a.Commit(t.Context(), &haulier.Batch{Insert: jobs}); err != nil {
		t.Fatal(err)
	}
	atB.agrees(a)
	// What comes to the front of a band at one server is claimed first at the other that has heard of it.
	first := newJobs(1)
	first[0].Status.RunAt = time.Now().Add(-time.Hour)
	if _, err := b.Claim(t.Context(), session, "b", []haulier.Take{{Band: band, N: 1}}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Bands(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.Commit(t.Context(), &haulier.Batch{Insert: first}); err != nil {
		t.Fatal(err)
	}
	atB.agrees(a)
	got, err := b.Claim(t.Context(), session, "b", []haulier.Take{{Band: band, N: 1}})
	if err != nil || len(got) != 1 || got[0].ID != first[0].ID {
		t.Fatalf("claimed %v, %v: want the job that was added last and waits for longest", got, err)
	}
	removal := haulier.Batch{Delete: []haulier.JobDelete{{ID: got[0].ID, Expect: got[0].Rev}}}
	if err := b.Commit(t.Context(), &removal); err != nil {
		t.Fatal(err)
	}
	atA.agrees(a)
	atB.agrees(a)
}

// client works at the jobs of all: adds, claims, finishes, gives back, cancels and removes.
func client(t *testing.T, s *postgres.Store, session haulier.ID, r *rand.Rand, steps int) {
	ctx := t.Context()
	told := func(err error) {
		if err != nil && !errors.Is(err, haulier.ErrConflict) {
			t.Errorf("unexpected error: %v", err)
		}
	}
	for range steps {
		switch p := r.IntN(10); {
		case p < 3:
			told(s.Commit(ctx, &haulier.Batch{Insert: newJobs(1 + r.IntN(4)), Sync: r.IntN(2) == 0}))
		case p < 8:
			jobs, err := s.Claim(ctx, session, "w", []haulier.Take{{Band: band, N: 1 + r.IntN(4)}})
			told(err)
			var b haulier.Batch
			for _, j := range jobs {
				e := haulier.Event{Kind: haulier.EventFinish, Session: session, Attempt: j.Attempt, Outcome: haulier.OutcomeOK}
				if r.IntN(3) == 0 {
					e = haulier.Event{Kind: haulier.EventRelease, Session: session, Attempt: j.Attempt}
				}
				next, err := j.Next(e, time.Now())
				told(err)
				b.Update = append(b.Update, haulier.JobUpdate{Spec: &j.Spec, Expect: j.Rev, Status: next})
			}
			b.Docs = []haulier.DocWrite{{Kind: "other", Key: fmt.Sprint(r.IntN(3)), Expect: haulier.AnyRev, Value: []byte("x")}}
			told(s.Commit(ctx, &b))
		default:
			state := []haulier.State{haulier.Pending, haulier.Claimed, haulier.Succeeded}[r.IntN(3)]
			page, err := s.List(ctx, haulier.Query{State: state, Limit: 3})
			told(err)
			var b haulier.Batch
			for _, j := range page.Jobs {
				if state == haulier.Succeeded {
					b.Delete = append(b.Delete, haulier.JobDelete{ID: j.ID, Expect: j.Rev})
					continue
				}
				next, err := j.Next(haulier.Event{Kind: haulier.EventCancel}, time.Now())
				if err == nil {
					b.Update = append(b.Update, haulier.JobUpdate{Spec: &j.Spec, Expect: j.Rev, Status: next})
				}
			}
			r.Shuffle(len(b.Update), func(i, k int) { b.Update[i], b.Update[k] = b.Update[k], b.Update[i] })
			told(s.Commit(ctx, &b))
		}
	}
}

func TestManyServersAtOnce(t *testing.T) {
	url := services.Postgres(t).URL()
	schema := newSchema(t, url)
	var wg sync.WaitGroup
	var stores []*postgres.Store
	var ears []*ear
	for range 3 {
		s := open(t, url, schema)
		stores, ears = append(stores, s), append(ears, listenTo(t, s))
	}
	for _, s := range stores {
		for range 4 {
			session := openSession(t, s)
			seed := rand.Uint64()
			wg.Go(func() { client(t, s, session, rand.New(rand.NewPCG(seed, 0)), 60) })
		}
	}
	wg.Wait()
	for i, e := range ears {
		e.agrees(stores[i])
	}
	storetest.Check(t.Context(), t, stores[0])
}

// endListeners ends the connections that hear of changes in a schema.
func endListeners(t *testing.T, url, schema string) {
	t.Helper()
	execute(t, url, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'LISTEN "' || $1::text || '_changes"'`, schema)
}

func TestLostNotificationsAreMadeUpFor(t *testing.T) {
	url := services.Postgres(t).URL()
	schema := newSchema(t, url)
	a, b := open(t, url, schema), open(t, url, schema)
	atB := listenTo(t, b)
	for range 3 {
		endListeners(t, url, schema)
		for range 20 {
			if err := a.Commit(t.Context(), &haulier.Batch{Insert: newJobs(2)}); err != nil {
				t.Fatal(err)
			}
		}
		atB.agrees(a)
	}
	// Also those that were made while a transaction that began before them goes on.
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), `BEGIN; SELECT pg_current_xact_id()`); err != nil {
		t.Fatal(err)
	}
	if err := a.Commit(t.Context(), &haulier.Batch{Insert: newJobs(2)}); err != nil {
		t.Fatal(err)
	}
	atB.agrees(a)
}

// TestConnectionsThatBreak ends connections at random under load. What was acknowledged must be there, what conflicted must not, and
// the watcher must have heard of all that was made, also where the answer was lost.
func TestConnectionsThatBreak(t *testing.T) {
	url := services.Postgres(t).URL()
	schema := newSchema(t, url)
	s := open(t, url, schema)
	heard := listenTo(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	var wg, killer sync.WaitGroup
	lost := make([]int, 6)
	for i := range lost {
		wg.Go(func() { lost[i] = lonely(t, ctx, s) })
	}
	killer.Go(func() {
		for tick := time.NewTicker(30 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			execute(t, url, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'haulier' AND random() < 0.2
				AND (query LIKE '%' || $1 || '.%' OR query ILIKE 'commit' OR query ILIKE 'begin')`, schema)
		}
	})
	wg.Wait()
	killer.Wait()
	t.Logf("answers lost: %v", lost)
	if _, err := s.Due(t.Context(), 1); err != nil { // a call that is free to fail on a connection that was ended
		t.Log(err)
	}
	jobs := all(t, s)
	end := time.Now().Add(30 * time.Second)
	for tick := time.NewTicker(100 * time.Millisecond); ; <-tick.C {
		if _, err := s.Due(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		heard.mu.Lock()
		missing := slices.IndexFunc(jobs, func(j *haulier.Job) bool { return heard.newest[j.ID].Rev != j.Rev })
		heard.mu.Unlock()
		if missing < 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("job %v is at %d, heard of was %d", jobs[missing].ID, jobs[missing].Rev, heard.newest[jobs[missing].ID].Rev)
		}
	}
	storetest.Check(t.Context(), t, s)
}

// lonely changes a job of its own, which nobody else does: a conflict can only come from its own write, made without its knowledge.
func lonely(t *testing.T, ctx context.Context, s *postgres.Store) (lost int) { //nolint:revive // the test comes first, as everywhere here
	j := newJobs(1)[0]
	for known := false; ctx.Err() == nil; {
		var err error
		next := j.Status
		if !known {
			err = s.Commit(context.Background(), &haulier.Batch{Insert: []haulier.Job{j}, CheckIDs: true, Sync: true})
		} else {
			next.Rev++
			err = s.Commit(context.Background(), &haulier.Batch{Update: []haulier.JobUpdate{{Spec: &j.Spec, Expect: j.Rev, Status: next}}})
		}
		if err != nil && !errors.Is(err, haulier.ErrUnavailable) {
			t.Errorf("unexpected error: %v", err)
			return lost
		}
		if err == nil {
			known, j.Status = true, next
			continue
		}
		lost++
		for {
			found, err := s.Jobs(context.Background(), []haulier.ID{j.ID})
			if err == nil {
				if found[0] == nil && known || found[0] != nil && found[0].Rev != j.Rev && found[0].Rev != next.Rev {
					t.Errorf("job %v was at %d, or %d, and is %+v", j.ID, j.Rev, next.Rev, found[0])
				}
				if known = found[0] != nil; known {
					j = *found[0]
				}
				break
			}
		}
	}
	return lost
}

func TestCrashOfTheDatabase(t *testing.T) {
	t.Parallel()
	p := services.StartPostgres(t)
	s, err := postgres.Open(t.Context(), p.URL(), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	jobs := newJobs(100)
	if err := s.Commit(t.Context(), &haulier.Batch{Insert: jobs, Sync: true}); err != nil {
		t.Fatal(err)
	}
	again := func(end func()) *postgres.Store {
		end()
		if _, err := s.Bands(t.Context()); !errors.Is(err, haulier.ErrUnavailable) {
			t.Fatalf("without a database: %v, want ErrUnavailable", err)
		}
		if err := s.Commit(t.Context(), &haulier.Batch{Insert: newJobs(1)}); !errors.Is(err, haulier.ErrUnavailable) {
			t.Fatalf("without a database: %v, want ErrUnavailable", err)
		}
		if _, err := postgres.Open(t.Context(), p.URL(), postgres.Options{}); !errors.Is(err, haulier.ErrUnavailable) {
			t.Fatalf("without a database: %v, want ErrUnavailable", err)
		}
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		other, err := postgres.Open(t.Context(), p.URL(), postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { other.Close() })
		return other
	}
	if again(p.Stop).Opened().ClaimsLost {
		t.Error("claims are said to be lost, though the database was stopped in order")
	}
	other := again(p.Kill)
	if !other.Opened().ClaimsLost {
		t.Error("claims are not said to be lost, though the database has crashed")
	}
	// The store that was open may believe in claims that are gone: it fails, and with it the server.
	select {
	case <-s.Failed():
	case <-time.After(20 * time.Second):
		t.Fatal("the store goes on after a crash of the database")
	}
	if _, err := s.Claim(t.Context(), haulier.NewID(time.Now()), "w", nil); !errors.Is(err, haulier.ErrUnavailable) {
		t.Errorf("a claim after a crash: %v, want ErrUnavailable", err)
	}
	if got := all(t, other); len(got) != len(jobs) {
		t.Errorf("%d jobs are there, %d were acknowledged", len(got), len(jobs))
	}
}

// TestFailOver has a standby take the place of a primary that died: the store that was open fails, and who opens it anew by
// the same URL finds all that was acknowledged.
func TestFailOver(t *testing.T) {
	t.Parallel()
	primary := services.StartPostgres(t, "fsync=off", "full_page_writes=off")
	standby := services.StartStandby(t, primary, "fsync=off", "full_page_writes=off")
	execute(t, primary.URL(), `ALTER SYSTEM SET synchronous_standby_names = '*'`)
	execute(t, primary.URL(), `SELECT pg_reload_conf()`)
	url := primary.URL() + "," + standby.Dir + "&target_session_attrs=read-write"
	s, err := postgres.Open(t.Context(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := postgres.Open(t.Context(), standby.URL(), postgres.Options{}); !errors.Is(err, haulier.ErrUnavailable) || !strings.Contains(err.Error(), "target_session_attrs=read-write") {
		t.Errorf("at the standby: %v, want ErrUnavailable that says how to find the primary", err)
	}
	session := openSession(t, s)
	var wg sync.WaitGroup
	var acknowledged [4][]haulier.ID
	for i := range acknowledged {
		wg.Go(func() {
			for {
				j := newJobs(1)
				if err := s.Commit(context.Background(), &haulier.Batch{Insert: j, Sync: true}); errors.Is(err, haulier.ErrUnavailable) {
					return
				} else if err != nil {
					t.Error(err)
					return
				}
				acknowledged[i] = append(acknowledged[i], j[0].ID)
			}
		})
	}
	<-time.After(300 * time.Millisecond)
	primary.Kill()
	wg.Wait()
	execute(t, standby.URL(), `SELECT pg_promote()`)
	select {
	case <-s.Failed():
	case <-time.After(20 * time.Second):
		t.Fatal("the store goes on over the standby, which may lack claims")
	}
	again, err := postgres.Open(t.Context(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if !again.Opened().ClaimsLost {
		t.Error("claims are not said to be lost")
	}
	ids := slices.Concat(acknowledged[:]...)
	jobs, err := again.Jobs(t.Context(), ids)
	if err != nil || len(ids) == 0 || slices.Contains(jobs, nil) {
		t.Errorf("of %d jobs that were acknowledged, some are gone: %v", len(ids), err)
	}
	if got, err := again.Claim(t.Context(), session, "w", []haulier.Take{{Band: band, N: 1}}); err != nil || len(got) != 1 {
		t.Errorf("claimed %d jobs: %v", len(got), err)
	}
	storetest.Check(t.Context(), t, again)
}

func TestTablesOfANewerProgram(t *testing.T) {
	url := services.Postgres(t).URL()
	schema := newSchema(t, url)
	if _, err := postgres.Open(t.Context(), url, postgres.Options{Schema: schema, NoMigrate: true}); !errors.Is(err, haulier.ErrInvalid) {
		t.Errorf("without tables: %v, want ErrInvalid", err)
	}
	from, to, err := postgres.Migrate(t.Context(), url, schema)
	if err != nil || from != 0 || to == 0 {
		t.Fatalf("migrated from %d to %d: %v", from, to, err)
	}
	open(t, url, schema)
	execute(t, url, "INSERT INTO "+schema+".migrations (version) VALUES (1000)")
	for _, o := range []postgres.Options{{Schema: schema}, {Schema: schema, NoMigrate: true}} {
		if _, err := postgres.Open(t.Context(), url, o); !errors.Is(err, haulier.ErrInvalid) {
			t.Errorf("with tables of a newer program: %v, want ErrInvalid", err)
		}
	}
	if _, _, err := postgres.Migrate(t.Context(), url, schema); !errors.Is(err, haulier.ErrInvalid) {
		t.Errorf("migration of tables of a newer program: %v, want ErrInvalid", err)
	}
	for _, bad := range []string{"A", "a-b", "1a", `a"b`} {
		if _, err := postgres.Open(t.Context(), url, postgres.Options{Schema: bad}); !errors.Is(err, haulier.ErrInvalid) {
			t.Errorf("schema %q: %v, want ErrInvalid", bad, err)
		}
	}
}

func TestServersThatStartTogether(t *testing.T) {
	url := services.Postgres(t).URL()
	schema := newSchema(t, url)
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() { open(t, url, schema) })
	}
	wg.Wait()
}

// TestClaimsStayFast claims many jobs while an old snapshot keeps PostgreSQL from removing what is left of them in the index.
func TestClaimsStayFast(t *testing.T) {
	url := services.Postgres(t).URL()
	schema := newSchema(t, url)
	s := open(t, url, schema)
	session := openSession(t, s)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), `BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class`); err != nil {
		t.Fatal(err)
	}
	const jobs = 60_000
	for range jobs / 5000 {
		if err := s.Commit(t.Context(), &haulier.Batch{Insert: newJobs(5000)}); err != nil {
			t.Fatal(err)
		}
	}
	claim := func(n int) time.Duration {
		begun := time.Now()
		if _, err := s.Bands(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, err := s.Claim(t.Context(), session, "w", []haulier.Take{{Band: band, N: n}})
		if err != nil || len(got) != n {
			t.Fatalf("claimed %d of %d: %v", len(got), n, err)
		}
		return time.Since(begun)
	}
	for range jobs/1000 - 1 {
		claim(1000)
	}
	var took []time.Duration
	for range 50 {
		took = append(took, claim(1))
	}
	slices.Sort(took)
	begun := time.Now()
	execute(t, url, "SET enable_seqscan = off; SELECT id FROM "+schema+".status WHERE spot = 3 AND lane = 1 AND rank = 0 ORDER BY at, id LIMIT 1")
	whole := time.Since(begun)
	t.Logf("a claim takes %v, a look from the band's begin %v", took[25], whole)
	if took[25] > whole/2 {
		t.Errorf("a claim takes %v, about as long as a look from the band's begin, %v", took[25], whole)
	}
}

// TestRoleOfAServer has the rights that docs/postgres.md lists, and no others.
func TestRoleOfAServer(t *testing.T) {
	p := services.StartPostgres(t, "fsync=off")
	if _, _, err := postgres.Migrate(t.Context(), p.URL(), ""); err != nil {
		t.Fatal(err)
	}
	execute(t, p.URL(), `CREATE ROLE server LOGIN; GRANT USAGE ON SCHEMA haulier TO server;
		GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA haulier TO server; GRANT USAGE ON ALL SEQUENCES IN SCHEMA haulier TO server`)
	s, err := postgres.Open(t.Context(), "postgres://server@/postgres?host="+p.Dir, postgres.Options{NoMigrate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	session := openSession(t, s)
	if err := s.Commit(t.Context(), &haulier.Batch{Insert: newJobs(3), CheckIDs: true, Sync: true}); err != nil {
		t.Fatal(err)
	}
	jobs, err := s.Claim(t.Context(), session, "w", []haulier.Take{{Band: band, N: 3}})
	if err != nil || len(jobs) != 3 {
		t.Fatalf("claimed %d jobs: %v", len(jobs), err)
	}
	if err := s.Renew(t.Context(), session, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), &haulier.Batch{Delete: []haulier.JobDelete{{ID: jobs[0].ID, Expect: jobs[0].Rev}}}); err != nil {
		t.Fatal(err)
	}
	storetest.Check(t.Context(), t, s)
}

func TestJobsInTransactionsOfTheProgram(t *testing.T) {
	url := services.Postgres(t).URL()
	schema := newSchema(t, url)
	s := open(t, url, schema)
	heard := listenTo(t, s)
	session := openSession(t, s)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	add := func(tx pgx.Tx, typ string) haulier.ID {
		jobs, err := engine.PlainJobs([]haulier.Spec{{Type: typ, Payload: []byte("{}")}, {Type: typ, RunAt: time.Now().Add(time.Hour)}}, "shop", time.Now())
		if err == nil {
			err = postgres.InsertTx(t.Context(), tx, schema, jobs)
		}
		if err != nil {
			t.Fatal(err)
		}
		return jobs[0].ID
	}
	begin := func() pgx.Tx {
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return tx
	}
	tx := begin()
	add(tx, "mail")
	tx.Rollback(t.Context())
	tx = begin()
	id := add(tx, "mail")
	add(tx, "print")
	mail := haulier.Band{Lane: haulier.Lane{Tenant: haulier.DefaultTenant, Queue: haulier.DefaultQueue, Type: "mail", Kind: haulier.KindGo}}
	if got, err := s.Claim(t.Context(), session, "w", []haulier.Take{{Band: mail, N: 10}}); err != nil || len(got) > 0 {
		t.Fatalf("before the commit %d jobs can be claimed: %v", len(got), err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	heard.agrees(s)
	if got, err := s.Claim(t.Context(), session, "w", []haulier.Take{{Band: mail, N: 10}}); err != nil || len(got) != 1 || got[0].ID != id {
		t.Fatalf("after the commit %d jobs can be claimed: %v", len(got), err)
	}
	storetest.Check(t.Context(), t, s)
	for range 20 { // counts are brought together as servers hear of them
		tx = begin()
		add(tx, "mail")
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	heard.agrees(s)
	storetest.Check(t.Context(), t, s)
	if _, err := engine.PlainJobs([]haulier.Spec{{Type: "a b"}}, "", time.Now()); !errors.Is(err, haulier.ErrInvalid) {
		t.Errorf("a wrong name: %v, want ErrInvalid", err)
	}
}

// TestManyCounts has more rows of counts than a store that starts leaves as they are.
func TestManyCounts(t *testing.T) {
	url := services.Postgres(t).URL()
	schema := newSchema(t, url)
	s := open(t, url, schema)
	if err := s.Commit(t.Context(), &haulier.Batch{Insert: newJobs(7)}); err != nil {
		t.Fatal(err)
	}
	execute(t, url, "INSERT INTO "+schema+".counts SELECT 6, 1, r, 2000 + k, 1 FROM generate_series(-10, 10) r, generate_series(1, 50) k")
	execute(t, url, "INSERT INTO "+schema+".counts SELECT 6, 1, rank, slot + 100, -n FROM "+schema+".counts WHERE slot > 2000")
	open(t, url, schema)
	storetest.Check(t.Context(), t, s)
	var rows int
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM "+schema+".counts").Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d rows of counts are left, want one: %v", rows, err)
	}
}
