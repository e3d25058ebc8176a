package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/haulier/haulier/client"
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
// whichever server they like, and the same must hold.
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
			store := open(t)
			ctx, cancel := context.WithTimeout(context.Background(), *crashTime+5*time.Minute)
			defer cancel()
			f := newFleet(t, store, rand.New(rand.NewPCG(seed, seed)))
			f.begin(ctx)
			load := f.load(ctx, seed)
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
	links   []*services.Link // between servers and the store, then between workers and servers
	stores  []string         // the store's URL, by the link of each server
	sites   []*site          // of one folder, each with a server of its own
	workers []*process
	makers  []func() *process // of the workers
	killed  map[string]int
	story   []string
}

const servers = 3

func newFleet(t *testing.T, store sharedStore, dice *rand.Rand) *fleet {
	f := &fleet{t: t, dice: dice, sites: []*site{newSite(t)}, killed: map[string]int{}}
	for len(f.sites) < servers {
		f.sites = append(f.sites, f.sites[0].beside())
	}
	for range servers {
		k := services.NewLink(t, store.network, store.addr)
		f.links = append(f.links, k)
		f.stores = append(f.stores, store.url(k.Addr()))
	}
	return f
}

// far is the site's server as who is behind a link sees it.
func (f *fleet) far(s *site) *site {
	k := services.NewLink(f.t, "tcp", s.addr)
	f.links = append(f.links, k)
	other := *s
	other.addr = k.Addr()
	other.url = "http://" + other.addr
	return &other
}

// beside is another server's place in the same folder.
func (s *site) beside() *site {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	other := *s
	other.addr, other.server = l.Addr().String(), nil
	l.Close()
	other.url = "http://" + other.addr
	if other.client, err = client.New(client.Config{URL: other.url}); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { other.client.Close() })
	return &other
}

func (f *fleet) begin(ctx context.Context) {
	for i := range f.sites {
		f.serve(i)
		f.sites[i].ready(ctx)
	}
	first, second, third := f.far(f.sites[0]), f.far(f.sites[1]), f.far(f.sites[2])
	f.makers = []func() *process{
		func() *process { return first.work("commands") },
		func() *process { return second.workFunctions("functions") },
		func() *process { return third.workFunctions("more-functions") },
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

// run kills a part of the fleet at a time, and puts another in its place.
func (f *fleet) run(ctx context.Context) {
	began := time.Now()
	for len(f.story) < *fleetRounds && time.Since(began) < *crashTime && ctx.Err() == nil {
		f.pause(ctx, 50, 500)
		if f.dice.IntN(3) == 0 {
			f.cut(ctx)
			continue
		}
		if i := f.dice.IntN(servers + len(f.workers)); i < servers {
			f.tell(fmt.Sprint("server ", i))
			f.sites[i].server.kill()
			f.pause(ctx, 1, 300)
			if f.dice.IntN(15) == 0 { // longer than it takes until another has its duties
				f.pause(ctx, 8000, 10000)
			}
			f.serve(i)
		} else {
			i -= servers
			f.tell(fmt.Sprint("worker ", i))
			f.workers[i].kill()
			f.pause(ctx, 1, 300)
			if f.dice.IntN(15) == 0 {
				f.pause(ctx, int(lease/time.Millisecond), int(3*lease/2/time.Millisecond))
			}
			f.workers[i] = f.makers[i]()
		}
		f.fallen()
	}
}

// cut takes a piece of the network away for a while, rarely for longer than leases last.
func (f *fleet) cut(ctx context.Context) {
	i := f.dice.IntN(len(f.links))
	how, name := services.LinkDown, "cut"
	if f.dice.IntN(2) == 0 {
		how, name = services.LinkSilent, "silence"
	}
	f.tell(fmt.Sprint(name, " ", i))
	f.links[i].Set(how)
	f.pause(ctx, 50, 1500)
	if f.dice.IntN(8) == 0 {
		f.pause(ctx, 6000, 8000)
	}
	f.links[i].Set(services.LinkUp)
	f.fallen()
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
