package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/engine"
)

const checkLong = `Look through a store for what can't be: jobs that do not stand in exactly one index, counts that are not the
facts, jobs whose session is gone, locks that nobody holds, places in line of nobody, documents of jobs that are gone,
and bytes that do not decode.

Stop all servers of the store before. With --repair, what commits can put right is put right: jobs of sessions that
are gone run again, what belongs to nobody is removed. Indexes and counts that are wrong are built anew by a copy to
a new store. Run it once more after a repair, to see what is left.

The exit code is 0 when nothing was found, and 1 otherwise, also after repairs.`

// checkReport is what the command prints for programs.
type checkReport struct {
	engine.Checked
	Found []engine.Fault `json:"found"`
	More  int64          `json:"more,omitempty"` // faults that are counted and not listed
}

// mostFaults is how many faults are listed in JSON, and so kept in memory.
const mostFaults = 10_000

func (p *program) storeCheckCommand() *cobra.Command {
	repair := false
	cmd := &cobra.Command{
		Use: "check STORE", Short: "Look through a store for what can't be, and repair it", Long: checkLong, Args: cobra.ExactArgs(1),
		Example: `  haulier store check pebble:/var/lib/haulier/store
  haulier store check --repair pebble:/var/lib/haulier/store`,
		RunE: p.plain(func(ctx context.Context, args []string) error {
			return p.atRest(ctx, args[0], func(s haulier.Store) error { return p.checkStore(ctx, s, repair) })
		}),
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "put right what can be")
	return cmd
}

func (p *program) checkStore(ctx context.Context, s haulier.Store, repair bool) error {
	report := checkReport{Found: []engine.Fault{}}
	last := time.Now()
	var err error
	report.Checked, err = engine.Check(ctx, s, engine.CheckOptions{
		Repair: repair,
		Found: func(f engine.Fault) {
			if !p.settings.json() {
				p.tellFault(f)
			} else if len(report.Found) < mostFaults {
				report.Found = append(report.Found, f)
			} else {
				report.More++
			}
		},
		Progress: func(what string, n int64) {
			if time.Since(last) >= time.Second {
				last = time.Now()
				p.say("looked at: %d %s", n, what)
			}
		},
	})
	if err != nil {
		return err
	}
	switch {
	case p.settings.json():
		err = p.printJSON(report)
	case report.Faults == 0:
		fmt.Fprintf(p.out, "Nothing is wrong with %d jobs and %d documents.\n", report.Jobs, report.Docs)
	default:
		fmt.Fprintf(p.out, "%d faults in %d jobs and %d documents, of which %d were repaired.\n", report.Faults, report.Jobs, report.Docs, report.Repaired)
	}
	if err == nil && report.Faults > 0 {
		err = exit(exitFailed)
	}
	return err
}

// tellFault prints a fault for people.
func (p *program) tellFault(f engine.Fault) {
	end := ""
	switch {
	case f.Repaired:
		end = " (repaired)"
	case f.Advice != "":
		end = "\n    What to do: " + f.Advice
	}
	fmt.Fprintf(p.out, "%s %s: %s%s\n", f.What, oneLine(f.Of), oneLine(f.Text), end)
}
