package redis_test

import (
	"net/url"
	"os"
	"strconv"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/engine/enginetest"
	"github.com/haulier/haulier/store/redis"
	"github.com/haulier/haulier/store/services"
	"github.com/haulier/haulier/store/storetest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	services.StopRedis()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			println(err.Error())
			code = 1
		}
	}
	os.Exit(code)
}

func open(t testing.TB, url string, o redis.Options) *redis.Store {
	t.Helper()
	s, err := redis.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

var prefixes atomic.Int64

// freshPrefix is one that no other test has.
func freshPrefix() string { return "prefix=t" + strconv.FormatInt(prefixes.Add(1), 10) }

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) haulier.Store {
		return open(t, services.Redis(t).URL(freshPrefix()), redis.Options{})
	})
}

func TestDurableContract(t *testing.T) {
	storetest.RunDurable(t, func(t *testing.T, dir string) haulier.Store {
		return open(t, services.Redis(t).URL("prefix="+url.QueryEscape(dir)), redis.Options{})
	})
}

func TestEngine(t *testing.T) {
	enginetest.RunOutside(t, func(t *testing.T) enginetest.Driver {
		s := open(t, services.Redis(t).URL(freshPrefix()), redis.Options{})
		return enginetest.Driver{Store: s, SetClock: s.SetClock}
	})
}
