package postgres_test

import (
	"testing"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/store/services"
	"github.com/haulier/haulier/store/storetest"
)

var newJobs = storetest.NewJobs

// BenchmarkStore measures over a server of its own for each part, which syncs, with the memory of a small machine.
func BenchmarkStore(b *testing.B) {
	storetest.Benchmark(b, func(b *testing.B) haulier.Store {
		b.Helper()
		return open(b, services.StartPostgres(b, "shared_buffers=512MB", "max_wal_size=4GB").URL(), "")
	})
}
