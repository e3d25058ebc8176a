package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/haulier/haulier/store/services"
)

// sharedStore is a store over which several servers work, and how it is named when it is at another address.
type sharedStore struct {
	network, addr string
	url           func(addr string) string
}

// sharedStores make one that is new.
var sharedStores = map[string]func(t *testing.T) sharedStore{
	"redis": func(t *testing.T) sharedStore {
		name := fresh()
		return sharedStore{"tcp", services.Redis(t).Addr, func(addr string) string { return "redis://" + addr + "/0?prefix=" + name }}
	},
	"postgres": func(t *testing.T) sharedStore {
		name, server := fresh(), services.Postgres(t)
		c, err := pgx.Connect(t.Context(), server.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background())
		if _, err := c.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
			t.Fatal(err)
		}
		return sharedStore{"unix", filepath.Join(server.Dir, postgresSocket), func(addr string) string {
			return "postgres://haulier@/" + name + "?host=" + filepath.Dir(addr)
		}}
	},
	"etcd": func(t *testing.T) sharedStore {
		name := fresh()
		return sharedStore{"tcp", services.Etcd(t).Addr, func(addr string) string { return "etcd://" + addr + "/" + name }}
	},
}

var names atomic.Int64

// fresh is a name that no other test has.
func fresh() string { return fmt.Sprint("e2e", names.Add(1)) }

// postgresSocket is what PostgreSQL calls its socket.
const postgresSocket = ".s.PGSQL.5432"

// TestCrashOfSeveralServers is TestCrash with three servers over one store and three workers, each at
// another server: any of them is killed at any time, and the network between any two is cut or falls silent; callers ask
// whichever server they like, and the same must hold. As root on Linux each of them, and the store, has a machine of its own in a lab.
func TestCrashOfSeveralServers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute; run without -short")
	}
	seed := *crashSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d: repeat the choices with -crash.seed %d", seed, seed)
	for name, open := range sharedStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), *crashTime+5*time.Minute)
			defer cancel()
			f := &fleet{t: t, dice: rand.New(rand.NewPCG(seed, seed)), killed: map[string]int{}}
			if lab := newLab(t, 1+2*servers); lab != nil {
				f.spread(lab, distantStores[name](t, lab.machines[0].Place))
			} else {
				f.gather(open(t))
			}
			f.begin(ctx)
			load := f.load(ctx, seed)
			defer load.end()
			f.run(ctx)
			load.end()
			t.Logf("%d kills: %v", len(f.story), f.killed)
			f.settle(ctx)
			facts := f.sites[0].facts(ctx)
			facts.check(load)
			load.repeatKeys(ctx, t)
			f.finish()
			if t.Failed() {
				t.Logf("what was killed when:\n%s", strings.Join(f.story, "\n"))
			}
		})
	}
}

// fleet is several servers over one store, with their workers.
type fleet struct {
	t       *testing.T
	dice    *rand.Rand
	cables  []cable
	stores  []string // the store's URL for each server
	sites   []*site  // of one folder, each with a server of its own
	far     []*site  // the same, as the workers see and where these run
	workers []*process
	makers  []func() *process // of the workers
	killed  map[string]int
	story   []string
}

const servers = 3

// spread puts the fleet into a lab: each server and each worker has a machine of its own, as the store has. Any two that talk to each other can be
// cut off from each other, and any machine from all others.
func (f *fleet) spread(l *lab, store string) {
	place := l.machines[0]
	for i := range servers {
		here, there := l.machines[1+i], l.machines[1+servers+i]
		s := newSiteAt(f.t, f.folder(), here.Place)
		f.sites, f.stores = append(f.sites, s), append(f.stores, store)
		worker := *s
		worker.at = there.Place
		f.far = append(f.far, &worker)
		f.cables = append(f.cables, &way{a: here, b: place}, &way{a: there, b: here}, here, there)
	}
	f.cables = append(f.cables, place)
}

// folder is that of the first site, "" before there is one.
func (f *fleet) folder() string {
	if len(f.sites) == 0 {
		return ""
	}
	return f.sites[0].dir
}

// gather puts the fleet onto this machine, with links between servers and the store, and between workers and servers.
func (f *fleet) gather(store sharedStore) {
	for range servers {
		s := newSiteAt(f.t, f.folder(), services.Place{})
		k := services.NewLink(f.t, store.network, store.addr)
		front := services.NewLink(f.t, "tcp", s.addr)
		worker := *s
		worker.addr, worker.url = front.Addr(), "http://"+front.Addr()
		f.cables = append(f.cables, k, front)
		f.sites, f.stores, f.far = append(f.sites, s), append(f.stores, store.url(k.Addr())), append(f.far, &worker)
	}
}

func (f *fleet) begin(ctx context.Context) {
	for i := range f.sites {
		f.serve(i)
		f.sites[i].ready(ctx)
	}
	f.makers = []func() *process{
		func() *process { return f.far[0].work("commands") },
		func() *process { return f.far[1].workFunctions("functions") },
		func() *process { return f.far[2].workFunctions("more-functions") },
	}
	for _, start := range f.makers {
		f.workers = append(f.workers, start())
	}
}

func (f *fleet) serve(i int) { f.sites[i].serve("--store", f.stores[i]) }

// load asks any of the servers, and another one when the first does not answer.
func (f *fleet) load(ctx context.Context, seed uint64) *load {
	l := &load{site: f.sites[0], seed: seed, stop: make(chan struct{})}
	for _, s := range f.sites {
		l.clients = append(l.clients, s.client)
	}
	for c := range 4 {
		l.all.Go(func() { l.call(ctx, c) })
	}
	return l
}

// run kills a part of the fleet at a time, and puts another in its place, or cuts the network.
func (f *fleet) run(ctx context.Context) {
	began := time.Now()
	for len(f.story) < *fleetRounds && time.Since(began) < *crashTime && ctx.Err() == nil {
		f.pause(ctx, 50, 500)
		if f.dice.IntN(3) == 0 {
			f.cut(ctx)
		} else {
			replace := f.strike()
			f.pause(ctx, 1, 300)
			if f.dice.IntN(15) == 0 { // longer than a lease, and than it takes until another has a server's duties
				f.pause(ctx, 8000, 10000)
			}
			replace()
		}
		f.fallen()
	}
}

// strike kills a server or a worker.
func (f *fleet) strike() (replace func()) {
	if i := f.dice.IntN(servers + len(f.workers)); i < servers {
		f.tell(fmt.Sprint("server ", i))
		f.sites[i].server.kill()
		return func() { f.serve(i) }
	} else {
		i -= servers
		f.tell(fmt.Sprint("worker ", i))
		f.workers[i].kill()
		return func() { f.workers[i] = f.makers[i]() }
	}
}

// cut takes a piece of the network away for a while, rarely for longer than leases last. Whoever is killed meanwhile can't say so to all.
func (f *fleet) cut(ctx context.Context) {
	for _, s := range f.sites {
		s.ready(ctx) // a server that can't reach the store when it starts ends
	}
	i := f.dice.IntN(len(f.cables))
	how, name := services.LinkDown, "cut"
	if f.dice.IntN(2) == 0 {
		how, name = services.LinkSilent, "silence"
	}
	f.tell(fmt.Sprint(name, " ", i))
	f.cables[i].Set(how)
	f.pause(ctx, 50, 1500)
	if f.dice.IntN(8) == 0 {
		f.pause(ctx, 6000, 8000)
	}
	replace := func() {}
	if f.dice.IntN(4) == 0 {
		replace = f.strike()
		f.pause(ctx, 50, 300)
	}
	f.cables[i].Set(services.LinkUp)
	replace()
}

func (f *fleet) tell(who string) {
	f.killed[who]++
	f.story = append(f.story, fmt.Sprintf("%s %s", time.Now().UTC().Format("15:04:05.000"), who))
}

func (f *fleet) pause(ctx context.Context, least, most int) {
	select {
	case <-time.After(time.Duration(least+f.dice.IntN(most-least)) * time.Millisecond):
	case <-ctx.Done():
	}
}

// fallen fails the test when somebody ended that nobody killed.
func (f *fleet) fallen() {
	all := append([]*process(nil), f.workers...)
	for _, s := range f.sites {
		all = append(all, s.server)
	}
	for _, p := range all {
		if p.ended() {
			f.t.Fatalf("%s ended by itself with code %d:\n%s", p.log, p.cmd.ProcessState.ExitCode(), tail(p.output(f.t)))
		}
	}
}

// settle waits, in peace now, until every job has ended.
func (f *fleet) settle(ctx context.Context) {
	for _, s := range f.sites {
		s.ready(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	f.sites[0].await(ctx, "every job has ended", func() bool {
		f.fallen()
		counts, err := f.sites[f.dice.IntN(servers)].client.Counts(ctx, "default")
		if err != nil {
			f.t.Fatal("counts: ", err)
		}
		for _, n := range counts {
			if !n.State.Terminal() && n.N > 0 {
				return false
			}
		}
		return true
	})
}

func (f *fleet) finish() {
	for _, p := range f.workers {
		if code := p.stop(); code != 0 {
			f.t.Errorf("worker %s ended with code %d on TERM:\n%s", p.log, code, tail(p.output(f.t)))
		}
	}
	for _, s := range f.sites {
		if code := s.server.stop(); code != 0 {
			f.t.Errorf("a server ended with code %d on TERM:\n%s", code, tail(s.server.output(f.t)))
		}
	}
	f.sites[0].checkStore(f.stores[0])
}
