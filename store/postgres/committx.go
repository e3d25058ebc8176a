package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/wire"
)

const syncCommit = `SET LOCAL synchronous_commit = on`

// Rows are locked in one order by all transactions, so that none waits for another in a circle: jobs by id, documents by key,
// leases, then what nobody waits for (new jobs; pending jobs, of which a claim passes over those that are locked), counts last.
const (
	lockJobs = `SELECT id, rev, state, lane, rank FROM haulier.status WHERE id = ANY($1::uuid[]) ORDER BY id FOR UPDATE`
	lockDocs = `SELECT d.kind, d.key, d.rev FROM unnest($1::text[], $2::text[]) n (kind, key) JOIN haulier.docs d ON d.kind = n.kind AND d.key = n.key
		ORDER BY d.kind, d.key FOR UPDATE OF d`
	knownJobs = `SELECT id FROM haulier.jobs WHERE id = ANY($1::uuid[])`
	readSpecs = `SELECT id, spec FROM haulier.jobs WHERE id = ANY($1::uuid[])`

	deleteJobs   = `DELETE FROM haulier.jobs WHERE id = ANY($1::uuid[])`
	deleteStatus = `DELETE FROM haulier.status WHERE id = ANY($1::uuid[])`
	insertDocs   = `INSERT INTO haulier.docs (kind, key, rev, value) SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bytea[])`
	updateDocs   = `UPDATE haulier.docs d SET rev = n.rev, value = n.value FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bytea[]) n (kind, key, rev, value)
		WHERE d.kind = n.kind AND d.key = n.key`
	deleteDocs = `DELETE FROM haulier.docs d USING unnest($1::text[], $2::text[]) n (kind, key) WHERE d.kind = n.kind AND d.key = n.key`
	setLeases  = `INSERT INTO haulier.leases (session, expires_at) SELECT * FROM unnest($1::uuid[], $2::timestamptz[])
		ON CONFLICT (session) DO UPDATE SET expires_at = excluded.expires_at`
	deleteLeases = `DELETE FROM haulier.leases WHERE session = ANY($1::uuid[])`
	addCounts    = `INSERT INTO haulier.counts AS c (state, lane, rank, slot, n) SELECT n.state, n.lane, n.rank, $5, n.n
		FROM unnest($1::smallint[], $2::int[], $3::smallint[], $4::bigint[]) n (state, lane, rank, n)
		ON CONFLICT (state, lane, rank, slot) DO UPDATE SET n = c.n + excluded.n`
	addChanges = `INSERT INTO haulier.changes (server, serial, body) VALUES ($1, $2, $3) RETURNING seq`
)

// found is a job as it was when its row was locked.
type found struct {
	rev   uint64
	state haulier.State
	lane  int32
	rank  int16
}

// commitTx is one try at the transaction of a group.
type commitTx struct {
	g        *group
	s        *Store
	conn     *pgxpool.Conn
	checkAll bool // also of inserts whose ids are vouched for
	begun    bool
	sent     bool // the commit, of which the answer may be lost
	serial   int64

	jobs  map[haulier.ID]found
	ids   map[haulier.ID]bool
	docs  map[docKey]uint64
	specs map[haulier.ID]*haulier.Spec

	alive []*commitRequest
	marks []mark
	told  []haulier.JobChange
}

// run carries the group out, but for the requests that conflict, which get their error. What it returns is of all others.
func (t *commitTx) run(ctx context.Context) (err error) {
	if t.conn, err = t.s.pool.Acquire(ctx); err != nil {
		return err
	}
	defer t.conn.Release()
	if err := t.lock(ctx); err != nil {
		return t.undo(ctx, err)
	}
	for _, r := range t.g.reqs {
		if r.err = t.judge(r); r.err == nil {
			t.alive = append(t.alive, r)
		}
	}
	if len(t.alive) == 0 {
		return t.undo(ctx, nil)
	}
	t.collect()
	fl := t.s.flights.begin(t.flight())
	defer t.s.flights.end(fl)
	seq, err := t.write(ctx)
	switch {
	case err == nil:
		t.s.floors.enter(t.marks)
		t.s.flights.turn(fl, seq, fl.ids)
		t.s.watchers.tell(t.told)
		t.s.listener.announce(len(t.marks) > 0)
		return nil
	case lost(err):
		t.s.floors.enter(t.marks)
		t.s.listener.unsure(t.serial, t.told)
		return inDoubt(err)
	}
	return t.undo(ctx, err)
}

// lost says that an error leaves open whether a transaction was carried out.
func lost(err error) bool {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Severity == "FATAL" || e.Severity == "PANIC"
	}
	return !pgconn.SafeToRetry(err)
}

// undo ends the transaction without a trace.
func (t *commitTx) undo(ctx context.Context, err error) error {
	if t.begun && !t.conn.Conn().IsClosed() {
		_, _ = t.conn.Exec(ctx, `ROLLBACK`) // a connection on which it fails is closed, which comes to the same
	}
	return err
}

// lock locks the rows of which something is expected, and reads that.
func (t *commitTx) lock(ctx context.Context) error {
	t.jobs, t.ids, t.docs = map[haulier.ID]found{}, map[haulier.ID]bool{}, map[docKey]uint64{}
	var b pgx.Batch
	var inserts, changes, removed []haulier.ID
	var kinds, keys []string
	for _, r := range t.g.reqs {
		if r.checkIDs || t.checkAll {
			inserts = append(inserts, r.insertID...)
		}
		for i := range r.changes {
			changes = append(changes, r.changes[i].id)
		}
		if r.watched {
			removed = append(removed, r.removed...)
		}
		for i := range r.docs {
			kinds, keys = append(kinds, r.docs[i].kind), append(keys, r.docs[i].key)
		}
	}
	b.Queue(`BEGIN`)
	if len(changes) > 0 {
		b.Queue(t.s.text(lockJobs), uuids(changes)).Query(t.readJobs)
	}
	if len(keys) > 0 {
		b.Queue(t.s.text(lockDocs), kinds, keys).Query(t.readDocs)
	}
	if len(inserts) > 0 {
		b.Queue(t.s.text(knownJobs), uuids(inserts)).Query(t.readIDs)
	}
	if len(removed) > 0 {
		b.Queue(t.s.text(readSpecs), uuids(removed)).Query(t.readSpecs)
	}
	if b.Len() == 1 {
		return nil // nothing is expected: it begins with the writes
	}
	t.begun = true
	return t.conn.SendBatch(ctx, &b).Close()
}

func (t *commitTx) readJobs(rows pgx.Rows) error {
	var id pgtype.UUID
	var rev int64
	var state, rank int16
	var lane int32
	_, err := pgx.ForEachRow(rows, []any{&id, &rev, &state, &lane, &rank}, func() error {
		t.jobs[id.Bytes] = found{uint64(rev), haulier.State(state), lane, rank}
		return nil
	})
	return err
}

func (t *commitTx) readDocs(rows pgx.Rows) error {
	var k docKey
	var rev int64
	_, err := pgx.ForEachRow(rows, []any{&k.kind, &k.key, &rev}, func() error {
		t.docs[k] = uint64(rev)
		return nil
	})
	return err
}

func (t *commitTx) readIDs(rows pgx.Rows) error {
	var id pgtype.UUID
	_, err := pgx.ForEachRow(rows, []any{&id}, func() error {
		t.ids[id.Bytes] = true
		return nil
	})
	return err
}

func (t *commitTx) readSpecs(rows pgx.Rows) error {
	t.specs = map[haulier.ID]*haulier.Spec{}
	var id pgtype.UUID
	var record []byte
	_, err := pgx.ForEachRow(rows, []any{&id, &record}, func() error {
		spec, err := wire.ParseSpec(record)
		t.specs[id.Bytes] = &spec
		return err
	})
	return err
}

// judge says whether what a request expects holds.
func (t *commitTx) judge(r *commitRequest) error {
	for _, id := range r.insertID {
		if t.ids[id] {
			return fmt.Errorf("job %v: %w: it exists", id, haulier.ErrConflict)
		}
	}
	for i := range r.changes {
		c := &r.changes[i]
		if f, ok := t.jobs[c.id]; !ok || f.rev != c.expect {
			return fmt.Errorf("job %v: %w: it is not at revision %d", c.id, haulier.ErrConflict, c.expect)
		}
	}
	for i := range r.docs {
		d := &r.docs[i]
		if d.expect != haulier.AnyRev && t.docs[d.docKey] != d.expect {
			return fmt.Errorf("document %s %s: %w: it is not at revision %d", d.kind, d.key, haulier.ErrConflict, d.expect)
		}
	}
	return nil
}

// collect notes what the requests change.
func (t *commitTx) collect() {
	for _, r := range t.alive {
		for i, id := range r.insertID {
			s := haulier.State(r.inserts.states[i])
			t.marks = append(t.marks, mark{id: id, rev: uint64(r.inserts.revs[i]), after: s, lane: r.lanes[i], rank: r.ranks[i], at: r.inserts.ats[i].Time})
		}
		for i := range r.changes {
			c := &r.changes[i]
			f := t.jobs[c.id]
			t.marks = append(t.marks, mark{id: c.id, rev: c.rev, before: f.state, after: c.after, lane: f.lane, rank: f.rank, at: c.at})
			if k := len(r.insertID) + i; k < len(r.told) {
				r.told[k].Before = f.state
			} else if r.watched && t.specs[c.id] != nil {
				r.told = append(r.told, haulier.JobChange{Spec: t.specs[c.id], Before: f.state})
			}
		}
		t.told = append(t.told, r.told...)
		if r.tell {
			t.marks = append(t.marks, mark{})
			t.told = append(t.told, haulier.JobChange{})
		}
	}
}

func (t *commitTx) flight() *flight {
	fl := &flight{fresh: true}
	for i := range t.marks {
		fl.ids = append(fl.ids, t.marks[i].id)
		fl.fresh = fl.fresh && t.marks[i].before == 0
	}
	return fl
}

// write makes all writes and commits. seq is the number of what changed, zero when no job did.
func (t *commitTx) write(ctx context.Context) (seq int64, err error) {
	var b pgx.Batch
	if !t.begun {
		b.Queue(`BEGIN`)
	}
	t.begun = true
	if slices.ContainsFunc(t.alive, func(r *commitRequest) bool { return r.sync }) {
		b.Queue(syncCommit)
	}
	t.writeDocs(&b)
	t.writeJobs(&b)
	t.s.queueMarks(&b, t.marks, t.g.slot, &t.serial, &seq)
	b.Queue(`COMMIT`)
	t.sent = true
	return seq, finish(t.conn.SendBatch(ctx, &b), &b)
}

// finish reads the answers of a batch that ends in a commit. After the commit was confirmed nothing counts any more.
func finish(results pgx.BatchResults, b *pgx.Batch) error {
	for _, q := range b.QueuedQueries {
		var err error
		if q.Fn != nil {
			err = q.Fn(results)
		} else {
			_, err = results.Exec()
		}
		if err != nil {
			_ = results.Close() // its error is the same
			return err
		}
	}
	_ = results.Close()
	return nil
}

// queueMarks adds the statements that every change of jobs ends with: its counts, and its row for the other servers.
func (s *Store) queueMarks(b *pgx.Batch, marks []mark, slot int16, serial, seq *int64) {
	if len(marks) == 0 {
		return
	}
	c := countsOf(marks)
	if len(c.n) > 0 {
		b.Queue(s.text(addCounts), c.states, c.lanes, c.ranks, c.n, slot)
	}
	*serial = s.serial.Add(1)
	b.Queue(s.text(addChanges), s.server, *serial, appendMarks(make([]byte, 0, len(marks)*markSize), marks)).QueryRow(func(row pgx.Row) error {
		return row.Scan(seq)
	})
}

func (t *commitTx) writeJobs(b *pgx.Batch) {
	var inserts, updates statusRows
	var lanes []int32
	var ranks []int16
	var created []pgtype.Timestamptz
	var specs [][]byte
	var removed []haulier.ID
	for _, r := range t.alive {
		if len(t.alive) == 1 {
			inserts, updates, lanes, ranks, created, specs, removed = r.inserts, r.updates, r.lanes, r.ranks, r.created, r.specs, r.removed
			break
		}
		inserts.join(&r.inserts)
		updates.join(&r.updates)
		lanes, ranks = append(lanes, r.lanes...), append(ranks, r.ranks...)
		created, specs = append(created, r.created...), append(specs, r.specs...)
		removed = append(removed, r.removed...)
	}
	chunks(specs, func(i, k int) {
		b.Queue(t.s.text(insertJobs), inserts.ids[i:k], lanes[i:k], created[i:k], specs[i:k])
	})
	chunks(inserts.records, func(i, k int) {
		b.Queue(t.s.text(insertStatus), append(inserts.args(i, k), t.s.server, lanes[i:k], ranks[i:k])...)
	})
	chunks(updates.records, func(i, k int) {
		b.Queue(t.s.text(updateStatus), append(updates.args(i, k), t.s.server)...)
	})
	if len(removed) > 0 {
		ids := uuids(removed)
		b.Queue(t.s.text(deleteStatus), ids)
		b.Queue(t.s.text(deleteJobs), ids)
	}
}

// docRows are documents as arrays of columns.
type docRows struct {
	kinds, keys []string
	revs        []int64
	values      [][]byte
}

func (r *docRows) add(d *docWrite, rev uint64) {
	r.kinds, r.keys = append(r.kinds, d.kind), append(r.keys, d.key)
	r.revs, r.values = append(r.revs, int64(rev)), append(r.values, d.value)
}

func (r *docRows) queue(b *pgx.Batch, statement string) {
	chunks(r.values, func(i, k int) { b.Queue(statement, r.kinds[i:k], r.keys[i:k], r.revs[i:k], r.values[i:k]) })
}

func (t *commitTx) writeDocs(b *pgx.Batch) {
	var docs []*docWrite
	for _, r := range t.alive {
		for i := range r.docs {
			docs = append(docs, &r.docs[i])
		}
	}
	if len(docs) == 0 {
		return
	}
	slices.SortFunc(docs, func(a, b *docWrite) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.key, b.key)) })
	var inserts, updates, removals docRows
	var ended, begun []pgtype.UUID
	var until []pgtype.Timestamptz
	now := t.s.clock.now()
	for _, d := range docs {
		rev, there := t.docs[d.docKey]
		session := d.kind == string(haulier.DocSession)
		switch {
		case d.remove && there:
			removals.add(d, 0)
			if session {
				ended = append(ended, uuid(d.id))
			}
			continue
		case d.remove:
			// Who makes it at the same time must wait, or the other way round: for each other, neither transaction has been.
			inserts.add(&docWrite{docKey: d.docKey, value: []byte{}}, 0)
			removals.add(d, 0)
			continue
		case there:
			updates.add(d, rev+1)
		default:
			inserts.add(d, 1)
		}
		if session {
			begun, until = append(begun, uuid(d.id)), append(until, instant(now.Add(d.lease), true))
		}
	}
	inserts.queue(b, t.s.text(insertDocs))
	updates.queue(b, t.s.text(updateDocs))
	if len(removals.keys) > 0 {
		b.Queue(t.s.text(deleteDocs), removals.kinds, removals.keys)
	}
	if len(ended) > 0 {
		b.Queue(t.s.text(deleteLeases), ended)
	}
	if len(begun) > 0 {
		b.Queue(t.s.text(setLeases), begun, until)
	}
}
