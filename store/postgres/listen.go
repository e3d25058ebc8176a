package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/haulier/haulier"
)

// How servers hear of each other's changes.
//
// Each transaction that changes jobs leaves a row in the table of changes. After it has committed, its server notifies the others, at
// most once in a while however many transactions there were, outside of them: PostgreSQL commits one transaction with a
// notification at a time. Who is notified reads the rows that it has not seen. Which those are it knows by the
// snapshot of its last look, not by a number: numbers do not become visible in their order. A notification that is lost, with its
// connection or its sender, costs time alone: rows are looked for again when the connection is back, and with every Due.

const (
	announceEvery = 5 * time.Millisecond // between two notifications
	// Those of transactions that are not a store's are kept for a day, for they may be open for long.
	keepChanges = 10 * time.Minute       // rows of changes; who is away for longer misses some
	trimEvery   = time.Minute            // rows that are too old are removed
	retryFirst  = 100 * time.Millisecond // from a lost connection to the next try; doubled up to
	retryMost   = 5 * time.Second
)

// listener hears of other servers' changes, and tells them of this one's.
type listener struct {
	s    *Store
	stop context.CancelFunc
	work sync.WaitGroup
	news chan struct{} // there is something to announce

	mu       sync.Mutex // held while rows are read
	position string     // snapshot of the last look
	looked   time.Time  // when that was, by this machine's clock
	trimmed  time.Time
	// ahead are revisions that were told before the row that speaks of them was read.
	ahead map[haulier.ID]uint64

	doubts struct {
		sync.Mutex
		bySerial map[int64]doubt
	}
}

// doubt is a transaction of this server of which the answer was lost.
type doubt struct {
	told []haulier.JobChange
	at   time.Time
}

// listen begins to hear.
func (s *Store) listen(ctx context.Context) error {
	run, stop := context.WithCancel(context.Background())
	l := &listener{s: s, stop: stop, news: make(chan struct{}, 1), ahead: map[haulier.ID]uint64{}, trimmed: time.Now()}
	l.doubts.bySerial = map[int64]doubt{}
	s.listener = l
	conn, err := l.connect(ctx)
	if err == nil {
		err = l.look(ctx)
	}
	if err != nil {
		stop()
		return err
	}
	s.floors.hear(true)
	l.work.Go(func() { l.hear(run, conn) })
	l.work.Go(func() { l.announceAll(run) })
	return nil
}

func (l *listener) close() {
	l.stop()
	l.work.Wait()
	select {
	case <-l.news:
		ctx, cancel := context.WithTimeout(context.Background(), lastWord)
		defer cancel()
		l.notify(ctx)
	default:
	}
}

// channel of the notifications. Their payload is the number of the server that sends them.
func (l *listener) channel() string { return l.s.schema + channelEnd }

const channelEnd = "_changes"

// connect opens a connection of its own: one that listens belongs to nobody else.
func (l *listener) connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, l.s.pool.Config().ConnConfig)
	if err != nil {
		return nil, translate(err)
	}
	if _, err := conn.Exec(ctx, `LISTEN `+pgx.Identifier{l.channel()}.Sanitize()); err != nil {
		_ = conn.Close(ctx)
		return nil, translate(err)
	}
	return conn, nil
}

// hear waits for notifications until ctx ends, with a new connection when one is lost.
func (l *listener) hear(ctx context.Context, conn *pgx.Conn) {
	wait := retryFirst
	for ctx.Err() == nil {
		if conn == nil {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
			wait = min(2*wait, retryMost)
			var err error
			if conn, err = l.connect(ctx); err != nil {
				continue
			}
			if err := errors.Join(l.s.lookForCrash(ctx), l.look(ctx)); err != nil {
				_ = conn.Close(ctx)
				conn = nil
				continue
			}
			l.s.log.Info("hears of other servers again")
			l.s.floors.hear(true)
			wait = retryFirst
		}
		err := l.attend(ctx, conn)
		_ = conn.Close(context.WithoutCancel(ctx))
		conn = nil
		l.s.floors.hear(false) // what others do is not known until the connection is back
		if ctx.Err() == nil {
			l.s.log.Warn("the connection for notifications is lost", "err", err)
		}
	}
}

// attend looks at what changed whenever another server says that something has.
func (l *listener) attend(ctx context.Context, conn *pgx.Conn) error {
	self := strconv.Itoa(int(l.s.server))
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if n.Payload == self {
			continue
		}
		if err := l.look(ctx); err != nil {
			return err
		}
	}
}

// announce notes that this server has changed something.
func (l *listener) announce(changed bool) {
	if changed {
		select {
		case l.news <- struct{}{}:
		default:
		}
	}
}

// announceAll notifies the others, after a change at once and then at most every announceEvery.
func (l *listener) announceAll(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-l.news:
			l.notify(ctx)
		case <-ctx.Done():
			return
		}
		pause.Reset(announceEvery)
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
	}
}

// lastWord is how long a store that closes tries to notify the others.
const lastWord = time.Second

func (l *listener) notify(ctx context.Context) {
	if _, err := l.s.pool.Exec(ctx, `SELECT pg_notify($1, $2)`, l.channel(), strconv.Itoa(int(l.s.server))); err != nil && ctx.Err() == nil {
		l.s.log.Warn("other servers are not notified", "err", err)
	}
}

// unsure keeps a transaction of which the answer was lost. When its row turns up, the watchers are told.
func (l *listener) unsure(serial int64, told []haulier.JobChange) {
	if len(told) == 0 {
		return
	}
	l.doubts.Lock()
	defer l.doubts.Unlock()
	l.doubts.bySerial[serial] = doubt{told, time.Now()}
}

// doubtful are the serials of the transactions in doubt; those that are long over were undone.
func (l *listener) doubtful() []int64 {
	l.doubts.Lock()
	defer l.doubts.Unlock()
	serials := []int64{}
	for serial, d := range l.doubts.bySerial {
		if time.Since(d.at) > 2*commitTimeout {
			delete(l.doubts.bySerial, serial)
			continue
		}
		serials = append(serials, serial)
	}
	return serials
}

// The rows that the snapshot of the last look did not show, and the snapshot of this one. Of this server only those in doubt matter.
const readChanges = `SELECT pg_current_snapshot()::text, c.server, c.serial, c.body FROM (SELECT) one LEFT JOIN LATERAL (
	SELECT seq, server, serial, body FROM haulier.changes
	WHERE xid >= pg_snapshot_xmin($1::text::pg_snapshot) AND NOT pg_visible_in_snapshot(xid, $1::text::pg_snapshot)
		AND (server <> $2 OR serial = ANY($3::bigint[])) ORDER BY seq) c ON true ORDER BY c.seq`

// lookEvery is after how long a look is made with the next Due.
const lookEvery = 5 * time.Second

// lookAgain looks when nobody has said for a while that there is anything to see: who should have may be dead.
func (l *listener) lookAgain(ctx context.Context) {
	l.mu.Lock()
	late := time.Since(l.looked) > lookEvery
	l.mu.Unlock()
	if !late {
		return
	}
	if err := l.look(ctx); err != nil {
		l.s.log.Warn("changes of other servers can't be read", "err", err)
	}
}

// look reads what other servers have changed since the last look, and tells the watchers.
func (l *listener) look(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.position == "" || time.Since(l.looked) > keepChanges/2 {
		return l.startAnew(ctx)
	}
	doubtful := l.doubtful()
	l.s.watchers.begin()
	defer l.s.watchers.end()
	rows, err := l.s.pool.Query(ctx, l.s.text(readChanges), l.position, l.s.server, doubtful)
	if err != nil {
		return translate(err)
	}
	var position string
	var server pgtype.Int4
	var serial pgtype.Int8
	var body []byte
	var marks []mark
	settled := map[int64]bool{}
	strayed := false
	_, err = pgx.ForEachRow(rows, []any{&position, &server, &serial, &body}, func() error {
		if !server.Valid {
			return nil
		}
		if server.Int32 == l.s.server {
			settled[serial.Int64] = true
			return nil
		}
		strayed = strayed || server.Int32 == 0
		more, err := parseMarks(body)
		marks = append(marks, more...)
		return err
	})
	if err != nil {
		return translateRead(err)
	}
	l.s.floors.enter(marks)
	changes, err := l.changes(ctx, marks)
	if err != nil {
		return err
	}
	settledChanges, err := l.settle(ctx, settled)
	if err != nil {
		return err
	}
	l.position, l.looked = position, time.Now()
	changes = append(changes, settledChanges...)
	// What this server did to these jobs before was carried out, and its answer may be on the way.
	l.s.flights.settle(jobsOf(changes))
	l.s.watchers.tellOthers(changes)
	if strayed {
		l.s.foldStrays(ctx)
	}
	l.trim(ctx)
	return nil
}

func jobsOf(changes []haulier.JobChange) []haulier.ID {
	ids := make([]haulier.ID, 0, len(changes))
	for i := range changes {
		if changes[i].Spec != nil {
			ids = append(ids, changes[i].Spec.ID)
		}
	}
	return ids
}

// startAnew takes the present as what was seen last. When the last look is too long ago, rows that it did not show may be gone:
// then the watchers are told of all jobs that sessions have, and of the first that wait, as though they were new.
func (l *listener) startAnew(ctx context.Context) error {
	first := l.position == ""
	var position string
	if err := l.s.pool.QueryRow(ctx, `SELECT pg_current_snapshot()::text`).Scan(&position); err != nil {
		return translate(err)
	}
	l.s.floors.reset()
	clear(l.ahead)
	if !first && l.s.watchers.some.Load() {
		l.s.log.Warn("changes of other servers were missed; looking at what there is")
		l.s.watchers.begin()
		defer l.s.watchers.end()
		changes, err := l.present(ctx)
		if err != nil {
			return err
		}
		l.s.flights.settle(jobsOf(changes))
		l.s.watchers.tellOthers(changes)
	}
	l.position, l.looked = position, time.Now()
	return nil
}

// present is what the watchers need to know when they may have missed anything.
func (l *listener) present(ctx context.Context) ([]haulier.JobChange, error) {
	const text = `SELECT j.spec, s.status FROM haulier.status s JOIN haulier.jobs j ON j.id = s.id WHERE s.spot = 4
		UNION ALL (SELECT j.spec, h.status FROM (SELECT DISTINCT lane, rank FROM haulier.counts WHERE state = 3) b
		JOIN LATERAL (SELECT id, status FROM haulier.status WHERE spot = 3 AND lane = b.lane AND rank = b.rank ORDER BY at, id LIMIT 100) h ON true
		JOIN haulier.jobs j ON j.id = h.id)`
	rows, err := l.s.pool.Query(ctx, l.s.text(text))
	if err != nil {
		return nil, translate(err)
	}
	changes, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (c haulier.JobChange, err error) {
		var spec, status []byte
		if err = r.Scan(&spec, &status); err != nil {
			return c, err
		}
		j, err := readJob(haulier.NilID, spec, status)
		if err != nil {
			return c, err
		}
		return haulier.JobChange{Spec: &j.Spec, Before: j.State, Status: j.Status}, nil
	})
	return changes, translateRead(err)
}

// news is what the rows say of one job.
type news struct {
	mark
	removed bool
}

// changes makes of what rows say what watchers are told: of each job how it stands now, unless that is this server's doing.
func (l *listener) changes(ctx context.Context, marks []mark) ([]haulier.JobChange, error) {
	if len(marks) == 0 || !l.s.watchers.some.Load() {
		return nil, nil
	}
	byID := map[haulier.ID]*news{}
	var order []haulier.ID
	tell := false
	for _, m := range marks {
		if m == (mark{at: m.at}) {
			tell = true
			continue
		}
		if told, ok := l.ahead[m.id]; ok && m.after != 0 && m.rev <= told {
			if m.rev == told {
				delete(l.ahead, m.id)
			}
			continue
		}
		n := byID[m.id]
		if n == nil {
			n = &news{mark: m}
			byID[m.id] = n
			order = append(order, m.id)
		}
		n.rev, n.after, n.removed = m.rev, m.after, m.after == 0
	}
	found, err := l.read(ctx, order)
	if err != nil {
		return nil, err
	}
	var changes []haulier.JobChange
	for _, id := range order {
		n, f := byID[id], found[id]
		switch {
		case n.removed:
			lane, err := l.s.lanes.name(ctx, n.lane)
			if err != nil {
				return nil, err
			}
			delete(l.ahead, id)
			changes = append(changes, haulier.JobChange{Spec: specOfRemoved(id, lane, -int(n.rank)), Before: n.before})
		case f == nil || f.server == l.s.server:
			// Whoever removed or changed it since tells so.
		default:
			if f.job.Rev > n.rev {
				l.ahead[id] = f.job.Rev
			}
			changes = append(changes, haulier.JobChange{Spec: &f.job.Spec, Before: n.before, Status: f.job.Status})
		}
	}
	if tell {
		changes = append(changes, haulier.JobChange{})
	}
	return changes, nil
}

// seen is a job with the server that wrote it last.
type seen struct {
	job    *haulier.Job
	server int32
}

func (l *listener) read(ctx context.Context, ids []haulier.ID) (map[haulier.ID]*seen, error) {
	const text = `SELECT s.id, s.server, j.spec, s.status FROM haulier.status s JOIN haulier.jobs j ON j.id = s.id WHERE s.id = ANY($1::uuid[])`
	rows, err := l.s.pool.Query(ctx, l.s.text(text), uuids(ids))
	if err != nil {
		return nil, translate(err)
	}
	found := make(map[haulier.ID]*seen, len(ids))
	var id pgtype.UUID
	var server int32
	var spec, status []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &server, &spec, &status}, func() error {
		j, err := readJob(id.Bytes, spec, status)
		found[id.Bytes] = &seen{j, server}
		return err
	})
	return found, translateRead(err)
}

// specOfRemoved is what is left to know of a job that another server has removed.
func specOfRemoved(id haulier.ID, lane haulier.Lane, priority int) *haulier.Spec {
	s := &haulier.Spec{ID: id, Tenant: lane.Tenant, Queue: lane.Queue, Type: lane.Type, RunsOn: lane.ParseRunsOn(), Priority: priority}
	switch lane.Kind {
	case haulier.KindExec:
		s.Task.Exec = &haulier.ExecTask{}
	case haulier.KindHTTP:
		s.Task.HTTP = &haulier.HTTPTask{}
	case haulier.KindContainer:
		s.Task.Container = &haulier.ContainerTask{}
	case haulier.KindWasi:
		s.Task.Wasi = &haulier.WasiTask{}
	case haulier.KindScript:
		s.Task.Script = &haulier.ScriptTask{}
	case haulier.KindNone:
		s.Task.None = &haulier.NoTask{}
	}
	return s
}

// settle ends the doubts about transactions of this server that turned out to have been carried out, and returns what they changed,
// as far as nothing has changed since.
func (l *listener) settle(ctx context.Context, serials map[int64]bool) (changes []haulier.JobChange, err error) {
	if len(serials) == 0 {
		return nil, nil
	}
	l.doubts.Lock()
	defer l.doubts.Unlock()
	var ids []haulier.ID
	for serial := range serials {
		ids = append(ids, jobsOf(l.doubts.bySerial[serial].told)...)
	}
	found, err := l.read(ctx, ids)
	if err != nil {
		return nil, err
	}
	for serial := range serials {
		for _, c := range l.doubts.bySerial[serial].told {
			if c.Spec == nil {
				changes = append(changes, c)
				continue
			}
			f := found[c.Spec.ID]
			if f == nil && c.Status.State == 0 || f != nil && f.job.Rev == c.Status.Rev {
				changes = append(changes, c)
			}
		}
		delete(l.doubts.bySerial, serial)
	}
	return changes, nil
}

// trim removes rows that are too old for anybody, now and then. It is no harm when it fails.
func (l *listener) trim(ctx context.Context) {
	if time.Since(l.trimmed) < trimEvery {
		return
	}
	l.trimmed = time.Now()
	const text = `DELETE FROM haulier.changes WHERE (xid, seq) IN (
		SELECT xid, seq FROM haulier.changes WHERE at < clock_timestamp() - $1::interval
			AND (server <> 0 OR at < clock_timestamp() - interval '1 day') ORDER BY xid, seq LIMIT 10000 FOR UPDATE SKIP LOCKED)`
	for {
		tag, err := l.s.pool.Exec(ctx, l.s.text(text), keepChanges)
		if err != nil {
			l.s.log.Warn("old rows of changes are not removed", "err", fmt.Errorf("trim: %w", err))
		}
		if err != nil || tag.RowsAffected() < 10000 {
			return
		}
	}
}
