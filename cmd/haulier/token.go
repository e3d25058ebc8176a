package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/haulier/haulier"
)

const tokenLong = `Make, list and end tokens, which let programs and people in.

A token has a role: admin (everything), producer (enqueue, read, cancel, retry), worker
(run jobs), viewer (read); and a tenant that it is bound to, or * for all. Its secret is shown
once, when it is made; only a hash of it is kept.

With --data or --store, the command works on the store itself while no server runs on it. That is
how the first token comes to be.`

// tokenFlags are what the token commands share: a store of their own instead of a server.
type tokenFlags struct{ nodeFlags }

func (p *program) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "token", Short: "Make, list and end tokens", Aliases: []string{"tokens"}, Long: tokenLong, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := &tokenFlags{}
	f.registerStore(cmd.PersistentFlags())
	cmd.AddCommand(p.tokenCreateCommand(f), p.tokenListCommand(f), p.tokenRevokeCommand(f))
	return cmd
}

// withTokens runs a command on the server's tokens, or on those of a store when one is named on the command line.
func (p *program) withTokens(f *tokenFlags, do func(ctx context.Context, q haulier.Queue, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed("data") && !cmd.Flags().Changed("store") {
			return p.asking(impatient, do)(cmd, args)
		}
		return p.plain(func(ctx context.Context, args []string) error {
			log, err := (&logFlags{Format: "text", Level: "warn"}).logger(p.errs)
			if err != nil {
				return err
			}
			n, err := openNode(ctx, &f.nodeFlags, &p.settings, log)
			if err != nil {
				return err
			}
			return errors.Join(do(ctx, n.engine, args), n.close())
		})(cmd, args)
	}
}

func (p *program) tokenCreateCommand(f *tokenFlags) *cobra.Command {
	var t haulier.Token
	var role string
	var expires time.Duration
	cmd := &cobra.Command{
		Use: "create", Short: "Make a token and print its secret", Args: cobra.NoArgs,
		Example: `  haulier token create --name ops --role admin --data /var/lib/haulier    # the first one
  haulier token create --name web --role producer --tenant shop
  HAULIER_TOKEN=$(haulier token create --name w1 --role worker) haulier worker`,
	}
	cmd.Flags().StringVar(&t.Name, "name", "", "`NAME` of who or what it is for")
	cmd.Flags().StringVar(&role, "role", "", "`ROLE`: admin, producer, worker or viewer")
	cmd.Flags().DurationVar(&expires, "expires", 0, "`TIME` after which it ends, such as 720h; never unless said")
	_ = cmd.MarkFlagRequired("name") // they are there
	_ = cmd.MarkFlagRequired("role")
	cmd.RunE = p.withTokens(f, func(ctx context.Context, q haulier.Queue, _ []string) error {
		t.Role, t.Tenant = haulier.Role(role), p.settings.Tenant
		if t.Name == localName {
			return usagef("--name %s is what servers call the tokens that they make for their own machine; choose another", localName)
		}
		if expires > 0 {
			t.ExpiresAt = time.Now().Add(expires).UTC().Truncate(time.Second)
		}
		made, secret, err := q.CreateToken(ctx, t)
		if err != nil {
			return err
		}
		if p.settings.json() {
			return p.printJSON(map[string]any{"token": made, "secret": secret})
		}
		fmt.Fprintln(p.out, secret)
		p.say("Token %v for %s: %s of tenant %s. Its secret is not shown again; use it as HAULIER_TOKEN.", made.ID, made.Name, made.Role, made.Tenant)
		return nil
	})
	return cmd
}

func (p *program) tokenListCommand(f *tokenFlags) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List tokens, without their secrets", Aliases: []string{"ls"}, Args: cobra.NoArgs,
		RunE: p.withTokens(f, func(ctx context.Context, q haulier.Queue, _ []string) error {
			tokens, err := q.Tokens(ctx, p.settings.Tenant)
			if err != nil {
				return err
			}
			if p.settings.json() {
				if tokens == nil {
					tokens = []haulier.Token{}
				}
				return p.printJSON(map[string]any{"tokens": tokens})
			}
			if len(tokens) == 0 {
				p.say("No tokens: make one with `haulier token create`.")
				return nil
			}
			t := newTable("ID", "NAME", "ROLE", "TENANT", "CREATED", "EXPIRES")
			now := time.Now()
			for _, k := range tokens {
				t.add(k.ID, k.Name, k.Role, k.Tenant, ago(k.CreatedAt, now), ago(k.ExpiresAt, now))
			}
			t.write(p.out)
			return nil
		}),
	}
}

func (p *program) tokenRevokeCommand(f *tokenFlags) *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID…", Short: "End tokens at once", Args: cobra.MinimumNArgs(1),
		RunE: p.withTokens(f, func(ctx context.Context, q haulier.Queue, args []string) error {
			for _, a := range args {
				id, err := haulier.ParseID(a)
				if err != nil {
					return usagef("%.60q is no id of a token; `haulier token list` shows them", a)
				}
				if err := q.RevokeToken(ctx, p.settings.Tenant, id); err != nil {
					return err
				}
			}
			return p.printDone(map[string]any{"revoked": args}, "%s revoked", count(len(args), "token"))
		}),
	}
}
