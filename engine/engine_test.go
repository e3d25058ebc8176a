package engine_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/engine/enginetest"
	"github.com/haulier/haulier/store/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEngineOverMem(t *testing.T) {
	enginetest.Run(t, func(*testing.T) haulier.Store { return mem.New() })
}
