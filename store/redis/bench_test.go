package redis_test

import (
	"testing"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/store/redis"
	"github.com/haulier/haulier/store/services"
	"github.com/haulier/haulier/store/storetest"
)

var newJobs = storetest.NewJobs

// BenchmarkStore measures over a Redis of its own for each part.
func BenchmarkStore(b *testing.B) {
	for _, fsync := range []string{"always", "everysec"} {
		b.Run("fsync="+fsync, func(b *testing.B) {
			storetest.Benchmark(b, func(b *testing.B) haulier.Store {
				b.Helper()
				return open(b, services.StartRedis(b, b.TempDir(), "--appendfsync", fsync, "--save", "").URL(""), redis.Options{})
			})
		})
	}
}

// benchBand is where newJobs wait.
var benchBand = haulier.Band{Lane: newJobs(1)[0].Lane()}
