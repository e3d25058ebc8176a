package postgres_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/engine/enginetest"
	"github.com/haulier/haulier/store/postgres"
	"github.com/haulier/haulier/store/services"
	"github.com/haulier/haulier/store/storetest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	services.StopPostgres()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Println("goroutines are left behind:", err)
		code = 1
	}
	os.Exit(code)
}

var schemas atomic.Int64

// newSchema is the name of one that no other test has, which goes with the test.
func newSchema(tb testing.TB, url string) string {
	tb.Helper()
	name := fmt.Sprintf("test_%d", schemas.Add(1))
	dropAtEnd(tb, url, name)
	return name
}

func dropAtEnd(tb testing.TB, url, schema string) {
	tb.Cleanup(func() { execute(tb, url, "DROP SCHEMA IF EXISTS "+schema+" CASCADE") })
}

// execute carries out a statement on a connection of its own.
func execute(tb testing.TB, url, statement string, args ...any) {
	tb.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err == nil {
		_, err = conn.Exec(ctx, statement, args...)
		conn.Close(ctx)
	}
	if err != nil {
		tb.Error(err)
	}
}

func open(tb testing.TB, url, schema string) *postgres.Store {
	tb.Helper()
	s, err := postgres.Open(tb.Context(), url, postgres.Options{Schema: schema})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

func TestContract(t *testing.T) {
	url := services.Postgres(t).URL()
	storetest.Run(t, func(t *testing.T) haulier.Store { return open(t, url, newSchema(t, url)) })
}

func TestDurableContract(t *testing.T) {
	url := services.Postgres(t).URL()
	made := map[string]bool{}
	storetest.RunDurable(t, func(t *testing.T, dir string) haulier.Store {
		h := fnv.New64a()
		h.Write([]byte(dir))
		schema := fmt.Sprintf("dir_%x", h.Sum64())
		if !made[schema] {
			made[schema] = true
			dropAtEnd(t, url, schema)
		}
		return open(t, url, schema)
	})
}

func TestEngine(t *testing.T) {
	url := services.Postgres(t).URL()
	enginetest.RunOutside(t, func(t *testing.T) enginetest.Driver {
		s := open(t, url, newSchema(t, url))
		return enginetest.Driver{Store: s, SetClock: s.SetClock}
	})
}
