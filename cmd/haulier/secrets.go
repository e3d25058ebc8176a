package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/haulier/haulier"
)

func (p *program) secretsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "secrets", Short: "Keep what signs calls to other addresses", Aliases: []string{"secret"}, Args: cobra.NoArgs,
		Long: `Keep what signs calls to other addresses. Hooks and notifications name a secret; its value
never leaves the server again.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.secretsSetCommand(), p.secretsListCommand(), p.secretsRemoveCommand())
	return cmd
}

func (p *program) secretsSetCommand() *cobra.Command {
	var stdin bool
	cmd := &cobra.Command{
		Use: "set NAME", Short: "Make a secret and print it this once, or keep a given one", Args: cobra.ExactArgs(1),
		Example: `  haulier secrets set ops                     # prints whsec_…
  haulier secrets set ops --stdin < ops.key   # keeps that one`,
	}
	cmd.Flags().BoolVar(&stdin, "stdin", false, "read the secret from standard input")
	cmd.RunE = p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
		value := ""
		if stdin {
			b, err := io.ReadAll(io.LimitReader(p.in, 4<<10))
			if err != nil {
				return err
			}
			if value = strings.TrimSpace(string(b)); value == "" {
				return usagef("--stdin: there is no secret on standard input")
			}
		}
		s, err := q.SetSecret(ctx, p.settings.Tenant, args[0], value)
		if err != nil {
			return err
		}
		switch {
		case p.settings.json():
			return p.printJSON(s)
		case s.Value != "":
			fmt.Fprintln(p.out, s.Value)
			p.say("This is secret %s. It is not shown again: give it to who verifies the signatures.", s.Name)
		default:
			p.say("Secret %s is kept.", s.Name)
		}
		return nil
	})
	return cmd
}

func (p *program) secretsListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the names of secrets", Aliases: []string{"ls"}, Args: cobra.NoArgs,
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, _ []string) error {
			list, err := q.Secrets(ctx, p.settings.Tenant)
			if err != nil {
				return err
			}
			if p.settings.json() {
				if list == nil {
					list = []haulier.Secret{}
				}
				return p.printJSON(map[string]any{"secrets": list})
			}
			if len(list) == 0 {
				p.say("No secrets: `haulier secrets set` makes them.")
				return nil
			}
			now := time.Now()
			t := newTable("NAME", "SET")
			for i := range list {
				t.add(list[i].Name, ago(list[i].UpdatedAt, now))
			}
			t.write(p.out)
			return nil
		}),
	}
}

func (p *program) secretsRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME", Short: "Remove a secret; what is signed with it fails from then on", Args: cobra.ExactArgs(1),
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
			if err := q.DeleteSecret(ctx, p.settings.Tenant, args[0]); err != nil {
				return err
			}
			p.say("Secret %s is removed.", args[0])
			return nil
		}),
	}
}
