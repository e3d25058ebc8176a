package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/haulier/haulier"
)

const readJobs = `SELECT s.id, j.spec, s.status FROM haulier.status s JOIN haulier.jobs j ON j.id = s.id WHERE s.id = ANY($1::uuid[])`

// Jobs implements haulier.Store.
func (s *Store) Jobs(ctx context.Context, ids []haulier.ID) ([]*haulier.Job, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	jobs := make([]*haulier.Job, len(ids))
	if len(ids) == 0 {
		return jobs, nil
	}
	found := make(map[haulier.ID]*haulier.Job, len(ids))
	rows, err := s.pool.Query(ctx, s.text(readJobs), uuids(ids))
	if err != nil {
		return nil, fmt.Errorf("read jobs: %w", translate(err))
	}
	var id pgtype.UUID
	var spec, status []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &spec, &status}, func() error {
		j, err := readJob(id.Bytes, spec, status)
		found[id.Bytes] = j
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read jobs: %w", translateRead(err))
	}
	for i, id := range ids {
		jobs[i] = found[id]
	}
	return jobs, nil
}

// translateRead is translate, but for errors that are haulier's already.
func translateRead(err error) error {
	if errors.Is(err, haulier.ErrCorrupt) || errors.Is(err, haulier.ErrUnavailable) {
		return err
	}
	return translate(err)
}

// Doc implements haulier.Store.
func (s *Store) Doc(ctx context.Context, kind haulier.DocKind, key string) (haulier.Doc, error) {
	if err := s.enter(); err != nil {
		return haulier.Doc{}, err
	}
	defer s.leave()
	var rev int64
	d := haulier.Doc{Kind: kind, Key: key}
	err := s.pool.QueryRow(ctx, s.text(`SELECT rev, value FROM haulier.docs WHERE kind = $1 AND key = $2`), string(kind), key).Scan(&rev, &d.Value)
	if errors.Is(err, pgx.ErrNoRows) {
		return haulier.Doc{}, fmt.Errorf("document %s %s: %w", kind, key, haulier.ErrNotFound)
	}
	if err != nil {
		return haulier.Doc{}, fmt.Errorf("document %s %s: %w", kind, key, translate(err))
	}
	d.Rev = uint64(rev)
	return d, nil
}

// The keys with a prefix lie between it and it followed by the last characters that there are.
const (
	lastOfAll = "\U0010FFFF\U0010FFFF\U0010FFFF\U0010FFFF"
	readDocs  = `SELECT key, rev, value FROM haulier.docs WHERE kind = $1 AND key >= $2 AND key <= $3 AND key > $4 AND starts_with(key, $2)
		ORDER BY key LIMIT $5`
)

// Docs implements haulier.Store.
func (s *Store) Docs(ctx context.Context, kind haulier.DocKind, prefix, after string, limit int) ([]haulier.Doc, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	rows, err := s.pool.Query(ctx, s.text(readDocs), string(kind), prefix, prefix+lastOfAll, after, limit)
	if err != nil {
		return nil, fmt.Errorf("documents of %s: %w", kind, translate(err))
	}
	docs, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (haulier.Doc, error) {
		d := haulier.Doc{Kind: kind}
		var rev int64
		err := r.Scan(&d.Key, &rev, &d.Value)
		d.Rev = uint64(rev)
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("documents of %s: %w", kind, translate(err))
	}
	return docs, nil
}
