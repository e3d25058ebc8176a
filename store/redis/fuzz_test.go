package redis_test

import (
	"errors"
	"testing"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/store/redis"
)

func FuzzTexts(f *testing.F) {
	f.Add("default/default/mail/go", "1", -3)
	f.Add("a%2Fb/%25/c/exec", "pending", 0)
	f.Add("1759000000000000 01968c2a-0000-7000-8000-000000000000 a worker", "", 10)
	f.Add("eyJ0IjoiMSJ9", "x", 1)
	f.Add("12 value", "running", 2)
	f.Fuzz(func(t *testing.T, a, b string, priority int) {
		for _, err := range redis.ReadTexts(a, b) {
			if err != nil && !errors.Is(err, haulier.ErrCorrupt) && !errors.Is(err, haulier.ErrInvalid) {
				t.Errorf("%q, %q: %v, want ErrCorrupt or ErrInvalid", a, b, err)
			}
		}
		band := haulier.Band{Lane: haulier.Lane{Tenant: a, Queue: b, Type: b + a, Kind: haulier.Kind(a), RunsOn: b}, Priority: priority}
		if got, err := redis.ParseBand(redis.BandText(band)); err != nil || got != band {
			t.Errorf("%v became %v: %v", band, got, err)
		}
		if got, err := redis.ParseLane(redis.LaneText(band.Lane)); err != nil || got != band.Lane {
			t.Errorf("%v became %v: %v", band.Lane, got, err)
		}
	})
}
