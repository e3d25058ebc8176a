package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/haulier/haulier"
)

// Each file brings the tables from one version to the next. A file that was released is not changed any more.
//
//go:embed migrations/*.sql
var migrations embed.FS

const defaultSchema = "haulier"

// schemaName checks the name of a schema, which stands in statements as it is.
func schemaName(name string) (string, error) {
	if name == "" {
		return defaultSchema, nil
	}
	ok := len(name) <= 63 && name[0] != '_' && (name[0] < '0' || name[0] > '9')
	for _, c := range name {
		ok = ok && (c == '_' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9')
	}
	if !ok {
		return "", fmt.Errorf("%w: %.80q is no name for a schema: it has up to 63 of a-z, 0-9 and _ and begins with a letter", haulier.ErrInvalid, name)
	}
	return name, nil
}

// text is the statement for this store's schema.
func (s *Store) text(statement string) string {
	if s.schema == defaultSchema {
		return statement
	}
	if t, ok := s.texts.Load(statement); ok {
		return t.(string)
	}
	t := inSchema(statement, s.schema)
	s.texts.Store(statement, t)
	return t
}

func inSchema(statement, schema string) string {
	return strings.ReplaceAll(statement, defaultSchema+".", schema+".")
}

// hasSetting says whether a URL, or libpq's other form, gives a setting.
func hasSetting(text, name string) bool {
	if u, err := url.Parse(text); err == nil && u.Scheme != "" {
		return u.Query().Has(name)
	}
	return strings.Contains(text, name+"=")
}

// Migrate makes the tables of a schema ("": haulier), or brings them up to date, and returns the versions that they had
// (0: there were none) and have. Servers that have the store open need not stop.
func Migrate(ctx context.Context, url, schema string) (from, to int, err error) {
	if schema, err = schemaName(schema); err != nil {
		return 0, 0, err
	}
	pool, err := connect(ctx, url)
	if err != nil {
		return 0, 0, fmt.Errorf("migrate: %w", err)
	}
	defer pool.Close()
	if from, to, err = migrate(ctx, pool, schema); err != nil {
		return from, to, fmt.Errorf("migrate: %w", err)
	}
	return from, to, nil
}

// migrate sees that the tables are those of this program; may says that it may make them so.
func (s *Store) migrate(ctx context.Context, may bool) error {
	known, err := known()
	if err != nil {
		return err
	}
	version, err := tablesVersion(ctx, s.pool, s.schema)
	if err != nil {
		return err
	}
	if version < known && may {
		_, version, err = migrate(ctx, s.pool, s.schema)
	}
	switch {
	case err != nil:
		return err
	case version < known:
		return fmt.Errorf("%w: schema %s has version %d of the tables, this program needs %d: run haulier store migrate", haulier.ErrInvalid, s.schema, version, known)
	case version > known:
		return newer(s.schema, version, known)
	}
	return nil
}

func newer(schema string, version, known int) error {
	return fmt.Errorf("%w: schema %s has version %d of the tables, this program knows %d at most: run the program that made them, or a newer one",
		haulier.ErrInvalid, schema, version, known)
}

// known is the newest version that this program knows.
func known() (int, error) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	return len(files), err
}

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// tablesVersion is the version of the tables, 0 when there are none.
func tablesVersion(ctx context.Context, q querier, schema string) (version int, err error) {
	var there bool
	err = q.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, schema+".migrations").Scan(&there)
	if err != nil || !there {
		return 0, translate(err)
	}
	err = q.QueryRow(ctx, inSchema(`SELECT coalesce(max(version), 0) FROM haulier.migrations`, schema)).Scan(&version)
	return version, translate(err)
}

// oldestServer is the version of PostgreSQL that has all that the statements use.
const oldestServer = 130000

// migrate carries out what is missing, in one transaction; who else wants to do it waits.
func migrate(ctx context.Context, pool *pgxpool.Pool, schema string) (from, to int, err error) {
	if to, err = known(); err != nil {
		return 0, 0, err
	}
	tx, err := pool.Begin(ctx)
	if err != nil {
		return 0, 0, translate(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // it does nothing after a commit
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('haulier store ' || $1::text, 0))`, schema); err != nil {
		return 0, 0, translate(err)
	}
	var server int
	if err := tx.QueryRow(ctx, `SELECT current_setting('server_version_num')::int`).Scan(&server); err != nil {
		return 0, 0, translate(err)
	}
	if server < oldestServer {
		return 0, 0, fmt.Errorf("%w: PostgreSQL is of version %d, at least 13 is needed", haulier.ErrInvalid, server/10000)
	}
	if from, err = tablesVersion(ctx, tx, schema); err != nil {
		return from, from, err
	}
	if from > to {
		return from, from, newer(schema, from, to)
	}
	err = carryOut(ctx, tx, schema, from, to)
	if err == nil {
		err = tx.Commit(ctx)
	}
	if err != nil {
		return from, from, translate(err)
	}
	return from, to, nil
}

func carryOut(ctx context.Context, tx pgx.Tx, schema string, from, to int) error {
	steps := []string{`SET LOCAL synchronous_commit = on`}
	if from == 0 {
		steps = append(steps, `CREATE SCHEMA IF NOT EXISTS `+schema,
			`CREATE TABLE haulier.migrations (version int PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT clock_timestamp())`)
	}
	for version := from + 1; version <= to; version++ {
		file, err := migrations.ReadFile(fmt.Sprintf("migrations/%04d.sql", version))
		if err != nil {
			return errors.Join(haulier.ErrCorrupt, err)
		}
		steps = append(steps, string(file), fmt.Sprintf(`INSERT INTO haulier.migrations (version) VALUES (%d)`, version))
	}
	for _, step := range steps {
		if _, err := tx.Conn().PgConn().Exec(ctx, inSchema(step, schema)).ReadAll(); err != nil {
			return err
		}
	}
	return nil
}
