package storetest_test

import (
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/store/storetest"
)

// TestHistories judges histories of which is known whether a store may answer so.
func TestHistories(t *testing.T) {
	type history []porcupine.Operation
	session := storetest.Write(0, 1, storetest.Session, 0, "s", storetest.Done)
	for name, c := range map[string]struct {
		right   bool
		history history
	}{
		"a read during a write sees it or not": {true, history{
			storetest.Write(0, 10, storetest.Doc, 0, "a", storetest.Done), storetest.Read(1, 2, storetest.Doc, 0, ""), storetest.Read(3, 4, storetest.Doc, 1, "a"), storetest.Read(5, 6, storetest.Doc, 1, "a")}},
		"a read goes back":                          {false, history{storetest.Write(0, 10, storetest.Doc, 0, "a", storetest.Done), storetest.Read(1, 2, storetest.Doc, 1, "a"), storetest.Read(3, 4, storetest.Doc, 0, "")}},
		"a read is stale":                           {false, history{storetest.Write(0, 1, storetest.Doc, 0, "a", storetest.Done), storetest.Read(2, 3, storetest.Doc, 0, "")}},
		"of two writes at one revision one is done": {true, history{storetest.Write(0, 9, storetest.Doc, 0, "a", storetest.Done), storetest.Write(0, 9, storetest.Doc, 0, "b", storetest.Conflict)}},
		"both are":                                  {false, history{storetest.Write(0, 9, storetest.Doc, 0, "a", storetest.Done), storetest.Write(0, 9, storetest.Doc, 0, "b", storetest.Done)}},
		"neither is":                                {false, history{storetest.Write(0, 9, storetest.Doc, 0, "a", storetest.Conflict), storetest.Write(0, 9, storetest.Doc, 0, "b", storetest.Conflict)}},
		"a conflict has written":                    {false, history{storetest.Write(0, 1, storetest.Doc, 1, "a", storetest.Conflict), storetest.Read(2, 3, storetest.Doc, 2, "a")}},
		"half of a batch is seen": {false, history{
			storetest.WriteBoth(0, 9, storetest.Doc, storetest.Doc2, "a"), storetest.Read(1, 2, storetest.Doc, 1, "a"), storetest.Read(3, 4, storetest.Doc2, 0, "")}},
		"without an answer it may be done late":   {true, history{storetest.Write(0, storetest.Never, storetest.Doc, 0, "a", storetest.NoAnswer), storetest.Read(5, 6, storetest.Doc, 0, ""), storetest.Read(7, 8, storetest.Doc, 1, "a")}},
		"or never":                                {true, history{storetest.Write(0, storetest.Never, storetest.Doc, 0, "a", storetest.NoAnswer), storetest.Read(5, 6, storetest.Doc, 0, "")}},
		"but not be undone":                       {false, history{storetest.Write(0, storetest.Never, storetest.Doc, 0, "a", storetest.NoAnswer), storetest.Read(5, 6, storetest.Doc, 1, "a"), storetest.Read(7, 8, storetest.Doc, 0, "")}},
		"nor be done twice":                       {false, history{storetest.Write(0, storetest.Never, storetest.Doc, haulier.AnyRev, "a", storetest.NoAnswer), storetest.Read(5, 6, storetest.Doc, 2, "a")}},
		"a claim takes a job":                     {true, history{session, storetest.Write(0, 1, storetest.Job, 0, "j", storetest.Done), storetest.Claimed(2, 3, storetest.Job, 2, "c")}},
		"two take it":                             {false, history{session, storetest.Write(0, 1, storetest.Job, 0, "j", storetest.Done), storetest.Claimed(2, 9, storetest.Job, 2, "c"), storetest.Claimed(2, 9, storetest.Job, 2, "d")}},
		"a session that is not there takes a job": {false, history{storetest.Write(0, 1, storetest.Job, 0, "j", storetest.Done), storetest.Claimed(2, 3, storetest.Job, 2, "c")}},
	} {
		if storetest.Explainable(c.history...) != c.right {
			t.Errorf("%s: judged to be the other of right and wrong", name)
		}
	}
}
