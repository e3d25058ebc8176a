package script_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
	"github.com/haulier/haulier/executor/executortest"
	"github.com/haulier/haulier/executor/script"
)

// TestContract has handlers for the shell that play the steps of a job. The server keeps the output at both ends, not the executor.
func TestContract(t *testing.T) {
	need(t, "sh")
	program, err := executortest.Program("", "")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(filepath.Dir(program))
	r := &rig{shelf: shelf{kept: map[string]haulier.Handler{}}}
	executortest.Run(t, executortest.Setup{
		New: func(*testing.T) executor.Executor { return script.New(script.Config{Source: &r.shelf, Processes: 1}) },
		Task: func(steps ...string) haulier.Task {
			h := r.set(haulier.Handler{Type: "test", Lang: "sh", Scripts: haulier.Scripts{Body: program + " '" + strings.Join(steps, "' '") + "'\n"}})
			return haulier.Task{Script: &haulier.ScriptTask{Version: h.Version, Digest: h.Digest}}
		},
	})
}
