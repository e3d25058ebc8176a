package etcd_test

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/store/etcd"
	"github.com/haulier/haulier/store/services"
	"github.com/haulier/haulier/store/storetest"
)

// heard is what a watcher was told.
type heard struct {
	mu      sync.Mutex
	changes []haulier.JobChange
}

func (h *heard) tell(changes []haulier.JobChange) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes = append(h.changes, changes...)
}

func (h *heard) all() []haulier.JobChange {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.changes)
}

// until waits for what another goroutine brings about.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("30 seconds have passed, and not yet: %s", what)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newSession(t testing.TB, s *etcd.Store) haulier.ID {
	t.Helper()
	id := haulier.NewID(time.Now())
	must(t, s.Commit(t.Context(), &haulier.Batch{Docs: []haulier.DocWrite{{Kind: haulier.DocSession, Key: id.String(), Value: []byte("x"), Lease: time.Hour}}}))
	return id
}

func insert(t testing.TB, s *etcd.Store, n int) []haulier.Job {
	t.Helper()
	jobs := newJobs(n)
	must(t, s.Commit(t.Context(), &haulier.Batch{Insert: jobs}))
	return jobs
}

var bench = haulier.Band{Lane: haulier.Lane{Tenant: "default", Queue: "default", Type: "bench", Kind: haulier.KindGo}}

func claim(t testing.TB, s *etcd.Store, session haulier.ID, n int) []haulier.Job {
	t.Helper()
	jobs, err := s.Claim(t.Context(), session, "w", []haulier.Take{{Band: bench, N: n}})
	must(t, err)
	return jobs
}

func pending(t testing.TB, s *etcd.Store) int64 {
	t.Helper()
	heads, err := s.Bands(t.Context())
	must(t, err)
	var n int64
	for _, h := range heads {
		n += h.N
	}
	return n
}

func TestServers(t *testing.T) {
	t.Run("one sees at once what was acknowledged by another", func(t *testing.T) {
		url := services.Etcd(t).URL(freshPrefix())
		a, b := open(t, url), open(t, url)
		session := newSession(t, a)
		for i := range 50 {
			jobs := insert(t, a, 2)
			if n := pending(t, b); n != 2 {
				t.Fatalf("round %d: the other sees %d jobs wait, want 2", i, n)
			}
			got := claim(t, b, session, 5)
			if len(got) != 2 || got[0].ID != jobs[0].ID {
				t.Fatalf("round %d: the other claims %d jobs, want both", i, len(got))
			}
			known, err := a.Jobs(t.Context(), []haulier.ID{jobs[0].ID, jobs[1].ID})
			must(t, err)
			if known[1].State != haulier.Claimed {
				t.Fatalf("round %d: the first still sees it %v", i, known[1].State)
			}
			must(t, a.Commit(t.Context(), &haulier.Batch{Delete: []haulier.JobDelete{{ID: got[0].ID, Expect: got[0].Rev}, {ID: got[1].ID, Expect: got[1].Rev}}}))
		}
		storetest.Check(t.Context(), t, b)
	})
	t.Run("each hears of all changes in the order of the revisions", func(t *testing.T) {
		url := services.Etcd(t).URL(freshPrefix())
		stores := []*etcd.Store{open(t, url), open(t, url), open(t, url)}
		var ears [3]heard
		for i, s := range stores {
			s.Watch(t.Context(), ears[i].tell)
		}
		j := insert(t, stores[0], 1)[0]
		var wg sync.WaitGroup
		for _, s := range stores {
			wg.Go(func() {
				for done := 0; done < 20; {
					cur, err := s.Jobs(t.Context(), []haulier.ID{j.ID})
					if err != nil {
						t.Error(err)
						return
					}
					next := cur[0].Status
					next.Rev++
					err = s.Commit(t.Context(), &haulier.Batch{Update: []haulier.JobUpdate{{Spec: &cur[0].Spec, Expect: cur[0].Rev, Status: next}}})
					if err == nil {
						done++
					} else if !errors.Is(err, haulier.ErrConflict) {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		for i := range ears {
			until(t, "all was heard", func() bool { return len(ears[i].all()) == 61 })
			for k, c := range ears[i].all() {
				if c.Status.Rev != uint64(k+1) || c.Spec.Type != "bench" {
					t.Fatalf("server %d hears as number %d of revision %d", i, k, c.Status.Rev)
				}
			}
		}
	})
	t.Run("claims of many never give a job twice, and all are given", func(t *testing.T) {
		url := services.Etcd(t).URL(freshPrefix())
		const jobs, servers = 2000, 4
		var stores []*etcd.Store
		for range servers {
			stores = append(stores, open(t, url))
		}
		for range jobs / 500 {
			insert(t, stores[0], 500)
		}
		var mu sync.Mutex
		owner := map[haulier.ID]int{}
		var wg sync.WaitGroup
		for i, s := range stores {
			session := newSession(t, s)
			wg.Go(func() {
				for {
					got, err := s.Claim(t.Context(), session, "w", []haulier.Take{{Band: bench, N: 7}})
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					for _, j := range got {
						if other, twice := owner[j.ID]; twice {
							t.Errorf("job %v was given to server %d and %d", j.ID, other, i)
						}
						owner[j.ID] = i
					}
					all := len(owner) == jobs
					mu.Unlock()
					if all || len(got) == 0 && pending(t, s) == 0 {
						return
					}
				}
			})
		}
		wg.Wait()
		shares := map[int]int{}
		for _, i := range owner {
			shares[i]++
		}
		if len(owner) != jobs || len(shares) != servers {
			t.Errorf("%d of %d jobs were claimed; shares are %v", len(owner), jobs, shares)
		}
		storetest.Check(t.Context(), t, stores[0])
	})
	t.Run("a lease that another renews goes on", func(t *testing.T) {
		url := services.Etcd(t).URL(freshPrefix())
		a, b := open(t, url), open(t, url)
		id := haulier.NewID(time.Now())
		must(t, a.Commit(t.Context(), &haulier.Batch{Docs: []haulier.DocWrite{{Kind: haulier.DocSession, Key: id.String(), Value: []byte("x"), Lease: 100 * time.Millisecond}}}))
		must(t, b.Renew(t.Context(), id, time.Hour))
		<-time.After(150 * time.Millisecond)
		for _, s := range []*etcd.Store{a, b} {
			due, err := s.Due(t.Context(), 10)
			must(t, err)
			if len(due.Sessions) > 0 {
				t.Error("the session has expired though it was renewed")
			}
		}
	})
}

// link is a way to an etcd that can be cut.
type link struct {
	t    *testing.T
	l    net.Listener
	to   string
	mute atomic.Bool // answers are held back
	mu   sync.Mutex
	down bool
	open map[net.Conn]struct{}
	wg   sync.WaitGroup
}

func newLink(t *testing.T, to string) *link {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	k := &link{t: t, l: l, to: to, open: map[net.Conn]struct{}{}}
	k.wg.Go(k.accept)
	t.Cleanup(func() {
		l.Close()
		k.cut()
		k.wg.Wait()
	})
	return k
}

func (k *link) url(prefix string) string { return "etcd://" + k.l.Addr().String() + "/" + prefix }

func (k *link) accept() {
	for {
		in, err := k.l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", k.to)
		k.mu.Lock()
		if err != nil || k.down {
			k.mu.Unlock()
			in.Close()
			if err == nil {
				out.Close()
			}
			continue
		}
		k.open[in], k.open[out] = struct{}{}, struct{}{}
		k.mu.Unlock()
		for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
			k.wg.Go(func() {
				_, _ = io.Copy(mouth{k, way[1], way[0] == out}, way[0])
				way[0].Close()
				way[1].Close()
			})
		}
	}
}

// mouth is where a direction of the link ends.
type mouth struct {
	k       *link
	to      io.Writer
	answers bool
}

func (m mouth) Write(b []byte) (int, error) {
	if m.answers && m.k.mute.Load() {
		return len(b), nil // lost
	}
	return m.to.Write(b)
}

// cut breaks all connections, and takes no new ones until mend.
func (k *link) cut() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.down = true
	for c := range k.open {
		c.Close()
	}
	clear(k.open)
}

func (k *link) mend() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.down = false
	k.mute.Store(false)
}

func TestCuts(t *testing.T) {
	t.Run("what others did meanwhile is heard after a cut, in order and once", func(t *testing.T) {
		e, prefix := services.Etcd(t), freshPrefix()
		k := newLink(t, e.Addr)
		a, b := open(t, e.URL(prefix)), open(t, k.url(prefix))
		var h heard
		b.Watch(t.Context(), h.tell)
		for range 5 {
			insert(t, a, 10)
			k.cut()
			insert(t, a, 10)
			k.mend()
			until(t, "it reaches etcd again", func() bool { _, err := b.Counts(t.Context()); return err == nil })
		}
		if n := len(h.all()); n != 100 {
			t.Fatalf("heard of %d jobs, want 100", n)
		}
		storetest.Check(t.Context(), t, b)
	})
	t.Run("a commit whose answer is lost is no conflict, and its change is heard", func(t *testing.T) {
		e, prefix := services.Etcd(t), freshPrefix()
		k := newLink(t, e.Addr)
		a := open(t, e.URL(prefix))
		b, err := etcd.Open(t.Context(), k.url(prefix), etcd.Options{Timeout: time.Second})
		must(t, err)
		t.Cleanup(func() { b.Close() })
		var h heard
		b.Watch(t.Context(), h.tell)
		k.mute.Store(true)
		err = b.Commit(t.Context(), &haulier.Batch{Insert: newJobs(1)})
		if err != nil && !errors.Is(err, haulier.ErrUnavailable) {
			t.Fatalf("error is %v, want ErrUnavailable", err)
		}
		until(t, "the commit was made", func() bool { return pending(t, a) == 1 })
		k.cut()
		k.mend()
		until(t, "it reaches etcd again", func() bool { _, err := b.Counts(t.Context()); return err == nil })
		if n := len(h.all()); n != 1 {
			t.Fatalf("heard of %d changes, want 1", n)
		}
		storetest.Check(t.Context(), t, b)
	})
	t.Run("a commit is made when only its answer is lost", func(t *testing.T) {
		e, prefix := services.Etcd(t), freshPrefix()
		k := newLink(t, e.Addr)
		a, b := open(t, e.URL(prefix)), open(t, k.url(prefix))
		k.mute.Store(true)
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := b.Commit(t.Context(), &haulier.Batch{Insert: newJobs(3)}); err != nil {
				t.Errorf("commit: %v", err)
			}
		})
		until(t, "it was carried out", func() bool { return pending(t, a) == 3 })
		k.cut()
		k.mend()
		wg.Wait()
		storetest.Check(t.Context(), t, b)
	})
	t.Run("an etcd that can't be reached is unavailable", func(t *testing.T) {
		k := newLink(t, services.Etcd(t).Addr)
		s, err := etcd.Open(t.Context(), k.url(freshPrefix()), etcd.Options{Timeout: 2 * time.Second})
		must(t, err)
		t.Cleanup(func() { s.Close() })
		k.cut()
		if _, err := s.Counts(t.Context()); !errors.Is(err, haulier.ErrUnavailable) {
			t.Errorf("read: %v, want ErrUnavailable", err)
		}
		if err := s.Commit(t.Context(), &haulier.Batch{Insert: newJobs(1)}); !errors.Is(err, haulier.ErrUnavailable) {
			t.Errorf("commit: %v, want ErrUnavailable", err)
		}
		if _, err := etcd.Open(t.Context(), k.url(freshPrefix()), etcd.Options{Timeout: 200 * time.Millisecond}); !errors.Is(err, haulier.ErrUnavailable) {
			t.Errorf("open: %v, want ErrUnavailable", err)
		}
		k.mend()
		until(t, "it reaches etcd again", func() bool { return s.Commit(t.Context(), &haulier.Batch{Insert: newJobs(1)}) == nil })
	})
	t.Run("whoever was cut off for longer than history is kept must open anew", func(t *testing.T) {
		e, prefix := services.StartEtcd(t, t.TempDir(), services.EtcdSettings...), freshPrefix()
		k := newLink(t, e.Addr)
		a, b := open(t, e.URL(prefix)), open(t, k.url(prefix))
		insert(t, a, 3)
		k.cut()
		insert(t, a, 3)
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{e.Addr}, Logger: zap.NewNop()})
		must(t, err)
		defer c.Close()
		r, err := c.Put(t.Context(), "other", "")
		must(t, err)
		_, err = c.Compact(t.Context(), r.Header.Revision)
		must(t, err)
		k.mend()
		select {
		case <-b.Failed():
		case <-time.After(30 * time.Second):
			t.Fatal("it goes on as if nothing were missing")
		}
		if _, err := b.Now(t.Context()); !errors.Is(err, haulier.ErrUnavailable) {
			t.Errorf("error is %v, want ErrUnavailable", err)
		}
		again := open(t, k.url(prefix))
		if n := pending(t, again); n != 6 {
			t.Errorf("opened anew it sees %d jobs, want 6", n)
		}
		insert(t, a, 1)
		storetest.Check(t.Context(), t, again)
	})
}

func TestKill(t *testing.T) {
	t.Run("what was acknowledged is there after an etcd alone was killed", func(t *testing.T) {
		e := services.StartEtcd(t, t.TempDir(), services.EtcdSettings...)
		testBlows(t, []*services.EtcdServer{e}, func(int, func()) {
			e.Kill()
			e.Restart(t)
		})
	})
	t.Run("of three members one may die at a time", func(t *testing.T) {
		members := services.StartEtcdCluster(t, t.TempDir(), 3)
		testBlows(t, members, func(i int, more func()) {
			e := members[i%len(members)]
			e.Kill()
			more()
			e.Restart(t)
		})
	})
	t.Run("the office of the leader may go from member to member", func(t *testing.T) {
		members := services.StartEtcdCluster(t, t.TempDir(), 3)
		testBlows(t, members, func(i int, _ func()) { lead(t, members, i) })
	})
}

// lead makes one of the members the leader, or the next if it is that already.
func lead(t *testing.T, members []*services.EtcdServer, i int) {
	t.Helper()
	var id, leader uint64
	var at string
	for k, e := range slices.Concat(members[i:], members[:i]) {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{e.Addr}, Logger: zap.NewNop()})
		must(t, err)
		defer c.Close()
		status, err := c.Status(t.Context(), e.Addr)
		must(t, err)
		leader = status.Leader
		switch me := status.Header.MemberId; {
		case me == leader:
			at = e.Addr
		case id == 0 || k == 0:
			id = me
		}
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{at}, Logger: zap.NewNop()})
	must(t, err)
	defer c.Close()
	_, err = c.MoveLeader(t.Context(), id)
	must(t, err)
	status, err := c.Status(t.Context(), at)
	must(t, err)
	if status.Leader == leader {
		t.Errorf("member %x still leads", leader)
	}
}

// testBlows has clients at work while the members are struck three times. What is more waits until clients have got on.
func testBlows(t *testing.T, members []*services.EtcdServer, strike func(i int, more func())) {
	url := "etcd://"
	for i, e := range members {
		if i > 0 {
			url += ","
		}
		url += e.Addr
	}
	s := open(t, url)
	session := newSession(t, s)
	var mu sync.Mutex
	var acknowledged []haulier.ID
	var h heard
	s.Watch(t.Context(), h.tell)
	var wg sync.WaitGroup
	var ended atomic.Bool
	for range 6 {
		wg.Go(func() {
			for !ended.Load() {
				jobs := newJobs(3)
				if err := s.Commit(t.Context(), &haulier.Batch{Insert: jobs, Sync: true}); err == nil {
					mu.Lock()
					acknowledged = append(acknowledged, jobs[0].ID, jobs[1].ID, jobs[2].ID)
					mu.Unlock()
				} else if !errors.Is(err, haulier.ErrUnavailable) {
					t.Errorf("commit: %v, want ErrUnavailable", err)
				}
				if _, err := s.Claim(t.Context(), session, "w", []haulier.Take{{Band: bench, N: 2}}); err != nil && !errors.Is(err, haulier.ErrUnavailable) {
					t.Errorf("claim: %v, want ErrUnavailable", err)
				}
			}
		})
	}
	more := func() {
		mu.Lock()
		before := len(acknowledged)
		mu.Unlock()
		until(t, "jobs were acknowledged", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(acknowledged) > before+30
		})
	}
	for i := range 3 {
		more()
		strike(i, more)
	}
	more()
	ended.Store(true)
	wg.Wait()
	jobs, err := s.Jobs(t.Context(), acknowledged)
	must(t, err)
	for i, j := range jobs {
		if j == nil {
			t.Fatalf("job %v was acknowledged and is gone", acknowledged[i])
		}
	}
	last := map[haulier.ID]uint64{}
	for _, c := range h.all() {
		if c.Status.Rev != last[c.Spec.ID]+1 {
			t.Fatalf("after revision %d of job %v came %d", last[c.Spec.ID], c.Spec.ID, c.Status.Rev)
		}
		last[c.Spec.ID] = c.Status.Rev
	}
	storetest.Check(t.Context(), t, s)
	storetest.Check(t.Context(), t, open(t, url))
}

func TestEtcdAsItComes(t *testing.T) {
	e := services.StartEtcd(t, t.TempDir())
	if _, err := etcd.Open(t.Context(), e.URL("haulier"), etcd.Options{}); !errors.Is(err, haulier.ErrInvalid) {
		t.Fatalf("error is %v, want ErrInvalid", err)
	}
	s := open(t, e.URL("haulier")+"?few_ops=1")
	session := newSession(t, s)
	jobs := insert(t, s, 1000)
	t.Run("a batch that changes too many jobs is refused as a whole", func(t *testing.T) {
		var b haulier.Batch
		for i := range jobs[:200] {
			next := jobs[i].Status
			next.Rev++
			b.Update = append(b.Update, haulier.JobUpdate{Spec: &jobs[i].Spec, Expect: jobs[i].Rev, Status: next})
		}
		if err := s.Commit(t.Context(), &b); !errors.Is(err, haulier.ErrTooLarge) {
			t.Fatalf("error is %v, want ErrTooLarge", err)
		}
		storetest.Check(t.Context(), t, s)
		b.Update = b.Update[:90]
		must(t, s.Commit(t.Context(), &b))
	})
	t.Run("a batch with too many bytes is refused as a whole", func(t *testing.T) {
		for _, n := range []int{4000, 9000} {
			if err := s.Commit(t.Context(), &haulier.Batch{Insert: newJobs(n)}); !errors.Is(err, haulier.ErrTooLarge) {
				t.Fatalf("error is %v, want ErrTooLarge", err)
			}
		}
		if n := pending(t, s); n != 1000 {
			t.Fatalf("%d jobs wait, want 1000", n)
		}
	})
	t.Run("commits are joined no further than it takes", func(t *testing.T) {
		var wg sync.WaitGroup
		for range 300 {
			wg.Go(func() {
				d := haulier.DocWrite{Kind: "other", Key: haulier.NewID(time.Now()).String(), Value: []byte("x")}
				if err := s.Commit(t.Context(), &haulier.Batch{Docs: []haulier.DocWrite{d}}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
	t.Run("a claim brings fewer jobs when their statuses are long", func(t *testing.T) {
		long := newJobs(90)
		for i := range long {
			long[i].Priority, long[i].Status.History = 1, []haulier.Change{{At: time.Now().Truncate(time.Microsecond), State: haulier.Pending, By: strings.Repeat("x", 12_000)}}
		}
		for i := range 9 {
			must(t, s.Commit(t.Context(), &haulier.Batch{Insert: long[10*i : 10*i+10]}))
		}
		for left := len(long); left > 0; {
			got, err := s.Claim(t.Context(), session, "w", []haulier.Take{{Band: haulier.Band{Lane: bench.Lane, Priority: 1}, N: 90}})
			if err != nil || len(got) == 0 || len(got) > 50 {
				t.Fatalf("%d of %d are claimed: %v", len(got), left, err)
			}
			left -= len(got)
		}
	})
	t.Run("a claim brings as many jobs as it takes", func(t *testing.T) {
		for left := 1000; left > 0; {
			got := claim(t, s, session, 1000)
			if len(got) == 0 {
				t.Fatalf("nothing is claimed, though %d jobs wait", left)
			}
			left -= len(got)
		}
	})
}

func TestFullEtcd(t *testing.T) {
	e := services.StartEtcd(t, t.TempDir(), "--quota-backend-bytes=4194304")
	s := open(t, e.URL("haulier")+"?few_ops=1")
	var err error
	for range 1000 {
		if err = s.Commit(t.Context(), &haulier.Batch{Docs: []haulier.DocWrite{{Kind: "other", Key: "k", Expect: haulier.AnyRev, Value: make([]byte, haulier.MaxDoc)}}}); err != nil {
			break
		}
	}
	if !errors.Is(err, haulier.ErrUnavailable) {
		t.Fatalf("error is %v, want ErrUnavailable", err)
	}
	if _, err := s.Doc(t.Context(), "other", "k"); err != nil {
		t.Errorf("a full etcd can't be read: %v", err)
	}
}

// TestPermissions works as a user who may only read, and then as one who has what docs/etcd.md asks for.
func TestPermissions(t *testing.T) {
	e := services.StartEtcd(t, t.TempDir(), services.EtcdSettings...)
	insert(t, open(t, e.URL("haulier")), 3)
	as := func(user, password string) *clientv3.Client {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{e.Addr}, Logger: zap.NewNop(), Username: user, Password: password})
		must(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	may := func(c *clientv3.Client, what clientv3.PermissionType) {
		t.Helper()
		_, err := c.RoleGrantPermission(t.Context(), "jobs", "/haulier/", clientv3.GetPrefixRangeEnd("/haulier/"), what)
		must(t, err)
	}
	c := as("", "")
	for _, name := range []string{"root", "jobs"} {
		_, err := c.RoleAdd(t.Context(), name)
		must(t, err)
		_, err = c.UserAdd(t.Context(), name, "secret")
		must(t, err)
		_, err = c.UserGrantRole(t.Context(), name, name)
		must(t, err)
	}
	may(c, clientv3.PermissionType(clientv3.PermRead))
	_, err := c.AuthEnable(t.Context())
	must(t, err)
	s := open(t, "etcd://jobs:secret@"+e.Addr+"/haulier")
	err = s.Commit(t.Context(), &haulier.Batch{Insert: newJobs(1)})
	if !errors.Is(err, haulier.ErrUnavailable) || !strings.Contains(err.Error(), "needs to read and write") {
		t.Errorf("who may only read is told: %v, want ErrUnavailable that says what is needed", err)
	}
	if n := pending(t, s); n != 3 {
		t.Errorf("%d jobs can be read, want 3", n)
	}
	may(as("root", "secret"), clientv3.PermissionType(clientv3.PermReadWrite))
	insert(t, s, 1)
	if got := claim(t, s, newSession(t, s), 4); len(got) != 4 {
		t.Errorf("claimed %d jobs, want 4", len(got))
	}
	storetest.Check(t.Context(), t, s)
}

func TestURLs(t *testing.T) {
	for _, url := range []string{
		"etcd://", "redis://localhost", "etcd:localhost", "etcd://localhost/a?volatile=1", "etcd://localhost/a?ca=x", "etcds://localhost/?ca=/none",
		"etcds://localhost/?skip_verify=perhaps", "etcds://localhost/?cert=/none&key=/none", "etcd://%zz@localhost/",
	} {
		if _, err := etcd.Open(t.Context(), url, etcd.Options{}); !errors.Is(err, haulier.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", url, err)
		}
	}
}

func TestOpenLargeStore(t *testing.T) {
	e, prefix := services.StartEtcd(t, t.TempDir(), services.EtcdSettings...), freshPrefix()
	url := e.URL(prefix)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{e.Addr}, Logger: zap.NewNop()})
	must(t, err)
	defer client.Close()
	a := openSmall(t, url)
	session := newSession(t, a)
	for range 20 {
		insert(t, a, 3)
		claim(t, a, session, 2)
	}
	saved := func() string {
		r, err := client.Get(t.Context(), "/"+prefix+"/counts")
		must(t, err)
		if len(r.Kvs) == 0 {
			return ""
		}
		return string(r.Kvs[0].Value)
	}
	check := func(t *testing.T, want int64) *etcd.Store {
		s := openSmall(t, url)
		if n := pending(t, s); n != want {
			t.Errorf("%d jobs wait, want %d", n, want)
		}
		storetest.Check(t.Context(), t, s)
		return s
	}
	t.Run("nothing was saved yet", func(t *testing.T) { check(t, 20) })
	t.Run("from what the last to close has saved", func(t *testing.T) {
		must(t, openSmall(t, url).Close())
		if saved() == "" {
			t.Fatal("nothing was saved")
		}
		check(t, 20)
	})
	t.Run("and from what has happened since", func(t *testing.T) {
		before := saved()
		insert(t, a, 3)
		claim(t, a, session, 5)
		s := check(t, 18)
		if saved() != before {
			t.Fatal("it was saved in between")
		}
		must(t, s.Close())
	})
	t.Run("from the indexes when history is gone", func(t *testing.T) {
		insert(t, a, 3)
		r, err := client.Put(t.Context(), "other", "")
		must(t, err)
		_, err = client.Compact(t.Context(), r.Header.Revision)
		must(t, err)
		check(t, 21)
	})
	t.Run("from the indexes when it can't be read", func(t *testing.T) {
		_, err := client.Put(t.Context(), "/"+prefix+"/counts", "{")
		must(t, err)
		check(t, 21)
	})
}

// TestFarAhead looks for what comes next among many that lie far ahead.
func TestFarAhead(t *testing.T) {
	s := openSmall(t, services.Etcd(t).URL(freshPrefix()))
	now, err := s.Now(t.Context())
	must(t, err)
	jobs := newJobs(40)
	for i := range jobs {
		jobs[i].Status.State, jobs[i].Status.RunAt = haulier.Scheduled, now.Add(time.Duration(i+1)*1000*time.Hour).Truncate(time.Microsecond)
	}
	must(t, s.Commit(t.Context(), &haulier.Batch{Insert: jobs}))
	for i := range jobs[:5] {
		due, err := s.Due(t.Context(), 10)
		must(t, err)
		if len(due.Timers) > 0 || due.Next.After(jobs[i].Status.RunAt) || due.Next.Before(now) {
			t.Fatalf("due is %+v, want nothing before %v", due, jobs[i].Status.RunAt)
		}
		must(t, s.Commit(t.Context(), &haulier.Batch{Delete: []haulier.JobDelete{{ID: jobs[i].ID, Expect: jobs[i].Rev}}}))
	}
	storetest.Check(t.Context(), t, s)
}
