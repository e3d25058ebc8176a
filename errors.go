package haulier

import (
	"errors"
	"fmt"
	"time"
)

// What callers branch on. Errors of this module wrap one of these, the
// operation and the key; their text ends with what to do, where there is something.
var (
	// ErrNotFound: no such job, session, queue, token or document.
	ErrNotFound = errors.New("not found")
	// ErrConflict: an expected revision did not hold, a key is taken by another
	// request, or the state does not allow the change.
	ErrConflict = errors.New("conflict")
	// ErrLeaseLost: the session has expired or the job is no longer its own.
	// Nothing that the session still sends about the job changes it.
	ErrLeaseLost = errors.New("lease lost")
	// ErrInvalid: the request itself is wrong; repeating it does not help.
	ErrInvalid = errors.New("invalid")
	// ErrTooLarge: over a limit of size or number. It also is an ErrInvalid.
	ErrTooLarge = fmt.Errorf("too large: %w", ErrInvalid)
	// ErrUnauthenticated: no token, or one that is not known.
	ErrUnauthenticated = errors.New("unauthenticated")
	// ErrForbidden: the token's role or tenant does not allow it.
	ErrForbidden = errors.New("forbidden")
	// ErrRefused: a hook said no, or failed; the text says which and why.
	ErrRefused = errors.New("refused")
	// ErrUnavailable: the store or server can't be reached or is closing; try again.
	ErrUnavailable = errors.New("unavailable")
	// ErrCorrupt: bytes from disk do not decode; nothing was changed.
	ErrCorrupt = errors.New("corrupt")
)

// FieldError is one wrong field of a request. It wraps ErrInvalid.
type FieldError struct {
	Field string // path, as in "jobs[3].priority"
	Msg   string // what is wrong and what is allowed
	Kind  error  // ErrInvalid when nil
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Msg }

func (e *FieldError) Unwrap() error {
	if e.Kind == nil {
		return ErrInvalid
	}
	return e.Kind
}

// RetryAfterError says when to try again. It wraps ErrUnavailable.
type RetryAfterError struct {
	After time.Duration
	Cause error
}

func (e *RetryAfterError) Error() string {
	return fmt.Sprintf("%v; try again in %v", e.Cause, e.After)
}

func (e *RetryAfterError) Unwrap() []error { return []error{ErrUnavailable, e.Cause} }
