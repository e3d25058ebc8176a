package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/haulier/haulier"
)

// asking runs a command that needs the server, and is ended by an interrupt.
func (p *program) asking(how patience, do func(ctx context.Context, q haulier.Queue, args []string) error) func(*cobra.Command, []string) error {
	return p.plain(func(ctx context.Context, args []string) error {
		c, err := p.connect(ctx, how)
		if err != nil {
			return err
		}
		defer c.Close()
		return do(ctx, c, args)
	})
}

func (p *program) jobsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "jobs", Short: "Look at jobs and change them", Aliases: []string{"job"}, Args: cobra.NoArgs,
		Long: `Look at jobs, and cancel, retry or delete them: by their ids, or all that
a filter such as --group or --state selects.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.listCommand(), p.getCommand(), p.logsCommand(), p.whyCommand(), p.waitCommand())
	for _, c := range changes {
		cmd.AddCommand(p.changeCommand(c))
	}
	return cmd
}

// parseIDs reads the ids among the arguments.
func parseIDs(args []string) ([]haulier.ID, error) {
	ids := make([]haulier.ID, len(args))
	for i, a := range args {
		var err error
		if ids[i], err = haulier.ParseID(a); err != nil {
			return nil, usagef("%.60q is no id of a job; `haulier jobs list` shows them", a)
		}
	}
	return ids, nil
}
