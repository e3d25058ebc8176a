package pebble_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/engine/enginetest"
	"github.com/haulier/haulier/store/pebble"
	"github.com/haulier/haulier/store/storetest"
)

func open(t *testing.T, dir string, o pebble.Options) *pebble.Store {
	t.Helper()
	s, err := pebble.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) haulier.Store { return open(t, t.TempDir(), pebble.Options{}) })
}

func TestContractWithLittleMemory(t *testing.T) {
	storetest.Run(t, func(t *testing.T) haulier.Store {
		return open(t, "store", pebble.Small(pebble.Options{FS: vfs.NewMem()}))
	})
}

func TestDurableContract(t *testing.T) {
	storetest.RunDurable(t, func(t *testing.T, dir string) haulier.Store { return open(t, dir, pebble.Options{}) })
}

func TestEngine(t *testing.T) {
	enginetest.RunOutside(t, func(t *testing.T) enginetest.Driver {
		var clock atomic.Pointer[func() time.Time]
		s := open(t, "store", pebble.Options{FS: vfs.NewMem(), Now: func() time.Time {
			if now := clock.Load(); now != nil {
				return (*now)()
			}
			return time.Now()
		}})
		return enginetest.Driver{Store: s, SetClock: func(now func() time.Time) { clock.Store(&now) }}
	})
}

func TestCrew(t *testing.T) {
	storetest.RunCrew(t, func(t *testing.T) storetest.Crew {
		return storetest.Crew{Stores: []haulier.Store{open(t, t.TempDir(), pebble.Options{})}}
	})
}

func TestCrewWithLittleMemory(t *testing.T) {
	storetest.RunCrew(t, func(t *testing.T) storetest.Crew {
		return storetest.Crew{Stores: []haulier.Store{open(t, "store", pebble.Small(pebble.Options{FS: vfs.NewMem()}))}}
	})
}
