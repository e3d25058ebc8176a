package storetest_test

import (
	"errors"
	"testing"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/store/mem"
	"github.com/haulier/haulier/store/storetest"
)

func TestFaulty(t *testing.T) {
	for _, c := range []struct {
		fault storetest.Fault
		fails bool
		docs  int
	}{{storetest.NoFault, false, 1}, {storetest.FailBefore, true, 0}, {storetest.FailAfter, true, 1}} {
		inner := mem.New()
		s := &storetest.Faulty{Store: inner, Decide: func(c2 storetest.Call) storetest.Fault {
			if c2.Method == "Commit" && len(c2.Batch.Docs) == 1 {
				return c.fault
			}
			return storetest.NoFault
		}}
		err := s.Commit(t.Context(), &haulier.Batch{Docs: []haulier.DocWrite{{Kind: "other", Key: "k", Value: []byte("x")}}})
		if errors.Is(err, haulier.ErrUnavailable) != c.fails {
			t.Errorf("fault %d: error is %v", c.fault, err)
		}
		docs, err := s.Docs(t.Context(), "other", "", "", 10)
		if err != nil || len(docs) != c.docs {
			t.Errorf("fault %d: %d documents, %v: want %d", c.fault, len(docs), err, c.docs)
		}
	}
}

func TestFaultyWithoutFaultsKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(*testing.T) haulier.Store { return &storetest.Faulty{Store: mem.New()} })
}
