package e2e_test

import (
	"os"
	"testing"

	"github.com/haulier/haulier/store/services"
)

// cable is a piece of network that can be cut. A services.Link is one between processes of one machine, where nothing better can be had.
type cable interface{ Set(s services.LinkState) }

// distantStores are those of a lab, each on a machine of its own.
var distantStores = map[string]func(t *testing.T, at services.Place) (url string){
	"redis": func(t *testing.T, at services.Place) string {
		return services.StartRedisAt(t, at, t.TempDir(), "--appendfsync", "no", "--save", "").URL("")
	},
	"postgres": func(t *testing.T, at services.Place) string {
		return services.StartPostgresAt(t, at, "fsync=off", "full_page_writes=off").URL()
	},
	"etcd": func(t *testing.T, at services.Place) string {
		dir, err := os.MkdirTemp("/dev/shm", "haulier-etcd-") // how long a disk takes to sync is not what this is about
		if err != nil {
			dir = t.TempDir()
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		return services.StartEtcdAt(t, at, dir, services.EtcdSettings...).URL("haulier")
	},
}
