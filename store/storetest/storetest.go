// Package storetest is the contract of haulier.Store as tests: every driver must pass
// Run, and one that keeps its data over a close also RunDurable. Check looks
// over a store that is at rest, and Faulty makes a store's calls fail.
package storetest

import (
	"testing"

	"github.com/haulier/haulier"
)

// TB is what the helpers need of *testing.T, which *rapid.T also has.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Run tests that a driver keeps the contract of haulier.Store. open returns a
// new, empty store at each call; the suite closes it, and a second Close must do no harm.
//
// Random histories are compared with store/mem; they take rapid's flags
// (-rapid.checks, -rapid.seed), and a failure prints the shortest history and its seed.
func Run(t *testing.T, open func(t *testing.T) haulier.Store) {
	topics := []struct {
		name  string
		tests []test
	}{
		{"commit", commitTests},
		{"claim", claimTests},
		{"list", listTests},
		{"index", indexTests},
		{"due", dueTests},
		{"sessions", sessionTests},
		{"documents", docTests},
		{"watch", watchTests},
		{"close", closeTests},
		{"many clients", crowdTests},
	}
	for _, topic := range topics {
		t.Run(topic.name, func(t *testing.T) {
			for _, c := range topic.tests {
				t.Run(c.name, func(t *testing.T) { c.run(t, fill(t, open(t))) })
			}
		})
	}
	t.Run("random histories agree with the model", func(t *testing.T) { testHistories(t, open) })
}

// RunDurable tests what a driver promises over a close and another open of the
// same folder. open opens the store that lives in dir, new or not; the suite closes it.
func RunDurable(t *testing.T, open func(t *testing.T, dir string) haulier.Store) {
	for _, c := range durableTests {
		t.Run(c.name, func(t *testing.T) { c.run(t, t.TempDir(), open) })
	}
	t.Run("random histories with reopening agree with the model", func(t *testing.T) { testReopening(t, open) })
}

// test is one sentence of the contract.
type test struct {
	name string
	run  func(t *testing.T, f *fixture)
}
