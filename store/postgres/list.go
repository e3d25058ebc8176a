package postgres

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/haulier/haulier"
)

// List implements haulier.Store.
func (s *Store) List(ctx context.Context, q haulier.Query) (haulier.Page, error) {
	if err := s.enter(); err != nil {
		return haulier.Page{}, err
	}
	defer s.leave()
	page, err := s.list(ctx, &q)
	if err != nil {
		return haulier.Page{}, fmt.Errorf("list: %w", err)
	}
	return page, nil
}

// stretch is a range of an index through which a listing goes.
type stretch struct {
	lane   int32    // 0: of all lanes
	within string   // condition of the index
	args   []any    // of the condition, from $1 on
	order  []string // columns
	down   bool
	only   string // condition of what is shown of it; "": all
}

// entry is a row of an index, and the job of it unless it is not shown.
type entry struct {
	spot         spot
	shown        bool
	spec, status []byte
}

// spot is where an entry stands, in whatever index.
type spot struct {
	lane    int32
	rank    int16
	at      time.Time
	session haulier.ID
	id      haulier.ID
}

func (s *Store) list(ctx context.Context, q *haulier.Query) (page haulier.Page, err error) {
	stretches, err := s.stretches(ctx, q)
	if err != nil {
		return page, err
	}
	var from *spot
	if q.Cursor != "" {
		lane, at, err := parseCursor(q.Cursor)
		if err != nil {
			return page, err
		}
		i := slices.IndexFunc(stretches, func(st stretch) bool { return st.lane == lane })
		if i < 0 {
			return page, fmt.Errorf("%w: the cursor belongs to another listing; begin again without one", haulier.ErrInvalid)
		}
		stretches, from = stretches[i:], at
	}
	limit := min(max(q.Limit, 1), 1000)
	left := q.Max
	if left <= 0 {
		left = 10 * limit
	}
	for i, st := range stretches {
		for {
			want := min(left, limit-len(page.Jobs))
			if st.only != "" {
				want = min(left, max(want, 100)) // some are passed over
			}
			entries, err := s.readEntries(ctx, &st, from, want+1)
			if err != nil {
				return page, err
			}
			more := len(entries) > want
			for k := range entries[:min(want, len(entries))] {
				e := &entries[k]
				from = &e.spot
				left--
				if e.shown {
					j, err := readJob(e.spot.id, e.spec, e.status)
					if err != nil {
						return page, err
					}
					page.Jobs = append(page.Jobs, j)
				}
				if len(page.Jobs) == limit && k+1 < len(entries) {
					page.Next = cursorAt(st.lane, from)
					return page, nil
				}
			}
			if !more {
				break
			}
			if left == 0 || len(page.Jobs) == limit {
				page.Next = cursorAt(st.lane, from)
				return page, nil
			}
		}
		from = nil
		if i+1 < len(stretches) && (left <= 0 || len(page.Jobs) == limit) {
			page.Next = cursorAt(stretches[i+1].lane, nil)
			return page, nil
		}
	}
	return page, nil
}

// stretches are what the query goes through, in its order.
func (s *Store) stretches(ctx context.Context, q *haulier.Query) ([]stretch, error) {
	switch {
	case !q.Session.IsNil():
		return []stretch{{within: `spot = 4 AND session = $1`, args: []any{uuid(q.Session)}, order: []string{"id"}}}, nil
	case q.State == 0 && q.Tenant == "":
		return []stretch{{within: `true`, order: []string{"id"}, down: true}}, nil
	case q.State == 0:
		lanes, err := s.lanes.of(ctx, q.Tenant)
		if err != nil || len(lanes) == 0 {
			return nil, err
		}
		return []stretch{{within: `true`, args: []any{lanes}, order: []string{"id"}, down: true, only: `lane = ANY($1::int[])`}}, nil
	}
	if len(q.Lanes) == 0 {
		return []stretch{stateStretch(q.State, 0)}, nil
	}
	var out []stretch
	for i, name := range q.Lanes {
		lane, ok, err := s.lanes.look(ctx, name)
		if err != nil {
			return nil, err
		}
		if ok && !slices.Contains(q.Lanes[:i], name) {
			out = append(out, stateStretch(q.State, lane))
		}
	}
	return out, nil
}

// stateStretch is the index of a state, of one lane or of all.
func stateStretch(state haulier.State, lane int32) stretch {
	st := stretch{lane: lane, args: []any{lane}, only: `lane = $1`}
	switch {
	case state == haulier.Blocked:
		st.within, st.order = `spot = 1`, []string{"id"}
	case state == haulier.Scheduled:
		st.within, st.order = `spot = 2`, []string{"at", "id"}
	case state.Owned():
		st.within, st.order = `spot = 4`, []string{"session", "id"}
		st.only = fmt.Sprintf(`state = %d`, state)
		if lane != 0 {
			st.only += ` AND lane = $1`
		} else {
			st.args = nil
		}
		return st
	case state == haulier.Pending:
		st.within, st.order, st.only = `spot = 3 AND lane = $1`, []string{"rank", "at", "id"}, ""
		if lane == 0 {
			st.within, st.order = `spot = 3`, []string{"lane", "rank", "at", "id"}
		}
	default:
		st.within, st.order, st.only = fmt.Sprintf(`spot >= 6 AND spot = %d AND lane = $1`, state), []string{"at", "id"}, ""
		if lane == 0 {
			st.within, st.order = fmt.Sprintf(`spot >= 6 AND spot = %d`, state), []string{"lane", "at", "id"}
		}
		st.down = true
	}
	if lane == 0 {
		st.args, st.only = nil, ""
	}
	return st
}

// statement reads entries of the stretch with their jobs, behind a cursor if there is one.
func (st *stretch) statement(from *spot, n int) (text string, args []any) {
	args = slices.Clone(st.args)
	direction, behind := " ASC", ">"
	if st.down {
		direction, behind = " DESC", "<"
	}
	where := st.within
	if from != nil {
		var places []string
		for _, column := range st.order {
			v, typ := from.column(column)
			args = append(args, v)
			places = append(places, fmt.Sprintf("$%d::%s", len(args), typ))
		}
		where += fmt.Sprintf(" AND (%s) %s (%s)", strings.Join(st.order, ", "), behind, strings.Join(places, ", "))
	}
	only := st.only
	if only == "" {
		only = `true`
	}
	order := strings.Join(st.order, direction+", ") + direction
	args = append(args, n)
	return fmt.Sprintf(`SELECT x.lane, x.rank, x.at, x.session, x.id, x.shown, j.spec, CASE WHEN x.shown THEN x.status END
		FROM (SELECT lane, rank, at, session, id, status, (%s) AS shown FROM haulier.status WHERE %s ORDER BY %s LIMIT $%d) x
		LEFT JOIN haulier.jobs j ON j.id = x.id AND x.shown ORDER BY %s`, only, where, order, len(args), order), args
}

func (p *spot) column(name string) (v any, typ string) {
	switch name {
	case "lane":
		return p.lane, "int"
	case "rank":
		return p.rank, "smallint"
	case "at":
		return instant(p.at, true), "timestamptz"
	case "session":
		return pgtype.UUID{Bytes: p.session, Valid: true}, "uuid"
	default:
		return pgtype.UUID{Bytes: p.id, Valid: true}, "uuid"
	}
}

func (s *Store) readEntries(ctx context.Context, st *stretch, from *spot, n int) ([]entry, error) {
	text, args := st.statement(from, n)
	rows, err := s.pool.Query(ctx, s.text(text), args...)
	if err != nil {
		return nil, translate(err)
	}
	entries, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (e entry, err error) {
		var at pgtype.Timestamptz
		var session, id pgtype.UUID
		err = r.Scan(&e.spot.lane, &e.spot.rank, &at, &session, &id, &e.shown, &e.spec, &e.status)
		e.spot.at, e.spot.session, e.spot.id = at.Time.UTC(), session.Bytes, id.Bytes
		e.shown = e.shown && e.spec != nil
		return e, err
	})
	return entries, translate(err)
}

// A cursor says where a page ended: the lane of the stretch, 0 when the listing does not go by lanes, and the entry; without
// one it is before the first.
//
//	lane 4 | lane 4, rank 2, at 8, session 16, id 16
const cursorSize = 4 + 46

func cursorAt(lane int32, at *spot) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(lane))
	if at != nil {
		b = binary.BigEndian.AppendUint32(b, uint32(at.lane))
		b = binary.BigEndian.AppendUint16(b, uint16(at.rank))
		b = binary.BigEndian.AppendUint64(b, uint64(at.at.UnixMicro()))
		b = append(append(b, at.session[:]...), at.id[:]...)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func parseCursor(text string) (lane int32, at *spot, err error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != 4 && len(b) != cursorSize {
		return 0, nil, fmt.Errorf("%w: %.60q is no cursor; use the one that came with the page before", haulier.ErrInvalid, text)
	}
	lane = int32(binary.BigEndian.Uint32(b))
	if len(b) == 4 {
		return lane, nil, nil
	}
	p := &spot{lane: int32(binary.BigEndian.Uint32(b[4:])), rank: int16(binary.BigEndian.Uint16(b[8:]))}
	p.at = time.UnixMicro(int64(binary.BigEndian.Uint64(b[10:]))).UTC()
	copy(p.session[:], b[18:])
	copy(p.id[:], b[34:])
	return lane, p, nil
}
