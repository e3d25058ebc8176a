package e2e_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/haulier/haulier/store/services"
)

var (
	crashRounds   = flag.Int("crash.rounds", 200, "kills in the crash suite; 0: as many as -crash.time admits")
	crashTime     = flag.Duration("crash.time", 2*time.Minute, "the crash suite kills no more after this")
	fleetRounds   = flag.Int("fleet.rounds", 12, "kills over each store in the suite of several servers")
	journalRounds = flag.Int("journal.rounds", 4, "kills over each store in the suite of a server with a journal")
	programPath   = flag.String("program", "", "the haulier program to test; built from the sources unless said")
	crashSeed     = flag.Uint64("crash.seed", 0, "seed of the crash suite's choices; 0: another each time")
)

func TestMain(m *testing.M) {
	if os.Getenv(functionsVariable) != "" {
		os.Exit(runFunctions())
	}
	flag.Parse()
	code := m.Run()
	services.StopRedis()
	services.StopPostgres()
	services.StopEtcd()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// built is the program under test, built once.
var built struct {
	once sync.Once
	dir  string
	path string
	err  error
}

// program returns the path of the haulier program, built from the sources here.
func program(t testing.TB) string {
	t.Helper()
	if *programPath != "" {
		return *programPath
	}
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "haulier-e2e-bin-"); built.err != nil {
			return
		}
		built.path = filepath.Join(built.dir, "haulier")
		out, err := exec.Command("go", "build", "-o", built.path, "../cmd/haulier").CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("build cmd/haulier: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}
