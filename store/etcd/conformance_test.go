package etcd_test

import (
	"flag"
	"os"
	"strconv"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/engine/enginetest"
	"github.com/haulier/haulier/store/etcd"
	"github.com/haulier/haulier/store/services"
	"github.com/haulier/haulier/store/storetest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if !given("rapid.checks") { // each step of a history is several requests
		_ = flag.Set("rapid.checks", "25")
	}
	code := m.Run()
	services.StopEtcd()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			println(err.Error())
			code = 1
		}
	}
	os.Exit(code)
}

func given(name string) (found bool) {
	flag.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

func open(t testing.TB, url string) *etcd.Store {
	t.Helper()
	s, err := etcd.Open(t.Context(), url, etcd.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// openSmall opens a store that takes little for large.
func openSmall(t testing.TB, url string) *etcd.Store {
	t.Helper()
	s, err := etcd.Open(t.Context(), url, etcd.Small(etcd.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

var prefixes atomic.Int64

// freshPrefix is one that no other test has.
func freshPrefix() string { return "t" + strconv.FormatInt(prefixes.Add(1), 10) }

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) haulier.Store { return open(t, services.Etcd(t).URL(freshPrefix())) })
}

func TestEngine(t *testing.T) {
	enginetest.RunOutside(t, func(t *testing.T) enginetest.Driver {
		s := open(t, services.Etcd(t).URL(freshPrefix()))
		return enginetest.Driver{Store: s, SetClock: s.SetClock}
	})
}

func TestDurableContract(t *testing.T) {
	storetest.RunDurable(t, func(t *testing.T, dir string) haulier.Store { return openSmall(t, services.Etcd(t).URL(dir)) })
}
