package mem_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/store/mem"
	"github.com/haulier/haulier/store/storetest"
)

func TestContract(t *testing.T) {
	storetest.Run(t, func(*testing.T) haulier.Store { return mem.New() })
}

func TestOptions(t *testing.T) {
	if mem.New().Opened().ClaimsLost || !mem.Open(mem.Options{ClaimsLost: true}).Opened().ClaimsLost {
		t.Error("Opened does not say what the options said")
	}
}

func TestTimePassesWithTheBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New()
		id := haulier.NewID(time.Now())
		err := s.Commit(t.Context(), &haulier.Batch{Docs: []haulier.DocWrite{{Kind: haulier.DocSession, Key: id.String(), Value: []byte("{}"), Lease: time.Hour}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []int{0, 1} {
			due, err := s.Due(t.Context(), 10)
			if err != nil || len(due.Sessions) != want {
				t.Fatalf("due is %+v, %v: want %d sessions", due, err, want)
			}
			<-time.After(time.Hour)
		}
	})
}

func TestCrew(t *testing.T) {
	storetest.RunCrew(t, func(*testing.T) storetest.Crew { return storetest.Crew{Stores: []haulier.Store{mem.New()}} })
}
