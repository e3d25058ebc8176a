package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/client"
	"github.com/haulier/haulier/worker"
)

// functionsVariable in the environment makes this test program a worker of Go
// functions instead; its value is a functionsConfig as JSON.
const functionsVariable = "HAULIER_E2E_FUNCTIONS"

type functionsConfig struct {
	URL, Name, Dir, Ledger string
}

// errand is the payload of the functions' jobs.
type errand struct {
	Millis int  `json:"millis"` // how long it takes
	Child  bool `json:"child"`  // its finish adds another errand
}

// runFunctions is a program as users write it: a worker with a function in it. It returns its exit code.
func runFunctions() int {
	var c functionsConfig
	if err := json.Unmarshal([]byte(os.Getenv(functionsVariable)), &c); err != nil {
		fmt.Fprintln(os.Stderr, functionsVariable, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	queue, err := client.New(client.Config{URL: c.URL})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer queue.Close()
	w, err := worker.New(worker.Config{
		Consumer: queue, Name: c.Name, Dir: c.Dir, Concurrency: 8, Lease: lease,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	haulier.Handle(w, "errand", func(ctx context.Context, job *haulier.Job, e errand) error {
		return e.run(ctx, job, c.Ledger)
	})
	if err := w.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (e errand) run(ctx context.Context, job *haulier.Job, ledger string) error {
	ref := haulier.Ref{Job: job.ID, Attempt: job.Attempt}
	if err := mark(ledger, "begin", ref); err != nil {
		return err
	}
	select {
	case <-time.After(time.Duration(e.Millis) * time.Millisecond):
	case <-ctx.Done():
		return ctx.Err()
	}
	if e.Child {
		haulier.Then(ctx, haulier.Spec{Type: "errand", MaxAttempts: attempts, Labels: map[string]string{"child": "yes"}})
	}
	return mark(ledger, "end", ref)
}

// workFunctions starts this test program as a worker of Go functions.
func (s *site) workFunctions(name string) *process {
	s.t.Helper()
	c, err := json.Marshal(functionsConfig{URL: s.url, Name: name, Dir: s.path(name), Ledger: s.ledger})
	if err != nil {
		s.t.Fatal(err)
	}
	// The argument does nothing but name the site in the list of processes.
	return startAt(s.t, s.at, s.path(name+".log"), []string{functionsVariable + "=" + string(c)}, os.Args[0], "-site="+s.dir)
}
