package workflow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/haulier/haulier"
)

// Error is one fault of a workflow's text. It wraps haulier.ErrInvalid.
type Error struct {
	Line   int // from 1
	Column int // from 1
	Msg    string
}

func (e *Error) Error() string { return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Msg) }

// Unwrap returns haulier.ErrInvalid.
func (e *Error) Unwrap() error { return haulier.ErrInvalid }

// maxErrors is how many faults are told at once.
const maxErrors = 50

// Errors are the faults of a workflow's text, by line: at least one, and the first fifty at most.
type Errors []*Error

// Error has a line for each fault.
func (e Errors) Error() string {
	var b strings.Builder
	for i, x := range e {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(x.Error())
	}
	return b.String()
}

// Unwrap returns the faults one by one.
func (e Errors) Unwrap() []error {
	out := make([]error, len(e))
	for i := range e {
		out[i] = e[i]
	}
	return out
}

func (e Errors) sort() {
	slices.SortStableFunc(e, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
