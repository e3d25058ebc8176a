package postgres

import (
	"context"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/haulier/haulier"
)

// lanes knows the numbers of lanes, which are never given anew.
type lanes struct {
	s      *Store
	mu     sync.RWMutex
	byName map[haulier.Lane]int32
	byID   map[int32]haulier.Lane
	newest int32
}

func newLanes(s *Store) *lanes {
	return &lanes{s: s, byName: map[haulier.Lane]int32{}, byID: map[int32]haulier.Lane{}}
}

// load reads the lanes that came since it was last called.
func (l *lanes) load(ctx context.Context) error {
	l.mu.RLock()
	newest := l.newest
	l.mu.RUnlock()
	// A number may be visible before a lower one: the last ones are read again.
	rows, err := l.s.pool.Query(ctx, l.s.text(`SELECT id, tenant, queue, type, kind, runs_on FROM haulier.lanes WHERE id > $1`), max(newest-100, 0))
	if err != nil {
		return translate(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var id int32
	var name haulier.Lane
	_, err = pgx.ForEachRow(rows, []any{&id, &name.Tenant, &name.Queue, &name.Type, (*string)(&name.Kind), &name.RunsOn}, func() error {
		l.byName[name], l.byID[id] = id, name
		l.newest = max(l.newest, id)
		return nil
	})
	return translate(err)
}

// find returns the number of a lane that this server knows.
func (l *lanes) find(name haulier.Lane) (int32, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	id, ok := l.byName[name]
	return id, ok
}

// look returns the number of a lane; false: there is no such lane.
func (l *lanes) look(ctx context.Context, name haulier.Lane) (int32, bool, error) {
	if id, ok := l.find(name); ok {
		return id, true, nil
	}
	if err := l.load(ctx); err != nil {
		return 0, false, err
	}
	id, ok := l.find(name)
	return id, ok, nil
}

// number returns the number of a lane, which it gives to a new one. That is a transaction of its own: what comes of the one that needs it
// does not matter.
func (l *lanes) number(ctx context.Context, name haulier.Lane) (int32, error) {
	if id, ok := l.find(name); ok {
		return id, nil
	}
	var id int32
	const insert = `INSERT INTO haulier.lanes (tenant, queue, type, kind, runs_on) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (tenant, queue, type, kind, runs_on) DO UPDATE SET kind = excluded.kind RETURNING id`
	err := pgx.BeginFunc(ctx, l.s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, syncCommit); err != nil { // a number that is remembered here must not be lost there
			return err
		}
		return tx.QueryRow(ctx, l.s.text(insert), name.Tenant, name.Queue, name.Type, string(name.Kind), name.RunsOn).Scan(&id)
	})
	if err != nil {
		return 0, fmt.Errorf("lane %v: %w", name, translate(err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byName[name], l.byID[id] = id, name
	return id, nil
}

// name returns the lane of a number that was read.
func (l *lanes) name(ctx context.Context, id int32) (haulier.Lane, error) {
	for range 2 {
		l.mu.RLock()
		name, ok := l.byID[id]
		l.mu.RUnlock()
		if ok {
			return name, nil
		}
		if err := l.load(ctx); err != nil {
			return haulier.Lane{}, err
		}
	}
	return l.readName(ctx, id)
}

// readName reads a lane alone, in case its number came late.
func (l *lanes) readName(ctx context.Context, id int32) (name haulier.Lane, err error) {
	err = l.s.pool.QueryRow(ctx, l.s.text(`SELECT tenant, queue, type, kind, runs_on FROM haulier.lanes WHERE id = $1`), id).
		Scan(&name.Tenant, &name.Queue, &name.Type, (*string)(&name.Kind), &name.RunsOn)
	if err != nil {
		return name, fmt.Errorf("lane %d: %w", id, translate(err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byName[name], l.byID[id] = id, name
	return name, nil
}

// of returns the numbers of a tenant's lanes.
func (l *lanes) of(ctx context.Context, tenant string) ([]int32, error) {
	if err := l.load(ctx); err != nil {
		return nil, err
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	var ids []int32
	for name, id := range l.byName {
		if name.Tenant == tenant {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
