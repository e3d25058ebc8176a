package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/haulier/haulier"
)

// Codes of errors by which the driver decides (PostgreSQL, appendix A).
const (
	codeUniqueViolation      = "23505"
	codeSerializationFailure = "40001"
	codeDeadlock             = "40P01"
	classData                = "22"    // a value that PostgreSQL can't hold
	codeUnknownCharacter     = "22021" // a zero byte, or none of UTF-8
	codeDataCorrupted        = "XX001"
	codeIndexCorrupted       = "XX002"
	codeReadOnly             = "25006"
	codeNoTable              = "42P01"
	codeNoPrivilege          = "42501"
	codeDiskFull             = "53100"
	codeTooManyConnections   = "53300"
)

func codeOf(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// translate makes an error of the database one of haulier's.
func translate(err error) error {
	if err == nil {
		return nil
	}
	hint := ""
	switch code := codeOf(err); code {
	case "":
		var unreached *pgconn.ConnectError
		if !errors.As(err, &unreached) && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
			return err // of the caller's context
		}
		hint = "look whether PostgreSQL runs and can be reached, then try again"
	case codeUnknownCharacter:
		return fmt.Errorf("%w: PostgreSQL keeps text in UTF-8 without zero bytes: %v", haulier.ErrInvalid, err)
	case codeDataCorrupted, codeIndexCorrupted:
		return fmt.Errorf("%w: %v: restore the database from a copy", haulier.ErrCorrupt, err)
	case codeReadOnly:
		hint = "the URL must name the primary: add target_session_attrs=read-write"
	case codeNoTable:
		hint = "the tables are missing: run haulier store migrate"
	case codeNoPrivilege:
		hint = "let the role of the URL use the schema and its tables"
	case codeDiskFull:
		hint = "its disk is full: make room there"
	case codeTooManyConnections:
		hint = "raise max_connections of PostgreSQL, or give the URL a smaller pool_max_conns"
	default:
		if strings.HasPrefix(code, classData) {
			return fmt.Errorf("%w: %v", haulier.ErrInvalid, err)
		}
		hint = "try again"
	}
	return fmt.Errorf("%w: %w: %s", haulier.ErrUnavailable, oneLine{err}, hint)
}

// inDoubt is the error of a commit of which the answer was lost.
func inDoubt(err error) error {
	why := translate(err)
	if !errors.Is(why, haulier.ErrUnavailable) { // the caller's context has ended
		why = fmt.Errorf("%w: %w", haulier.ErrUnavailable, err)
	}
	return fmt.Errorf("whether it was carried out is not known: %w", why)
}

// oneLine is an error of the client's, whose text may have several lines.
type oneLine struct{ error }

func (e oneLine) Error() string { return strings.Join(strings.Fields(e.error.Error()), " ") }

func (e oneLine) Unwrap() error { return e.error }

// passing says that the transaction was undone for reasons that may not hold when it is tried again.
func passing(err error) bool {
	switch codeOf(err) {
	case codeSerializationFailure, codeDeadlock, codeUniqueViolation:
		return true
	}
	return false
}
