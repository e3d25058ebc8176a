package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/haulier/haulier"
)

func (p *program) limitsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "limits", Short: "Limit how many jobs of a key, a queue or a tenant run or start", Aliases: []string{"limit"}, Args: cobra.NoArgs,
		Long: `Limit how many jobs run at once, and how many start in a time.

A limit belongs to a key: one that jobs name with --limit, that of a queue (queue: and its
name), or that of the whole tenant (tenant:). It counts at once, also for jobs that wait already.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.limitsListCommand(), p.limitsSetCommand(), p.limitsClearCommand())
	return cmd
}

func (p *program) limitsListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the keys that have a limit, and how they stand", Aliases: []string{"ls"}, Args: cobra.NoArgs,
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, _ []string) error {
			list, err := q.Limits(ctx, p.settings.Tenant)
			if err != nil {
				return err
			}
			if p.settings.json() {
				if list == nil {
					list = []haulier.KeyStanding{}
				}
				return p.printJSON(map[string]any{"limits": list})
			}
			if len(list) == 0 {
				p.say("No limits: `haulier limits set` makes them.")
				return nil
			}
			t := newTable("KEY", "RUNNING", "RATE", "HELD", "WAITING").numbers(3, 4)
			for i := range list {
				k := &list[i]
				running, rate := "any", "any"
				if k.Running > 0 {
					running = strconv.Itoa(k.Running)
				}
				if k.Rate > 0 {
					rate = fmt.Sprintf("%d/%v", k.Rate, perOf(k.Limit))
				}
				t.add(k.Key, running, rate, k.Held, k.Waiting)
			}
			t.write(p.out)
			return nil
		}),
	}
}

func perOf(l haulier.Limit) haulier.Duration {
	if l.Per == 0 {
		return haulier.Duration(time.Second)
	}
	return l.Per
}

func (p *program) limitsSetCommand() *cobra.Command {
	var running int
	var rate string
	cmd := &cobra.Command{
		Use: "set KEY", Short: "Limit a key, in place of the limit that it has", Args: cobra.ExactArgs(1),
		Example: `  haulier limits set queue:mail --running 10     # at most 10 jobs of the queue at once
  haulier limits set api.example --rate 5/s      # at most 5 starts a second, evenly spread
  haulier limits set tenant: --running 100       # of the whole tenant`,
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
			l := haulier.Limit{Running: running}
			if rate != "" {
				var err error
				if l.Rate, l.Per, err = parseRate(rate); err != nil {
					return err
				}
			}
			if l == (haulier.Limit{}) {
				return usagef("give --running or --rate; `haulier limits clear` takes a limit away")
			}
			if err := q.SetLimit(ctx, p.settings.Tenant, args[0], l); err != nil {
				return fmt.Errorf("limit %s: %w", args[0], err)
			}
			return p.printDone(map[string]any{"key": args[0], "limit": l}, "%s is limited", args[0])
		}),
	}
	cmd.Flags().IntVar(&running, "running", 0, "`N` jobs at most run at once")
	cmd.Flags().StringVar(&rate, "rate", "", "`N/TIME`: at most N jobs start in the time, as in 5/s or 100/1m")
	return cmd
}

// parseRate reads a rate such as 5/s, 100/1m or 5.
func parseRate(s string) (int, haulier.Duration, error) {
	number, per, ok := strings.Cut(s, "/")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 {
		return 0, 0, usagef("--rate: %q is no rate such as 5/s or 100/1m", s)
	}
	if !ok {
		return n, 0, nil
	}
	if per != "" && per[0] >= 'a' {
		per = "1" + per
	}
	d, err := time.ParseDuration(per)
	if err != nil || d <= 0 {
		return 0, 0, usagef("--rate: %q is no rate such as 5/s or 100/1m", s)
	}
	return n, haulier.Duration(d), nil
}

func (p *program) limitsClearCommand() *cobra.Command {
	return &cobra.Command{
		Use: "clear KEY…", Short: "Take limits away", Args: cobra.MinimumNArgs(1),
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
			for _, key := range args {
				if err := q.SetLimit(ctx, p.settings.Tenant, key, haulier.Limit{}); err != nil {
					return fmt.Errorf("limit %s: %w", key, err)
				}
			}
			return p.printDone(map[string]any{"keys": args}, "%s without a limit", count(len(args), "key"))
		}),
	}
}
