package postgres_test

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/haulier/haulier/store/services"
	"github.com/haulier/haulier/store/storetest"
)

func TestCrew(t *testing.T) {
	storetest.RunCrew(t, func(t *testing.T) (c storetest.Crew) {
		url := services.Postgres(t).URL()
		schema := newSchema(t, url)
		for range 3 {
			c.Stores = append(c.Stores, open(t, url, schema))
		}
		return c
	})
}

// TestCrewOverABadNetwork cuts now one server off from PostgreSQL, now the other.
func TestCrewOverABadNetwork(t *testing.T) {
	storetest.RunCrew(t, func(t *testing.T) (c storetest.Crew) {
		server := services.Postgres(t)
		schema := newSchema(t, server.URL())
		var links []*services.Link
		c.Stores = append(c.Stores, open(t, server.URL(), schema))
		for range 2 {
			k := services.NewLink(t, "unix", filepath.Join(server.Dir, ".s.PGSQL.5432"))
			links = append(links, k)
			c.Stores = append(c.Stores, open(t, "postgres://haulier@/postgres?host="+filepath.Dir(k.Addr()), schema))
		}
		c.Cut = func() { links[rand.IntN(len(links))].Break() }
		return c
	})
}
