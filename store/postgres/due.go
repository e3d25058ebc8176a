package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/haulier/haulier"
)

const (
	readTimers = `SELECT at, id FROM haulier.status WHERE spot = 2 AND (at, id) >= ($1::timestamptz, $2::uuid) ORDER BY at, id LIMIT $3`
	readPurge  = `SELECT at, id FROM haulier.status WHERE spot >= 6 AND (at, id) >= ($1::timestamptz, $2::uuid) ORDER BY at, id LIMIT $3`
	readLeases = `SELECT expires_at, session FROM haulier.leases ORDER BY expires_at, session LIMIT $1`
)

// Due implements haulier.Store.
func (s *Store) Due(ctx context.Context, limit int) (haulier.Due, error) {
	if err := s.enter(); err != nil {
		return haulier.Due{}, err
	}
	defer s.leave()
	due, err := s.due(ctx, limit)
	if err != nil {
		return haulier.Due{}, fmt.Errorf("due: %w", err)
	}
	return due, nil
}

func (s *Store) due(ctx context.Context, limit int) (due haulier.Due, err error) {
	if s.clock.old() {
		if err := s.measureClock(ctx, 1); err != nil {
			return due, err
		}
	}
	s.listener.lookAgain(ctx)
	now := s.clock.now()
	var timers, purge, leases places
	var b pgx.Batch
	b.Queue(s.text(readLeases), limit+1).Query(leases.read)
	lines := map[line]*places{timerLine: &timers, purgeLine: &purge}
	statements := map[line]string{timerLine: readTimers, purgeLine: readPurge}
	for l, p := range lines {
		at, id := beginOfTime, pgtype.UUID{Valid: true}
		k, from, known := s.floors.look(l)
		if p.look = k; known {
			at, id = instant(from.at, true), pgtype.UUID{Bytes: from.id, Valid: true}
		}
		b.Queue(s.text(statements[l]), at, id, limit+1).Query(p.read)
	}
	err = s.pool.SendBatch(ctx, &b).Close()
	for _, p := range lines {
		if err != nil {
			s.floors.abandon(p.look)
		} else {
			s.floors.end(p.look, p.first())
		}
	}
	if err != nil {
		return due, translate(err)
	}
	due.Timers = timers.passed(now, limit, &due.Next)
	due.Purge = purge.passed(now, limit, &due.Next)
	due.Sessions = leases.passed(now, limit, &due.Next)
	return due, nil
}

// places are the first of a line.
type places struct {
	list []place
	look *looker
}

func (p *places) read(rows pgx.Rows) error {
	var at pgtype.Timestamptz
	var id pgtype.UUID
	_, err := pgx.ForEachRow(rows, []any{&at, &id}, func() error {
		p.list = append(p.list, place{at.Time.UTC(), id.Bytes})
		return nil
	})
	return err
}

func (p *places) first() place {
	if len(p.list) == 0 {
		return endOfTime
	}
	return p.list[0]
}

// passed returns those whose time has come, and lowers next to the time of the one that follows.
func (p *places) passed(now time.Time, limit int, next *time.Time) (ids []haulier.ID) {
	for _, e := range p.list {
		if len(ids) == limit || e.at.After(now) {
			if next.IsZero() || e.at.Before(*next) {
				*next = e.at
			}
			break
		}
		ids = append(ids, e.id)
	}
	return ids
}
