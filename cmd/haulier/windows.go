package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/haulier/haulier"
)

func (p *program) windowsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "windows", Short: "Say when jobs may start, and when not", Aliases: []string{"window"}, Args: cobra.NoArgs,
		Long: `Say when jobs may start, and when not: of queues, of types, or of jobs that name the window.

A job that may not start waits until the window opens; jobs force lets it start all the same.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.windowsListCommand(), p.windowsSetCommand(), p.windowsRemoveCommand())
	return cmd
}

func (p *program) windowsListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List windows, and whether they are closed", Aliases: []string{"ls"}, Args: cobra.NoArgs,
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, _ []string) error {
			list, err := q.Windows(ctx, p.settings.Tenant)
			if err != nil {
				return err
			}
			if p.settings.json() {
				if list == nil {
					list = []haulier.Window{}
				}
				return p.printJSON(map[string]any{"windows": list})
			}
			if len(list) == 0 {
				p.say("No windows: `haulier windows set` makes them.")
				return nil
			}
			now := time.Now()
			t := newTable("NAME", "NOW", "CHANGES", "WAITING", "RULES", "OF").numbers(3)
			for i := range list {
				w := &list[i]
				state := "open"
				if w.Closed {
					state = "closed"
				}
				of := append([]string(nil), w.Queues...)
				for k := range of {
					of[k] = "queue " + of[k]
				}
				for _, typ := range w.Types {
					of = append(of, "type "+typ)
				}
				if len(of) == 0 {
					of = []string{"jobs that name it"}
				}
				t.add(w.Name, state, ago(w.Until, now), w.Frozen, w.Mode+" "+strings.Join(w.Rules, "; "), strings.Join(of, ", "))
			}
			t.write(p.out)
			return nil
		}),
	}
}

const windowSetLong = `Make a window, or replace the one of that name; jobs that wait for it are looked at again at once.

A rule is days and hours of the week (mon-fri 09:00-17:00), a date or several
(2026-12-24/2027-01-01), two instants, or five fields as of cron of which one day is a
question mark (* 9-17 ? * mon-fri).`

func (p *program) windowsSetCommand() *cobra.Command {
	var w haulier.Window
	var freeze, open []string
	cmd := &cobra.Command{
		Use: "set NAME", Short: "Make or change a window", Long: windowSetLong, Args: cobra.ExactArgs(1),
		Example: `  haulier windows set working-hours --freeze 'mon-fri 09:00-17:00' --zone Europe/Berlin --queue deploy
  haulier windows set holidays --freeze 2026-12-24/2027-01-01 --type release --newest
  haulier windows set nights --open 22:00-06:00           # for jobs with --window nights`,
	}
	cmd.Flags().StringArrayVar(&freeze, "freeze", nil, "`RULE` by which no job starts; may be repeated")
	cmd.Flags().StringArrayVar(&open, "open", nil, "`RULE` by which alone jobs start; may be repeated")
	cmd.Flags().StringVar(&w.Zone, "zone", "", "`ZONE` whose clock is meant, as in Europe/Berlin; UTC unless said")
	cmd.Flags().StringSliceVar(&w.Queues, "queue", nil, "`NAMES` of queues whose jobs keep to it")
	cmd.Flags().StringSliceVar(&w.Types, "type", nil, "`NAMES` of types whose jobs keep to it")
	cmd.Flags().BoolVar(&w.Newest, "newest", false, "only the newest job of each queue and type survives a freeze")
	cmd.RunE = p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
		switch {
		case len(freeze) > 0 && len(open) > 0:
			return usagef("--freeze and --open exclude each other: make two windows")
		case len(open) > 0:
			w.Mode, w.Rules = "open", open
		case len(freeze) > 0:
			w.Mode, w.Rules = "freeze", freeze
		default:
			return usagef("give at least one rule with --freeze or --open")
		}
		w.Tenant, w.Name = p.settings.Tenant, args[0]
		set, err := q.SetWindow(ctx, w)
		if err != nil {
			return err
		}
		state := "open"
		if set.Closed {
			state = "closed"
		}
		return p.printDone(set, "%s is %s until %s", set.Name, state, when(set.Until))
	})
	return cmd
}

func (p *program) windowsRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME…", Short: "Remove windows; what waits for them may start", Args: cobra.MinimumNArgs(1),
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
			for _, name := range args {
				if err := q.DeleteWindow(ctx, p.settings.Tenant, name); err != nil {
					return err
				}
			}
			return p.printDone(map[string]any{"windows": args}, "%s removed", count(len(args), "window"))
		}),
	}
}
