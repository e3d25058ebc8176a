package postgres

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/wire"
)

// Spots: which index a job stands in. It is the number of the state, but for running jobs, which stand with the claimed ones.
const (
	spotWaiting = int16(haulier.Blocked)
	spotTimer   = int16(haulier.Scheduled)
	spotPending = int16(haulier.Pending)
	spotOwned   = int16(haulier.Claimed)
	spotDone    = int16(haulier.Succeeded) // and above
)

func spotOf(s haulier.State) int16 {
	if s.Owned() {
		return spotOwned
	}
	return int16(s)
}

// timeOf is the time by which the index of a job's state orders it.
func timeOf(s *haulier.Status) (at time.Time, ordered bool) {
	switch {
	case s.State == haulier.Pending || s.State == haulier.Scheduled:
		return s.RunAt, true
	case s.State.Terminal():
		return s.PurgeAt, true
	}
	return time.Time{}, false
}

// lineOf is the line that a job in a state stands in.
func lineOf(s haulier.State, lane int32, rank int16) (line, bool) {
	switch {
	case s == haulier.Pending:
		return line{spotPending, lane, rank}, true
	case s == haulier.Scheduled:
		return timerLine, true
	case s.Terminal():
		return purgeLine, true
	}
	return line{}, false
}

func uuid(id haulier.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: !id.IsNil()} }

func uuids(ids []haulier.ID) []pgtype.UUID {
	out := make([]pgtype.UUID, len(ids))
	for i, id := range ids {
		out[i] = pgtype.UUID{Bytes: id, Valid: true}
	}
	return out
}

func instant(t time.Time, valid bool) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: t, Valid: valid}
}

// words is text for people, as PostgreSQL takes it. What the program reads is in the record.
func words(s string) pgtype.Text {
	return pgtype.Text{String: strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "?"), Valid: s != ""}
}

// statusRows are statuses as arrays of columns.
type statusRows struct {
	ids      []pgtype.UUID
	revs     []int64
	states   []int16
	spots    []int16
	ats      []pgtype.Timestamptz
	sessions []pgtype.UUID
	attempts []int32
	workers  []pgtype.Text
	reasons  []pgtype.Text
	updated  []pgtype.Timestamptz
	records  [][]byte
}

func (r *statusRows) add(id haulier.ID, s *haulier.Status) {
	at, ordered := timeOf(s)
	owner := haulier.NilID
	if s.State.Owned() {
		owner = s.Session
	}
	r.ids = append(r.ids, pgtype.UUID{Bytes: id, Valid: true})
	r.revs = append(r.revs, int64(s.Rev))
	r.states = append(r.states, int16(s.State))
	r.spots = append(r.spots, spotOf(s.State))
	r.ats = append(r.ats, instant(at, ordered))
	r.sessions = append(r.sessions, uuid(owner))
	r.attempts = append(r.attempts, int32(s.Attempt))
	r.workers = append(r.workers, words(s.Worker))
	r.reasons = append(r.reasons, words(s.Reason))
	r.updated = append(r.updated, instant(s.UpdatedAt, !s.UpdatedAt.IsZero()))
	r.records = append(r.records, wire.AppendStatus(nil, s))
}

func (r *statusRows) join(o *statusRows) {
	r.ids = append(r.ids, o.ids...)
	r.revs = append(r.revs, o.revs...)
	r.states = append(r.states, o.states...)
	r.spots = append(r.spots, o.spots...)
	r.ats = append(r.ats, o.ats...)
	r.sessions = append(r.sessions, o.sessions...)
	r.attempts = append(r.attempts, o.attempts...)
	r.workers = append(r.workers, o.workers...)
	r.reasons = append(r.reasons, o.reasons...)
	r.updated = append(r.updated, o.updated...)
	r.records = append(r.records, o.records...)
}

// args are the columns of the rows from i to k, in the order of statusColumns.
func (r *statusRows) args(i, k int) []any {
	return []any{
		r.ids[i:k], r.revs[i:k], r.states[i:k], r.spots[i:k], r.ats[i:k], r.sessions[i:k], r.attempts[i:k],
		r.workers[i:k], r.reasons[i:k], r.updated[i:k], r.records[i:k],
	}
}

// statusColumns are what args are for: a table of the parameters $1 to $11, and the number of this server, $12.
const (
	statusColumns = `unnest($1::uuid[], $2::bigint[], $3::smallint[], $4::smallint[], $5::timestamptz[], $6::uuid[], $7::int[],
		$8::text[], $9::text[], $10::timestamptz[], $11::bytea[])
		AS n (id, rev, state, spot, at, session, attempt, worker, reason, updated_at, status)`
	updateStatus = `UPDATE haulier.status s SET rev = n.rev, state = n.state, spot = n.spot, at = n.at, session = n.session, server = $12,
		attempt = n.attempt, worker = n.worker, reason = n.reason, updated_at = n.updated_at, status = n.status FROM ` + statusColumns + ` WHERE s.id = n.id`
	insertStatus = `INSERT INTO haulier.status (id, rev, lane, rank, state, spot, at, session, server, attempt, worker, reason, updated_at, status)
		SELECT n.id, n.rev, n.lane, n.rank, n.state, n.spot, n.at, n.session, $12, n.attempt, n.worker, n.reason, n.updated_at, n.status
		FROM unnest($1::uuid[], $2::bigint[], $3::smallint[], $4::smallint[], $5::timestamptz[], $6::uuid[], $7::int[],
		$8::text[], $9::text[], $10::timestamptz[], $11::bytea[], $13::int[], $14::smallint[])
		AS n (id, rev, state, spot, at, session, attempt, worker, reason, updated_at, status, lane, rank)`
	insertJobs = `INSERT INTO haulier.jobs (id, lane, created_at, spec) SELECT * FROM unnest($1::uuid[], $2::int[], $3::timestamptz[], $4::bytea[])`
)

// Bounds of one statement.
const (
	chunkRows  = 2000
	chunkBytes = 8 << 20
)

// chunks cuts records into parts that go into one statement each.
func chunks(records [][]byte, f func(i, k int)) {
	first, size := 0, 0
	for i, r := range records {
		if i > first && (i-first == chunkRows || size+len(r) > chunkBytes) {
			f(first, i)
			first, size = i, 0
		}
		size += len(r)
	}
	if first < len(records) {
		f(first, len(records))
	}
}

// readJob makes a job of its two records, which it keeps.
func readJob(id haulier.ID, spec, status []byte) (*haulier.Job, error) {
	var j haulier.Job
	var err error
	if j.Spec, err = wire.ParseSpec(spec); err == nil {
		err = wire.ReadStatus(status, &j.Status)
	}
	if err != nil {
		return nil, fmt.Errorf("job %v: %w", id, err)
	}
	return &j, nil
}

// mark is a change of a job as the servers tell each other of it: small, and enough to find the rest. The zero mark is of a batch with Tell.
type mark struct {
	id            haulier.ID
	rev           uint64 // that it has now; of a removed job, that it had
	before, after haulier.State
	lane          int32
	rank          int16
	at            time.Time // of an after that has one
}

// A mark in a row of changes:
//
//	id 16 | rev 8 | before 1 | after 1 | lane 4 | rank 2 | at 8 (microseconds since 1970)
const markSize = 40

func (m *mark) append(b []byte) []byte {
	b = append(b, m.id[:]...)
	b = binary.BigEndian.AppendUint64(b, m.rev)
	b = append(b, byte(m.before), byte(m.after))
	b = binary.BigEndian.AppendUint32(b, uint32(m.lane))
	b = binary.BigEndian.AppendUint16(b, uint16(m.rank))
	return binary.BigEndian.AppendUint64(b, uint64(m.at.UnixMicro()))
}

func appendMarks(b []byte, marks []mark) []byte {
	for i := range marks {
		b = marks[i].append(b)
	}
	return b
}

func parseMarks(b []byte) (marks []mark, err error) {
	if len(b)%markSize != 0 {
		return nil, fmt.Errorf("row of changes: %w: it has %d bytes", haulier.ErrCorrupt, len(b))
	}
	for ; len(b) > 0; b = b[markSize:] {
		marks = append(marks, mark{
			id: haulier.ID(b[:16]), rev: binary.BigEndian.Uint64(b[16:]), before: haulier.State(b[24]), after: haulier.State(b[25]),
			lane: int32(binary.BigEndian.Uint32(b[26:])), rank: int16(binary.BigEndian.Uint16(b[30:])),
			at: time.UnixMicro(int64(binary.BigEndian.Uint64(b[32:]))).UTC(),
		})
	}
	return marks, nil
}

// enter lowers the floors of the lines that jobs have come to.
func (f *floors) enter(marks []mark) {
	for i := range marks {
		m := &marks[i]
		if l, ok := lineOf(m.after, m.lane, m.rank); ok {
			f.entered(l, place{m.at, m.id})
		}
	}
}
