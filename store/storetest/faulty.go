package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/haulier/haulier"
)

// Fault is what a Faulty store does to a call.
type Fault uint8

// The faults.
const (
	NoFault    Fault = iota
	FailBefore       // the call fails and has done nothing
	FailAfter        // the call has done its work, and fails nevertheless
)

// Call is a call of a store's method.
type Call struct {
	Method string         // as in haulier.Store
	Batch  *haulier.Batch // of Commit
}

// Faulty is a store whose calls fail as Decide says. Watch, Opened and Close never
// do. Set its fields before its use; it is as safe for concurrent use as they are.
type Faulty struct {
	haulier.Store
	Decide func(Call) Fault // nil: no faults
	Err    error            // what failed calls return, wrapped; nil: haulier.ErrUnavailable
}

var _ haulier.Store = (*Faulty)(nil)

// fail makes the call, unless the fault comes before it.
func (s *Faulty) fail(c Call, call func() error) error {
	fault := NoFault
	if s.Decide != nil {
		fault = s.Decide(c)
	}
	cause := s.Err
	if cause == nil {
		cause = haulier.ErrUnavailable
	}
	if fault == FailBefore {
		return fmt.Errorf("%s: %w (injected, before)", c.Method, cause)
	}
	err := call()
	if fault == FailAfter && err == nil {
		err = fmt.Errorf("%s: %w (injected, after)", c.Method, cause)
	}
	return err
}

// answer makes a call that returns something, which is lost when the call fails.
func answer[T any](s *Faulty, method string, call func() (T, error)) (T, error) {
	var out T
	err := s.fail(Call{Method: method}, func() (err error) {
		out, err = call()
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return out, nil
}

// Commit implements haulier.Store.
func (s *Faulty) Commit(ctx context.Context, b *haulier.Batch) error {
	return s.fail(Call{Method: "Commit", Batch: b}, func() error { return s.Store.Commit(ctx, b) })
}

// Claim implements haulier.Store.
func (s *Faulty) Claim(ctx context.Context, session haulier.ID, by string, takes []haulier.Take) ([]haulier.Job, error) {
	return answer(s, "Claim", func() ([]haulier.Job, error) { return s.Store.Claim(ctx, session, by, takes) })
}

// Bands implements haulier.Store.
func (s *Faulty) Bands(ctx context.Context) ([]haulier.BandHead, error) {
	return answer(s, "Bands", func() ([]haulier.BandHead, error) { return s.Store.Bands(ctx) })
}

// Due implements haulier.Store.
func (s *Faulty) Due(ctx context.Context, limit int) (haulier.Due, error) {
	return answer(s, "Due", func() (haulier.Due, error) { return s.Store.Due(ctx, limit) })
}

// Jobs implements haulier.Store.
func (s *Faulty) Jobs(ctx context.Context, ids []haulier.ID) ([]*haulier.Job, error) {
	return answer(s, "Jobs", func() ([]*haulier.Job, error) { return s.Store.Jobs(ctx, ids) })
}

// List implements haulier.Store.
func (s *Faulty) List(ctx context.Context, q haulier.Query) (haulier.Page, error) {
	return answer(s, "List", func() (haulier.Page, error) { return s.Store.List(ctx, q) })
}

// Counts implements haulier.Store.
func (s *Faulty) Counts(ctx context.Context) ([]haulier.Count, error) {
	return answer(s, "Counts", func() ([]haulier.Count, error) { return s.Store.Counts(ctx) })
}

// Doc implements haulier.Store.
func (s *Faulty) Doc(ctx context.Context, kind haulier.DocKind, key string) (haulier.Doc, error) {
	return answer(s, "Doc", func() (haulier.Doc, error) { return s.Store.Doc(ctx, kind, key) })
}

// Docs implements haulier.Store.
func (s *Faulty) Docs(ctx context.Context, kind haulier.DocKind, prefix, after string, limit int) ([]haulier.Doc, error) {
	return answer(s, "Docs", func() ([]haulier.Doc, error) { return s.Store.Docs(ctx, kind, prefix, after, limit) })
}

// Renew implements haulier.Store.
func (s *Faulty) Renew(ctx context.Context, session haulier.ID, ttl time.Duration) error {
	return s.fail(Call{Method: "Renew"}, func() error { return s.Store.Renew(ctx, session, ttl) })
}

// Now implements haulier.Store.
func (s *Faulty) Now(ctx context.Context) (time.Time, error) {
	return answer(s, "Now", func() (time.Time, error) { return s.Store.Now(ctx) })
}
