package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/haulier/haulier"
)

// A count is kept in several rows, one a slot, and is their sum. Each stream of transactions writes to a slot of its own, so that a row
// which every transaction changes is no line in which all of them wait. A row may be negative.

// tally is what a count counts.
type tally struct {
	state haulier.State
	lane  int32
	rank  int16
}

// countRows are changes of counts as arrays of columns.
type countRows struct {
	states []int16
	lanes  []int32
	ranks  []int16
	n      []int64
}

// countsOf adds up what changes mean for the counts, in the order in which all transactions write them.
func countsOf(marks []mark) (r countRows) {
	sums := map[tally]int64{}
	for i := range marks {
		m := &marks[i]
		if m.before == m.after {
			continue
		}
		if m.before != 0 {
			sums[tally{m.before, m.lane, m.rank}]--
		}
		if m.after != 0 {
			sums[tally{m.after, m.lane, m.rank}]++
		}
	}
	order := make([]tally, 0, len(sums))
	for t, n := range sums {
		if n != 0 {
			order = append(order, t)
		}
	}
	slices.SortFunc(order, func(a, b tally) int {
		return cmp.Or(cmp.Compare(a.state, b.state), cmp.Compare(a.lane, b.lane), cmp.Compare(a.rank, b.rank))
	})
	for _, t := range order {
		r.states, r.lanes, r.ranks = append(r.states, int16(t.state)), append(r.lanes, t.lane), append(r.ranks, t.rank)
		r.n = append(r.n, sums[t])
	}
	return r
}

// Counts implements haulier.Store.
func (s *Store) Counts(ctx context.Context) ([]haulier.Count, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	type row struct {
		state int16
		lane  int32
		n     int64
	}
	rows, err := s.pool.Query(ctx, s.text(`SELECT state, lane, sum(n)::bigint FROM haulier.counts GROUP BY state, lane HAVING sum(n) <> 0`))
	if err != nil {
		return nil, fmt.Errorf("counts: %w", translate(err))
	}
	found, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (c row, err error) {
		err = r.Scan(&c.state, &c.lane, &c.n)
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("counts: %w", translate(err))
	}
	counts := make([]haulier.Count, 0, len(found))
	for _, c := range found {
		lane, err := s.lanes.name(ctx, c.lane)
		if err != nil {
			return nil, fmt.Errorf("counts: %w", err)
		}
		counts = append(counts, haulier.Count{Lane: lane, State: haulier.State(c.state), N: c.n})
	}
	return counts, nil
}

// The first job of a band is looked for from its floor on; when there is none, or no floor, from the begin.
const readBands = `SELECT b.lane, b.rank, b.n, h.at, h.id
	FROM (SELECT lane, rank, sum(n)::bigint AS n FROM haulier.counts WHERE state = 3 GROUP BY lane, rank HAVING sum(n) > 0) b
	LEFT JOIN unnest($1::int[], $2::smallint[], $3::timestamptz[], $4::uuid[]) f (lane, rank, at, id) ON f.lane = b.lane AND f.rank = b.rank
	LEFT JOIN LATERAL (
		(SELECT s.at, s.id FROM haulier.status s WHERE s.spot = 3 AND s.lane = b.lane AND s.rank = b.rank AND (s.at, s.id) >= (f.at, f.id)
			ORDER BY s.at, s.id LIMIT 1)
		UNION ALL
		(SELECT s.at, s.id FROM haulier.status s WHERE s.spot = 3 AND s.lane = b.lane AND s.rank = b.rank ORDER BY s.at, s.id LIMIT 1)
		LIMIT 1
	) h ON true`

// Bands implements haulier.Store.
func (s *Store) Bands(ctx context.Context) ([]haulier.BandHead, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	heads, err := s.bands(ctx)
	if err != nil {
		return nil, fmt.Errorf("bands: %w", err)
	}
	return heads, nil
}

func (s *Store) bands(ctx context.Context) ([]haulier.BandHead, error) {
	var lanes []int32
	var ranks []int16
	var ats []pgtype.Timestamptz
	var ids []pgtype.UUID
	looks := map[line]*looker{}
	for _, l := range s.floors.bands() {
		k, from, known := s.floors.look(l)
		looks[l] = k
		if known {
			lanes, ranks = append(lanes, l.lane), append(ranks, l.rank)
			ats, ids = append(ats, instant(from.at, true)), append(ids, pgtype.UUID{Bytes: from.id, Valid: true})
		}
	}
	defer func() {
		for _, k := range looks {
			s.floors.abandon(k) // those that saw something have ended
		}
	}()
	rows, err := s.pool.Query(ctx, s.text(readBands), lanes, ranks, ats, ids)
	if err != nil {
		return nil, translate(err)
	}
	type row struct {
		haulier.BandHead
		line line
		at   pgtype.Timestamptz
		id   pgtype.UUID
	}
	found, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (b row, err error) {
		b.line.spot = spotPending
		err = r.Scan(&b.line.lane, &b.line.rank, &b.N, &b.at, &b.id)
		return b, err
	})
	if err != nil {
		return nil, translate(err)
	}
	heads := make([]haulier.BandHead, 0, len(found))
	for _, b := range found {
		lane, err := s.lanes.name(ctx, b.line.lane)
		if err != nil {
			return nil, err
		}
		// Without a head, all that waits was taken between the two parts of the statement's work; any bound will do.
		since := time.Time{}
		if b.at.Valid {
			since = b.at.Time.UTC()
			if k := looks[b.line]; k != nil {
				s.floors.end(k, place{b.at.Time, b.id.Bytes})
			}
		}
		heads = append(heads, haulier.BandHead{Band: haulier.Band{Lane: lane, Priority: -int(b.line.rank)}, N: b.N, Since: since})
	}
	return heads, nil
}

// foldCounts brings the rows of counts together, since those of servers that have gone stay. It is no harm when it fails.
func (s *Store) foldCounts(ctx context.Context) {
	const fold = `WITH gone AS (DELETE FROM haulier.counts RETURNING state, lane, rank, n)
		INSERT INTO haulier.counts AS c (state, lane, rank, slot, n)
		SELECT state, lane, rank, 0, sum(n) FROM gone GROUP BY state, lane, rank HAVING sum(n) <> 0 ORDER BY state, lane, rank
		ON CONFLICT (state, lane, rank, slot) DO UPDATE SET n = c.n + excluded.n`
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var many bool
		if err := tx.QueryRow(ctx, s.text(`SELECT count(*) > 1000 FROM (SELECT FROM haulier.counts LIMIT 1001) c`)).Scan(&many); err != nil || !many {
			return err
		}
		// Others wait while the table is locked, which takes some milliseconds.
		if _, err := tx.Exec(ctx, s.text(`LOCK TABLE haulier.counts IN SHARE ROW EXCLUSIVE MODE`)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, s.text(fold))
		return err
	})
	if err != nil {
		s.log.Warn("numbers of jobs are not folded", "err", err)
	}
}
