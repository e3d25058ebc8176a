package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/haulier/haulier"
)

// change is one of the commands that change jobs.
type change struct {
	verb, done string
	short      string
	long       string
	reason     bool
	do         func(ctx context.Context, q haulier.Operator, sel haulier.Selection, reason string) (haulier.Changed, error)
}

var changes = []change{
	{
		verb: "cancel", done: "cancelled", short: "Cancel jobs that have not ended", reason: true,
		long: `Cancel jobs. Those that wait end at once. Those that run are asked to end by their
worker, with TERM and after a grace with KILL, and are cancelled when they have.`,
		do: func(ctx context.Context, q haulier.Operator, sel haulier.Selection, reason string) (haulier.Changed, error) {
			return q.Cancel(ctx, sel, "", reason)
		},
	},
	{
		verb: "retry", done: "to run again", short: "Run jobs again, or at once that wait for their time",
		long: `Run jobs again that have ended, or at once those that wait for their time. Attempts are
counted anew. A filter selects what failed or was cancelled, unless --state says otherwise.`,
		do: func(ctx context.Context, q haulier.Operator, sel haulier.Selection, _ string) (haulier.Changed, error) {
			return q.Retry(ctx, sel, "")
		},
	},
	{
		verb: "force", done: "forced", short: "Let jobs start in spite of windows",
		long: `Let jobs start in spite of windows. What else they wait for, they wait for still.`,
		do: func(ctx context.Context, q haulier.Operator, sel haulier.Selection, _ string) (haulier.Changed, error) {
			return q.Force(ctx, sel, "")
		},
	},
	{
		verb: "delete", done: "deleted", short: "Remove jobs that have ended",
		long: `Remove jobs that have ended, with their output. What has not ended must be cancelled first.`,
		do: func(ctx context.Context, q haulier.Operator, sel haulier.Selection, _ string) (haulier.Changed, error) {
			return q.Delete(ctx, sel, "")
		},
	},
}

type changeFlags struct {
	filterFlags
	all    bool
	yes    bool
	reason string
}

func (p *program) changeCommand(c change) *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use: c.verb + " [ID…]", Short: c.short,
		Long: c.long + "\n\nIt takes ids, or a filter; by filter it asks first on a terminal, unless --yes says so.",
		Example: fmt.Sprintf(`  haulier jobs %[1]s 0199c3f0-7d3a-7000-8000-1b2c3d4e5f60
  haulier jobs %[1]s --group sums --yes
  haulier jobs %[1]s --all --queue mail`, c.verb),
	}
	f.register(cmd.Flags())
	cmd.Flags().BoolVar(&f.all, "all", false, "select all jobs, where there is no other filter")
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	if c.reason {
		cmd.Flags().StringVar(&f.reason, "reason", "", "`TEXT` that the jobs' history gets")
	}
	cmd.RunE = p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error { return p.change(ctx, q, &c, &f, args) })
	return cmd
}

func (p *program) change(ctx context.Context, q haulier.Operator, c *change, f *changeFlags, args []string) error {
	sel := haulier.Selection{Tenant: p.settings.Tenant}
	if len(args) > 0 == (f.any() || f.all) {
		return usagef("give ids of jobs, or a filter such as --group (or --all), and not both")
	}
	if len(args) > 0 {
		ids, err := parseIDs(args)
		if err != nil {
			return err
		}
		sel.IDs = ids
	} else {
		filter, err := f.filter(p.settings.Tenant)
		if err != nil {
			return err
		}
		sel.Filter = &filter
		if !f.yes && !p.confirm(fmt.Sprintf("%s %s?", strings.ToUpper(c.verb[:1])+c.verb[1:], f.words())) {
			p.say("Nothing was changed.")
			return exit(exitFailed)
		}
	}
	changed, err := c.do(ctx, q, sel, f.reason)
	if err != nil {
		return err
	}
	return p.printChanged(c, sel.IDs, &changed)
}

// confirm asks a person, where there is one.
func (p *program) confirm(question string) bool {
	f, ok := p.in.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return true
	}
	fmt.Fprintf(p.errs, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(p.in).ReadString('\n')
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

func (p *program) printChanged(c *change, ids []haulier.ID, changed *haulier.Changed) error {
	if p.settings.json() {
		failed := map[string]string{}
		for id, err := range changed.Errors {
			failed[id.String()] = err.Error()
		}
		if err := p.printJSON(map[string]any{"changed": changed.N, "errors": failed}); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(p.out, "%s %s\n", count(changed.N, "job"), c.done)
		for _, id := range ids {
			if err := changed.Errors[id]; err != nil {
				p.say("haulier: %v", err)
			}
		}
	}
	if len(changed.Errors) > 0 {
		return exit(exitFailed)
	}
	return nil
}
