package enginetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/haulier/haulier"
)

var counting = []behaviour{
	{"attempts are counted by how they ended, and the counts survive a restart", countsOutcomes},
}

func countsOutcomes(t *testing.T, h *Harness) {
	s := h.openFor("work", "other")
	ends := map[string][]haulier.Outcome{
		"work": {haulier.OutcomeOK, haulier.OutcomeOK, haulier.OutcomeFailed, haulier.OutcomeRetry}, "other": {haulier.OutcomeError, haulier.OutcomeError, haulier.OutcomeOK},
	}
	for typ, all := range ends {
		for _, o := range all {
			h.add(func(s *haulier.Spec) {
				s.Type, s.Backoff = typ, &haulier.Backoff{Constant: haulier.Duration(time.Hour)}
			})
			h.finish(s, h.claimOne(s), o)
		}
	}
	want := "other error 2, other ok 1, work failed 1, work ok 2, work retry 1"
	look := func() string {
		list, err := h.Outcomes(t.Context(), "default")
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, x := range list {
			out = append(out, fmt.Sprint(x.Type, " ", x.Outcome, " ", x.N))
		}
		return strings.Join(out, ", ")
	}
	if got := look(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	h.pass(15 * time.Second)
	h.restart()
	if got := look(); got != want {
		t.Errorf("after a restart %s, want %s", got, want)
	}
	if list, err := h.Outcomes(t.Context(), "nobody"); err != nil || len(list) > 0 {
		t.Errorf("of another tenant: %v, %v", list, err)
	}
}
