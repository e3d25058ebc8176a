package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/wire"
)

// strays is the first of the slots for counts of transactions that are not a store's. Each has one of its own, so that none waits for
// another; servers that see one bring it into foldedSlot.
const (
	strays     = 1000
	foldedSlot = slots
)

const (
	addLane = `INSERT INTO haulier.lanes (tenant, queue, type, kind, runs_on) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (tenant, queue, type, kind, runs_on) DO NOTHING`
	getLane = `SELECT id FROM haulier.lanes WHERE tenant = $1 AND queue = $2 AND type = $3 AND kind = $4 AND runs_on = $5`
	ownSlot = `SELECT (1000 + pg_current_xact_id()::text::bigint % 31000)::smallint`
)

// InsertTx adds jobs in a transaction of the program's own: they are there when it commits, together with whatever else it did, or not at all.
// It is for a database that also is the store; schema is that of the store ("": haulier), whose tables must be there. Servers hear of
// the jobs at the commit.
//
// The jobs are plain ones, pending or scheduled, with new ids: those that engine.PlainJobs makes.
func InsertTx(ctx context.Context, tx pgx.Tx, schema string, jobs []haulier.Job) error {
	if err := insertTx(ctx, tx, schema, jobs); err != nil {
		return fmt.Errorf("insert jobs in a transaction: %w", err)
	}
	return nil
}

func insertTx(ctx context.Context, tx pgx.Tx, schema string, jobs []haulier.Job) error {
	schema, err := schemaName(schema)
	if err != nil || len(jobs) == 0 {
		return err
	}
	lanes, err := lanesTx(ctx, tx, schema, jobs)
	if err != nil {
		return err
	}
	var slot int16
	if err := tx.QueryRow(ctx, ownSlot).Scan(&slot); err != nil {
		return translate(err)
	}
	c := &commitTx{g: &group{slot: slot}, s: &Store{schema: schema}}
	c.alive = []*commitRequest{{}}
	r := c.alive[0]
	for i := range jobs {
		j := &jobs[i]
		if j.State != haulier.Pending && j.State != haulier.Scheduled {
			return fmt.Errorf("job %v: %w: it is %v, and would have to be pending or scheduled", j.ID, haulier.ErrInvalid, j.State)
		}
		r.insert(j, lanes[j.Lane()])
	}
	c.collect()
	var b pgx.Batch
	var seq int64
	c.writeJobs(&b)
	c.s.queueMarks(&b, c.marks, slot, &c.serial, &seq)
	b.Queue(`SELECT pg_notify($1, '0')`, schema+channelEnd)
	return translate(tx.SendBatch(ctx, &b).Close())
}

// lanesTx returns the numbers of the jobs' lanes. Whoever else needs a lane that is new waits until the transaction has ended.
func lanesTx(ctx context.Context, tx pgx.Tx, schema string, jobs []haulier.Job) (map[haulier.Lane]int32, error) {
	numbers := map[haulier.Lane]int32{}
	var names []haulier.Lane
	for i := range jobs {
		if l := jobs[i].Lane(); !slices.Contains(names, l) {
			names = append(names, l)
		}
	}
	slices.SortFunc(names, haulier.Lane.Compare)
	for _, l := range names {
		args := []any{l.Tenant, l.Queue, l.Type, string(l.Kind), l.RunsOn}
		var id int32
		err := tx.QueryRow(ctx, inSchema(getLane, schema), args...).Scan(&id)
		if err == pgx.ErrNoRows { //nolint:errorlint // Scan returns it as it is
			if _, err = tx.Exec(ctx, inSchema(addLane, schema), args...); err == nil {
				err = tx.QueryRow(ctx, inSchema(getLane, schema), args...).Scan(&id)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("lane %v: %w", l, translate(err))
		}
		numbers[l] = id
	}
	return numbers, nil
}

// insert encodes a new job.
func (r *commitRequest) insert(j *haulier.Job, lane int32) {
	r.inserts.add(j.ID, &j.Status)
	r.insertID = append(r.insertID, j.ID)
	r.lanes = append(r.lanes, lane)
	r.ranks = append(r.ranks, int16(-j.Priority))
	r.created = append(r.created, instant(j.CreatedAt, !j.CreatedAt.IsZero()))
	spec := wire.AppendSpec(nil, &j.Spec)
	r.specs = append(r.specs, spec)
	r.weight += len(spec)
}

// foldStrays brings the counts of transactions that were not a store's together. It is no harm when it fails.
func (s *Store) foldStrays(ctx context.Context) {
	const fold = `WITH gone AS (DELETE FROM haulier.counts WHERE (state, lane, rank, slot) IN
			(SELECT state, lane, rank, slot FROM haulier.counts WHERE slot >= $1 LIMIT 10000 FOR UPDATE SKIP LOCKED)
			RETURNING state, lane, rank, n)
		INSERT INTO haulier.counts AS c (state, lane, rank, slot, n)
		SELECT state, lane, rank, $2, sum(n) FROM gone GROUP BY state, lane, rank ORDER BY state, lane, rank
		ON CONFLICT (state, lane, rank, slot) DO UPDATE SET n = c.n + excluded.n`
	if _, err := s.pool.Exec(ctx, s.text(fold), strays, foldedSlot); err != nil {
		s.log.Warn("numbers of jobs are not folded", "err", err)
	}
}
