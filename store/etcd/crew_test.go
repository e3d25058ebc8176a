package etcd_test

import (
	"math/rand/v2"
	"testing"

	"github.com/haulier/haulier/store/services"
	"github.com/haulier/haulier/store/storetest"
)

func TestCrew(t *testing.T) {
	storetest.RunCrew(t, func(t *testing.T) (c storetest.Crew) {
		url := services.Etcd(t).URL(freshPrefix())
		for range 3 {
			c.Stores = append(c.Stores, open(t, url))
		}
		return c
	})
}

// TestCrewOverABadNetwork cuts now one server off from etcd, now the other.
func TestCrewOverABadNetwork(t *testing.T) {
	storetest.RunCrew(t, func(t *testing.T) (c storetest.Crew) {
		prefix := freshPrefix()
		var links []*services.Link
		c.Stores = append(c.Stores, open(t, services.Etcd(t).URL(prefix)))
		for range 2 {
			k := services.NewLink(t, "tcp", services.Etcd(t).Addr)
			links = append(links, k)
			c.Stores = append(c.Stores, open(t, "etcd://"+k.Addr()+"/"+prefix))
		}
		c.Cut = func() { links[rand.IntN(len(links))].Break() }
		return c
	})
}
