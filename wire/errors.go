package wire

import (
	"errors"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/haulier/haulier"
)

// codeInternal is the code of an error that is none of the table.
const codeInternal = "internal"

// errorCodes is the one table of short names for what callers branch on. The
// first that an error is gives its code, so the special stand before the general.
var errorCodes = []struct {
	code string
	kind error
}{
	{"refused", haulier.ErrRefused}, // first: the hook's own error may be any
	{"not_found", haulier.ErrNotFound},
	{"conflict", haulier.ErrConflict},
	{"lease_lost", haulier.ErrLeaseLost},
	{"too_large", haulier.ErrTooLarge},
	{"invalid", haulier.ErrInvalid},
	{"unauthenticated", haulier.ErrUnauthenticated},
	{"forbidden", haulier.ErrForbidden},
	{"unavailable", haulier.ErrUnavailable},
	{"corrupt", haulier.ErrCorrupt},
}

// ErrorCode is the short name of what err is: not_found, conflict, lease_lost,
// too_large, invalid, unauthenticated, forbidden, refused, unavailable, corrupt, or
// internal for all others. It is "" when err is nil. An error that says when to try again is unavailable.
func ErrorCode(err error) string {
	if err == nil {
		return ""
	}
	var later *haulier.RetryAfterError
	if errors.As(err, &later) {
		return "unavailable"
	}
	for _, e := range errorCodes {
		if errors.Is(err, e.kind) {
			return e.code
		}
	}
	return codeInternal
}

// ErrorOf is an error with the text that is what the code says, for errors.Is;
// a code that is not known gives an error that is none of the root's. It is nil when code is "".
func ErrorOf(code, text string) error {
	if code == "" {
		return nil
	}
	kind := kindOf(code)
	if text == "" && kind != nil {
		return kind
	}
	return &toldError{text: text, kind: kind}
}

func kindOf(code string) error {
	for _, e := range errorCodes {
		if e.code == code {
			return e.kind
		}
	}
	return nil
}

// toldError is an error as the other side told it.
type toldError struct {
	text string
	kind error // what it is; nil: nothing that a caller branches on
}

func (e *toldError) Error() string {
	if e.text == "" {
		return "internal error"
	}
	return e.text
}

func (e *toldError) Unwrap() error { return e.kind }

// An error is code (1), text (2), the field (3) and message (4) of a FieldError
// within it, and the delay (5) and cause (6) of a RetryAfterError within it.
// No error is an empty message.

// maxErrorDepth bounds causes of causes.
const maxErrorDepth = 4

func putError(b []byte, num protowire.Number, err error) []byte {
	if err == nil {
		return b
	}
	return putErrorItem(b, num, err, 0)
}

func putErrorItem(b []byte, num protowire.Number, err error, depth int) []byte {
	b, mark := open(b, num)
	if err == nil {
		return shut(b, mark)
	}
	b = putText(b, 1, ErrorCode(err))
	b = putText(b, 2, err.Error())
	var field *haulier.FieldError
	if errors.As(err, &field) {
		b = putItem(b, 3, field.Field)
		b = putText(b, 4, field.Msg)
	}
	var later *haulier.RetryAfterError
	if errors.As(err, &later) {
		b = putMicros(b, 5, int64(later.After))
		if later.Cause != nil && depth < maxErrorDepth {
			b = putErrorItem(b, 6, later.Cause, depth+1)
		}
	}
	return shut(b, mark)
}

// error reads an error; nil when the message is empty.
func (f *fields) error(depth int) error {
	var code, text string
	var field *haulier.FieldError
	var later *haulier.RetryAfterError
	var cause error
	e := fields{rest: f.bytes()}
	for e.next() {
		switch e.num {
		case 1:
			code = e.name()
		case 2:
			text = e.text()
		case 3, 4:
			if field == nil {
				field = new(haulier.FieldError)
			}
			if e.num == 3 {
				field.Field = e.text()
			} else {
				field.Msg = e.text()
			}
		case 5:
			later = &haulier.RetryAfterError{After: time.Duration(e.int64())}
		case 6:
			if depth >= maxErrorDepth {
				e.fail("causes too deep")
				break
			}
			cause = e.error(depth + 1)
		}
	}
	f.take(e.bad)
	if code == "" || f.bad != nil {
		return nil
	}
	return joinError(code, text, field, later, cause)
}

// joinError returns the typed error itself when the text is its own, and else wraps it.
func joinError(code, text string, field *haulier.FieldError, later *haulier.RetryAfterError, cause error) error {
	inner := kindOf(code)
	switch {
	case later != nil:
		if later.Cause = cause; cause == nil {
			later.Cause = haulier.ErrUnavailable
		}
		inner = later
	case field != nil:
		field.Kind = inner
		if inner == haulier.ErrInvalid { //nolint:errorlint // this very one: ErrTooLarge is an ErrInvalid as well
			field.Kind = nil
		}
		inner = field
	}
	if inner != nil && inner.Error() == text {
		return inner
	}
	return &toldError{text: text, kind: inner}
}

// AppendErrors appends a list of errors, nil ones among them.
func AppendErrors(b []byte, errs []error) []byte {
	for _, err := range errs {
		b = putErrorItem(b, 1, err, 0)
	}
	return b
}

// ParseErrors is the reverse of AppendErrors: errors.Is, errors.As with the typed errors
// of the root, and the text hold as before.
func ParseErrors(b []byte) ([]error, error) {
	errs := make([]error, 0, min(count(b, 1), maxItems))
	f := fields{rest: b}
	for f.next() {
		if f.num == 1 {
			errs = more(&f, errs, f.error(0), maxItems)
		}
	}
	return errs, f.err("errors")
}
