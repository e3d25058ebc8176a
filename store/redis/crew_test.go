package redis_test

import (
	"math/rand/v2"
	"testing"

	"github.com/haulier/haulier/store/redis"
	"github.com/haulier/haulier/store/services"
	"github.com/haulier/haulier/store/storetest"
)

func TestCrew(t *testing.T) {
	storetest.RunCrew(t, func(t *testing.T) (c storetest.Crew) {
		url := services.Redis(t).URL(freshPrefix())
		for range 3 {
			c.Stores = append(c.Stores, open(t, url, redis.Options{}))
		}
		return c
	})
}

// TestCrewOverABadNetwork cuts now one server off from Redis, now the other.
func TestCrewOverABadNetwork(t *testing.T) {
	storetest.RunCrew(t, func(t *testing.T) (c storetest.Crew) {
		prefix := freshPrefix()
		var links []*services.Link
		c.Stores = append(c.Stores, open(t, services.Redis(t).URL(prefix), redis.Options{}))
		for range 2 {
			k := services.NewLink(t, "tcp", services.Redis(t).Addr)
			links = append(links, k)
			c.Stores = append(c.Stores, open(t, "redis://"+k.Addr()+"/0?"+prefix, redis.Options{}))
		}
		c.Cut = func() { links[rand.IntN(len(links))].Break() }
		return c
	})
}
