package pebble_test

import (
	"testing"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/store/pebble"
	"github.com/haulier/haulier/store/storetest"
)

var newJobs = storetest.NewJobs

func BenchmarkStore(b *testing.B) {
	storetest.Benchmark(b, func(b *testing.B) haulier.Store {
		b.Helper()
		s, err := pebble.Open(b.TempDir(), pebble.Options{})
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
