package pebble_test

import (
	"testing"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/store/pebble"
	"github.com/haulier/haulier/store/storetest"
)

func TestLanesWithoutJobsAreForgottenAndComeBack(t *testing.T) {
	dir := t.TempDir()
	for round := range 3 {
		s := open(t, dir, pebble.Options{})
		j := newJobs(1)[0]
		j.Type = "once"
		insert(t, s, []haulier.Job{j})
		if err := s.Commit(t.Context(), &haulier.Batch{Delete: []haulier.JobDelete{{ID: j.ID, Expect: j.Rev}}}); err != nil {
			t.Fatal(err)
		}
		kept := newJobs(1)
		insert(t, s, kept)
		storetest.Check(t.Context(), t, s)
		counts, err := s.Counts(t.Context())
		if err != nil || len(counts) != 1 || counts[0].N != int64(round+1) {
			t.Fatalf("round %d: counts are %v, %v", round, counts, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
