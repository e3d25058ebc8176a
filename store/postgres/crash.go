package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/haulier/haulier"
)

// A crash of PostgreSQL, and the promotion of a standby, lose the last commits that were not synced, claims among them, and empty tables that are
// not logged. There is such a table, with a row; where that is missing there was a crash, and whoever finds it so writes the row
// anew. A server that is at work then must not go on, for what it and its workers know may not be so: the store
// fails, and says when it is opened again that claims were lost.

// crashMemory is for how long after a crash was found servers that start are told of it.
const crashMemory = 10 * time.Minute

// crash is what a store knows of crashes.
type crash struct {
	seen pgtype.Timestamptz // of the newest, when the store was opened
	once sync.Once
	done chan struct{} // closed when there was another
}

const readCrash = `SELECT max(found_at) FROM haulier.crash`

// noteCrash says whether there was a crash lately.
func (s *Store) noteCrash(ctx context.Context) (lost bool, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('haulier crash ' || $1::text, 0))`, s.schema); err != nil {
			return err
		}
		const write = `INSERT INTO haulier.crash (found_at) SELECT clock_timestamp() WHERE NOT EXISTS (SELECT FROM haulier.crash)`
		if _, err := tx.Exec(ctx, s.text(write)); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, s.text(readCrash)).Scan(&s.crash.seen); err != nil {
			return err
		}
		return tx.QueryRow(ctx, s.text(`SELECT max(found_at) > clock_timestamp() - $1::interval FROM haulier.crash`), crashMemory).Scan(&lost)
	})
	return lost, translate(err)
}

// crashed compares what stands in the table with what stood there, and fails the store when that is something else.
func (s *Store) crashed(now pgtype.Timestamptz) error {
	was := s.crash.seen
	if now.Valid && now.InfinityModifier == was.InfinityModifier && now.Time.Equal(was.Time) {
		return nil
	}
	s.crash.once.Do(func() {
		close(s.crash.done)
		s.log.Error("PostgreSQL has crashed, or another took its place: claims may be lost, and the store must be opened again")
	})
	return s.crash.failed()
}

// lookForCrash asks whether there was a crash since the store was opened.
func (s *Store) lookForCrash(ctx context.Context) error {
	var now pgtype.Timestamptz
	if err := s.pool.QueryRow(ctx, s.text(readCrash)).Scan(&now); err != nil {
		return translate(err)
	}
	return s.crashed(now)
}

func (c *crash) failed() error {
	select {
	case <-c.done:
		return fmt.Errorf("store: %w: PostgreSQL has crashed or another took its place, and claims may be lost: start the server again", haulier.ErrUnavailable)
	default:
		return nil
	}
}

// Failed is closed when the store can't go on, since PostgreSQL has crashed: until it is opened again, every call fails with
// haulier.ErrUnavailable and that cause.
func (s *Store) Failed() <-chan struct{} { return s.crash.done }
