package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/haulier/haulier/store/postgres"
)

func (p *program) storeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "store", Short: "Move, check and prepare stores", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.storeCopyCommand(), p.storeCheckCommand(), p.storeExportCommand(), p.storeImportCommand(), p.storeMigrateCommand())
	return cmd
}

const migrateLong = `Make the tables of a store in PostgreSQL, or bring them up to those of this program.

A server does the same when it starts, unless --no-migrate says that it must not: then its role of the database
needs no right to make tables. Servers that are at work need not stop.`

func (p *program) storeMigrateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "migrate URL", Short: "Make the tables of a store in PostgreSQL, or bring them up to date", Long: migrateLong, Args: cobra.ExactArgs(1),
		Example: `  haulier store migrate postgres://haulier:secret@db.example.com/haulier`,
		RunE: p.plain(func(ctx context.Context, args []string) error {
			scheme, _, _ := strings.Cut(args[0], ":")
			if scheme != "postgres" && scheme != "postgresql" {
				return usagef("%q has no tables: only stores of postgres: have them", scheme)
			}
			from, to, err := postgres.Migrate(ctx, args[0], "")
			if err != nil {
				return err
			}
			if p.settings.json() {
				return p.printJSON(map[string]int{"from": from, "to": to})
			}
			if from == to {
				fmt.Fprintf(p.out, "The tables are of version %d, as they should be.\n", to)
			} else {
				fmt.Fprintf(p.out, "The tables were of version %d and are of version %d now.\n", from, to)
			}
			return nil
		}),
	}
}
