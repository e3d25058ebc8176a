package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/haulier/haulier"
)

// claimRequest is a claim on its way.
type claimRequest struct {
	session haulier.ID
	by      string
	takes   []haulier.Take
	lines   []line // of the takes
	jobs    []haulier.Job
	err     error
	done    chan struct{}
}

// Claim implements haulier.Store.
func (s *Store) Claim(ctx context.Context, session haulier.ID, by string, takes []haulier.Take) ([]haulier.Job, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	jobs, err := s.claim(ctx, session, by, takes)
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	return jobs, nil
}

func (s *Store) claim(ctx context.Context, session haulier.ID, by string, takes []haulier.Take) ([]haulier.Job, error) {
	r := &claimRequest{session: session, by: by, done: make(chan struct{})}
	for _, t := range takes {
		lane, ok, err := s.lanes.look(ctx, t.Lane)
		if err != nil {
			return nil, err
		}
		if ok && t.N > 0 {
			r.takes = append(r.takes, t)
			r.lines = append(r.lines, line{spotPending, lane, int16(-t.Priority)})
		}
	}
	select {
	case s.claims <- r:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case <-r.done:
		return r.jobs, r.err
	case <-ctx.Done():
		return nil, ctx.Err() // what it takes comes back when its session ends
	}
}

// groupTakes bounds a group of claims: how many jobs they ask for.
const groupTakes = 2000

// runClaims carries out what is asked, what has come meanwhile together, until the store closes.
func (s *Store) runClaims(slot int16) {
	for r := range s.claims {
		g := []*claimRequest{r}
		for n := r.wants(); n < groupTakes; {
			more := false
			select {
			case r, more = <-s.claims:
			default:
			}
			if !more {
				break
			}
			g = append(g, r)
			n += r.wants()
		}
		s.carryOutClaims(g, slot)
	}
}

func (r *claimRequest) wants() (n int) {
	for _, t := range r.takes {
		n += t.N
	}
	return n
}

func (s *Store) carryOutClaims(g []*claimRequest, slot int16) {
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	var err error
	for try := range maxTries {
		t := &claimTx{s: s, reqs: g, slot: slot}
		err = t.run(ctx)
		stale := err != nil && !t.sent && codeOf(err) == "" && !unreached(err) && try == 0
		if stale {
			s.pool.Reset()
		}
		if !stale && !passing(err) {
			break
		}
	}
	for _, r := range g {
		if r.err == nil && err != nil {
			r.jobs, r.err = nil, translateRead(err)
		}
		close(r.done)
	}
}

// Claims pass over rows that somebody has locked. The session's lease can't go away before the claim has ended. Only after it has
// locked what it takes does it look for the first of each band, which is its floor then.
const (
	holdLeases = `SELECT session FROM haulier.leases WHERE session = ANY($1::uuid[]) ORDER BY session FOR KEY SHARE`
	takeJobs   = `WITH t AS MATERIALIZED (SELECT id, at, status FROM haulier.status
			WHERE spot = 3 AND lane = $1 AND rank = $2 AND (at, id) >= ($3::timestamptz, $4::uuid) ORDER BY at, id LIMIT $5 FOR UPDATE SKIP LOCKED)
		SELECT t.id, j.spec, t.status FROM t JOIN haulier.jobs j ON j.id = t.id ORDER BY t.at, t.id`
	firstOfBand = `SELECT at, id FROM haulier.status
		WHERE spot = 3 AND lane = $1 AND rank = $2 AND (at, id) >= ($3::timestamptz, $4::uuid) ORDER BY at, id LIMIT 1`
)

// beginOfTime stands before all places.
var beginOfTime = pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}

// claimTx is one try at the transaction of a group of claims.
type claimTx struct {
	s    *Store
	reqs []*claimRequest
	slot int16
	conn *pgxpool.Conn
	sent bool

	lives  map[haulier.ID]bool
	bands  []*takenBand
	byLine map[line]*takenBand

	rows   statusRows
	marks  []mark
	told   []haulier.JobChange
	ids    []haulier.ID
	serial int64
}

// takenBand is what a group takes from one band.
type takenBand struct {
	line  line
	want  int
	jobs  []*haulier.Job
	look  *looker
	first place
}

func (t *claimTx) run(ctx context.Context) (err error) {
	if t.conn, err = t.s.pool.Acquire(ctx); err != nil {
		return err
	}
	defer t.conn.Release()
	fl := t.s.flights.begin(&flight{claim: true})
	defer t.s.flights.end(fl)
	if err := t.take(ctx); err != nil {
		return t.undo(ctx, err)
	}
	if err := t.distribute(); err != nil || len(t.ids) == 0 {
		return t.undo(ctx, err)
	}
	seq, err := t.write(ctx)
	switch {
	case err == nil:
		t.s.flights.turn(fl, seq, t.ids)
		t.s.watchers.tell(t.told)
		t.s.listener.announce(true)
		return nil
	case lost(err):
		t.s.listener.unsure(t.serial, t.told)
		return inDoubt(err)
	}
	return t.undo(ctx, err)
}

func (t *claimTx) undo(ctx context.Context, err error) error {
	if !t.conn.Conn().IsClosed() {
		_, _ = t.conn.Exec(ctx, `ROLLBACK`) // a connection on which it fails is closed, which comes to the same
	}
	return err
}

// take locks the sessions and the first jobs of the bands.
func (t *claimTx) take(ctx context.Context) error {
	var sessions []haulier.ID
	t.byLine = map[line]*takenBand{}
	for _, r := range t.reqs {
		sessions = append(sessions, r.session)
		for i, l := range r.lines {
			b := t.byLine[l]
			if b == nil {
				b = &takenBand{line: l, first: endOfTime}
				t.byLine[l] = b
				t.bands = append(t.bands, b)
			}
			b.want += r.takes[i].N
		}
	}
	var b pgx.Batch
	b.Queue(`BEGIN`)
	var crash pgtype.Timestamptz
	b.Queue(t.s.text(readCrash)).QueryRow(func(row pgx.Row) error { return row.Scan(&crash) })
	b.Queue(t.s.text(holdLeases), uuids(sessions)).Query(t.readLeases)
	for _, band := range t.bands {
		at, id := beginOfTime, pgtype.UUID{Valid: true}
		look, from, known := t.s.floors.look(band.line)
		if band.look = look; known {
			at, id = instant(from.at, true), pgtype.UUID{Bytes: from.id, Valid: true}
		}
		b.Queue(t.s.text(takeJobs), band.line.lane, band.line.rank, at, id, band.want).Query(band.readJobs)
		b.Queue(t.s.text(firstOfBand), band.line.lane, band.line.rank, at, id).Query(band.readFirst)
	}
	err := t.conn.SendBatch(ctx, &b).Close()
	if err == nil {
		err = t.s.crashed(crash)
	}
	for _, band := range t.bands {
		if err != nil {
			t.s.floors.abandon(band.look)
		} else {
			t.s.floors.end(band.look, band.first)
		}
	}
	return err
}

func (t *claimTx) readLeases(rows pgx.Rows) error {
	t.lives = map[haulier.ID]bool{}
	var id pgtype.UUID
	_, err := pgx.ForEachRow(rows, []any{&id}, func() error {
		t.lives[id.Bytes] = true
		return nil
	})
	return err
}

func (b *takenBand) readJobs(rows pgx.Rows) error {
	var id pgtype.UUID
	var spec, status []byte
	_, err := pgx.ForEachRow(rows, []any{&id, &spec, &status}, func() error {
		j, err := readJob(id.Bytes, spec, status)
		b.jobs = append(b.jobs, j)
		return err
	})
	return err
}

func (b *takenBand) readFirst(rows pgx.Rows) error {
	var at pgtype.Timestamptz
	var id pgtype.UUID
	_, err := pgx.ForEachRow(rows, []any{&at, &id}, func() error {
		b.first = place{at.Time, id.Bytes}
		return nil
	})
	return err
}

// distribute gives the jobs to the requests in their order, and decides how each goes on.
func (t *claimTx) distribute() error {
	now := t.s.clock.now()
	watched := t.s.watchers.some.Load()
	for _, r := range t.reqs {
		if r.jobs, r.err = nil, nil; !t.lives[r.session] {
			r.err = lostSession(r.session)
			continue
		}
		for i, l := range r.lines {
			b := t.byLine[l]
			n := min(r.takes[i].N, len(b.jobs))
			for _, j := range b.jobs[:n] {
				next, err := j.Next(haulier.Event{Kind: haulier.EventClaim, Session: r.session, By: r.by}, now)
				if err != nil {
					return fmt.Errorf("job %v in the index of pending jobs: %w: %v", j.ID, haulier.ErrCorrupt, err)
				}
				t.marks = append(t.marks, mark{id: j.ID, rev: next.Rev, before: j.State, after: next.State, lane: l.lane, rank: l.rank})
				t.ids = append(t.ids, j.ID)
				t.rows.add(j.ID, &next)
				j.Status = next
				r.jobs = append(r.jobs, *j)
				if watched {
					t.told = append(t.told, haulier.JobChange{Spec: &j.Spec, Before: haulier.Pending, Status: next})
				}
			}
			b.jobs = b.jobs[n:]
		}
	}
	return nil
}

func (t *claimTx) write(ctx context.Context) (seq int64, err error) {
	var b pgx.Batch
	chunks(t.rows.records, func(i, k int) {
		b.Queue(t.s.text(updateStatus), append(t.rows.args(i, k), t.s.server)...)
	})
	t.s.queueMarks(&b, t.marks, t.slot, &t.serial, &seq)
	b.Queue(`COMMIT`)
	t.sent = true
	return seq, finish(t.conn.SendBatch(ctx, &b), &b)
}
