package etcd_test

import (
	"testing"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/store/etcd"
	"github.com/haulier/haulier/store/services"
	"github.com/haulier/haulier/store/storetest"
)

var newJobs = storetest.NewJobs

// BenchmarkStore measures over an etcd of its own for each part, which syncs.
func BenchmarkStore(b *testing.B) {
	storetest.Benchmark(b, func(b *testing.B) haulier.Store {
		b.Helper()
		s, err := etcd.Open(b.Context(), services.StartEtcd(b, b.TempDir(), services.EtcdSettings...).URL("bench"), etcd.Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := s.Close(); err != nil {
				b.Error(err)
			}
		})
		return s
	})
}
