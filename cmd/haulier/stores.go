package main

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/store/etcd"
	"github.com/haulier/haulier/store/mem"
	"github.com/haulier/haulier/store/pebble"
	"github.com/haulier/haulier/store/postgres"
	"github.com/haulier/haulier/store/redis"
)

// storeOptions are what the driver of a store may want to know.
type storeOptions struct {
	Durability string // sync or process
	NoMigrate  bool   // a database's tables are left as they are
	Log        *slog.Logger
}

// stores are the drivers by the scheme of their URL. Each gets the whole of it.
var stores = map[string]func(ctx context.Context, url string, o storeOptions) (haulier.Store, error){
	"pebble": openPebble,
	"mem":    openMem,
	"redis":  openRedis,
	"rediss": openRedis,
	"etcd":   openEtcd,
	"etcds":  openEtcd,

	"postgres":   openPostgres,
	"postgresql": openPostgres,
}

// openStore opens the store of the URL, such as pebble:/var/lib/haulier/store.
func openStore(ctx context.Context, url string, o storeOptions) (haulier.Store, error) {
	scheme, _, ok := strings.Cut(url, ":")
	open := stores[scheme]
	if !ok || open == nil {
		return nil, usagef("--store is %q: it begins with one of %s: and for pebble a folder follows, as in pebble:/var/lib/haulier/store",
			url, strings.Join(slices.Sorted(maps.Keys(stores)), ":, "))
	}
	if !slices.Contains(durabilities, o.Durability) {
		return nil, usagef("--durability is %q: it is sync (survives power loss) or process (survives kill -9 only)", o.Durability)
	}
	return open(ctx, url, o)
}

// durabilities are the values of --durability. The first is what holds unless said.
var durabilities = []string{"sync", "process"}

func openPebble(_ context.Context, url string, o storeOptions) (haulier.Store, error) {
	dir := strings.TrimPrefix(url, "pebble:")
	if dir == "" {
		return nil, usagef("--store pebble: lacks the folder, as in pebble:/var/lib/haulier/store")
	}
	d := pebble.Sync
	if o.Durability == "process" {
		d = pebble.Process
	}
	s, err := pebble.Open(dir, pebble.Options{Durability: d, Log: o.Log})
	if err != nil {
		return nil, err // not the nil *pebble.Store, which would be no nil haulier.Store
	}
	return s, nil
}

// openMem keeps all in memory, for a trial: nothing outlives the server.
func openMem(context.Context, string, storeOptions) (haulier.Store, error) { return mem.New(), nil }

func openRedis(ctx context.Context, url string, o storeOptions) (haulier.Store, error) {
	d := redis.Sync
	if o.Durability == "process" {
		d = redis.Process
	}
	s, err := redis.Open(ctx, url, redis.Options{Durability: d, Log: o.Log})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func openPostgres(ctx context.Context, url string, o storeOptions) (haulier.Store, error) {
	d := postgres.Sync
	if o.Durability == "process" {
		d = postgres.Process
	}
	s, err := postgres.Open(ctx, url, postgres.Options{Durability: d, NoMigrate: o.NoMigrate, Log: o.Log})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// openEtcd has no use for the durability: etcd syncs whatever it writes.
func openEtcd(ctx context.Context, url string, o storeOptions) (haulier.Store, error) {
	s, err := etcd.Open(ctx, url, etcd.Options{Log: o.Log})
	if err != nil {
		return nil, err
	}
	return s, nil
}
