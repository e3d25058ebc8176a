package wire_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/wire"
)

var sentinels = map[string]error{
	"not_found": haulier.ErrNotFound, "conflict": haulier.ErrConflict, "lease_lost": haulier.ErrLeaseLost,
	"invalid": haulier.ErrInvalid, "too_large": haulier.ErrTooLarge, "unauthenticated": haulier.ErrUnauthenticated,
	"forbidden": haulier.ErrForbidden, "unavailable": haulier.ErrUnavailable, "corrupt": haulier.ErrCorrupt,
}

func tell(t *testing.T, err error) error {
	t.Helper()
	errs, bad := wire.ParseErrors(wire.AppendErrors(nil, []error{nil, err, nil}))
	if bad != nil || len(errs) != 3 || errs[0] != nil || errs[2] != nil {
		t.Fatalf("ParseErrors: %v, %v", errs, bad)
	}
	return errs[1]
}

func TestErrorsAreWhatTheyWereOnTheOtherSide(t *testing.T) {
	for code, kind := range sentinels {
		err := fmt.Errorf("get job 7: %w: look elsewhere", kind)
		if got := wire.ErrorCode(err); got != code {
			t.Errorf("code of %v: %q, want %q", err, got, code)
		}
		for _, told := range []error{tell(t, err), wire.ErrorOf(code, err.Error())} {
			if !errors.Is(told, kind) || told.Error() != err.Error() {
				t.Errorf("%v became %v", err, told)
			}
			for _, other := range sentinels {
				if errors.Is(told, other) != errors.Is(err, other) {
					t.Errorf("%v: is %v changed", err, other)
				}
			}
		}
	}
}

func TestAnErrorWithoutSentinelIsInternal(t *testing.T) {
	told := tell(t, errors.New("boom"))
	if told.Error() != "boom" || wire.ErrorCode(told) != "internal" {
		t.Errorf("got %v (%s)", told, wire.ErrorCode(told))
	}
	if err := wire.ErrorOf("of_the_future", "new"); err == nil || wire.ErrorCode(err) != "internal" {
		t.Errorf("unknown code: %v", err)
	}
	if wire.ErrorOf("", "text") != nil || wire.ErrorCode(nil) != "" {
		t.Error("no error must stay none")
	}
}

func TestFieldErrorKeepsItsData(t *testing.T) {
	plain := &haulier.FieldError{Field: "jobs[3].priority", Msg: "11 is over 10"}
	large := &haulier.FieldError{Field: "payload", Msg: "too much", Kind: haulier.ErrTooLarge}
	for _, err := range []error{plain, large, fmt.Errorf("enqueue: %w", plain)} {
		told := tell(t, err)
		var got, want *haulier.FieldError
		if !errors.As(told, &got) {
			t.Fatalf("%v became %T %v", err, told, told)
		}
		errors.As(err, &want)
		if *got != *want || told.Error() != err.Error() || !errors.Is(told, haulier.ErrInvalid) {
			t.Errorf("%v became %+v: %v", err, got, told)
		}
		if errors.Is(told, haulier.ErrTooLarge) != errors.Is(err, haulier.ErrTooLarge) {
			t.Errorf("%v: its kind changed", err)
		}
	}
}

func TestRetryAfterKeepsItsDelayAndCause(t *testing.T) {
	cause := fmt.Errorf("queue full: %w", haulier.ErrTooLarge)
	for _, err := range []error{
		&haulier.RetryAfterError{After: 3 * time.Second, Cause: cause},
		fmt.Errorf("enqueue: %w", &haulier.RetryAfterError{After: 3 * time.Second, Cause: cause}),
	} {
		told := tell(t, err)
		var later *haulier.RetryAfterError
		if !errors.As(told, &later) || later.After != 3*time.Second || told.Error() != err.Error() {
			t.Fatalf("%v became %T %v", err, told, told)
		}
		if !errors.Is(told, haulier.ErrUnavailable) || !errors.Is(told, haulier.ErrTooLarge) || wire.ErrorCode(told) != "unavailable" {
			t.Errorf("%v is no longer what it was: %v", err, told)
		}
	}
}

func TestEnqueueResultsComeBack(t *testing.T) {
	ids := make([]haulier.ID, 20)
	haulier.FillIDs(ids, time.Now())
	dropped := []haulier.Dropped{{Reason: "hook h"}, {At: 1}}
	b := wire.AppendEnqueueResults(nil, []haulier.EnqueueResult{{IDs: ids}, {Err: haulier.ErrConflict}, {IDs: ids[:1], Repeated: true}, {}, {IDs: ids, Dropped: dropped}})
	got, err := wire.ParseEnqueueResults(b)
	if err != nil || len(got) != 5 || !slices.Equal(got[4].Dropped, dropped) {
		t.Fatalf("%v, %v", got, err)
	}
	if fmt.Sprint(got[0].IDs) != fmt.Sprint(ids) || !errors.Is(got[1].Err, haulier.ErrConflict) || !got[2].Repeated || got[3].Err != nil {
		t.Errorf("got %+v", got)
	}
}
