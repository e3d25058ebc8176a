package main

import (
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/store/mem"
	"github.com/haulier/haulier/store/pebble"
)

// storeOptions are what the driver of a store may want to know.
type storeOptions struct {
	Durability string // sync or process
	Log        *slog.Logger
}

// stores are the drivers by the scheme of their URL. Each gets what follows the colon.
var stores = map[string]func(rest string, o storeOptions) (haulier.Store, error){
	"pebble": openPebble,
	"mem":    openMem,
}

// openStore opens the store of the URL, such as pebble:/var/lib/haulier/store.
func openStore(url string, o storeOptions) (haulier.Store, error) {
	scheme, rest, ok := strings.Cut(url, ":")
	open := stores[scheme]
	if !ok || open == nil {
		return nil, usagef("--store is %q: it begins with one of %s: and for pebble a folder follows, as in pebble:/var/lib/haulier/store",
			url, strings.Join(slices.Sorted(maps.Keys(stores)), ":, "))
	}
	return open(rest, o)
}

var durabilities = map[string]pebble.Durability{"sync": pebble.Sync, "process": pebble.Process}

func openPebble(dir string, o storeOptions) (haulier.Store, error) {
	d, ok := durabilities[o.Durability]
	if !ok {
		return nil, usagef("--durability is %q: it is sync (survives power loss) or process (survives kill -9 only)", o.Durability)
	}
	if dir == "" {
		return nil, usagef("--store pebble: lacks the folder, as in pebble:/var/lib/haulier/store")
	}
	s, err := pebble.Open(dir, pebble.Options{Durability: d, Log: o.Log})
	if err != nil {
		return nil, err // not the nil *pebble.Store, which would be no nil haulier.Store
	}
	return s, nil
}

// openMem keeps all in memory, for a trial: nothing outlives the server.
func openMem(string, storeOptions) (haulier.Store, error) { return mem.New(), nil }
