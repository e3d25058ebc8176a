package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/haulier/haulier"
)

func (p *program) hooksCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "hooks", Short: "Call addresses before and after jobs are enqueued and run", Aliases: []string{"hook"}, Args: cobra.NoArgs,
		Long: `Call addresses before and after jobs are enqueued and run. Before, a hook can change a job,
refuse it, delay it, or abort it without a failure; docs/hooks.md has what it is sent and may answer.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.hooksSetCommand(), p.hooksListCommand(), p.hooksGetCommand(), p.hooksRemoveCommand(), p.hooksTestCommand())
	return cmd
}

func (p *program) hooksSetCommand() *cobra.Command {
	var h haulier.Hook
	var events []string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "set NAME URL --on EVENT[,EVENT…]", Short: "Make or replace a hook", Args: cobra.ExactArgs(2),
		Example: `  haulier hooks set budget https://ops.example/budget --on before_enqueue --queues gpu
  haulier hooks set audit https://ops.example/audit --on after_enqueue,after_perform --on-error ignore --secret ops`,
	}
	fs := cmd.Flags()
	fs.StringSliceVar(&events, "on", nil, "`EVENTS`: before_enqueue, after_enqueue, before_perform, after_perform")
	fs.StringSliceVar(&h.Queues, "queues", nil, "`NAMES` of the queues whose jobs it is for; all unless said")
	fs.StringSliceVar(&h.Types, "types", nil, "`NAMES` of the types of job that it is for; all unless said")
	fs.DurationVar(&timeout, "timeout", haulier.DefaultHookTimeout, "`TIME` that it may take, at most 30s")
	fs.StringVar((*string)(&h.OnError), "on-error", string(haulier.HookFail), "what it means when the hook can't be asked: `fail`, or ignore")
	fs.StringVar(&h.Secret, "secret", "", "`NAME` of the secret that signs calls; see haulier secrets")
	cmd.RunE = p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
		if len(events) == 0 {
			return usagef("hooks set needs --on with the events, as in --on before_enqueue")
		}
		h.Tenant, h.Name, h.URL, h.Timeout = p.settings.Tenant, args[0], args[1], haulier.Duration(timeout)
		for _, e := range events {
			h.Events = append(h.Events, haulier.HookEvent(e))
		}
		set, err := q.SetHook(ctx, h)
		if err != nil {
			return err
		}
		if p.settings.json() {
			return p.printJSON(set)
		}
		p.say("Hook %s is called %s. Try it with: haulier hooks test %s", set.Name, eventNames(&set), set.Name)
		return nil
	})
	return cmd
}

func eventNames(h *haulier.Hook) string {
	names := make([]string, len(h.Events))
	for i, e := range h.Events {
		names[i] = string(e)
	}
	return strings.Join(names, ", ")
}

func (p *program) hooksListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List hooks, in the order in which they are asked", Aliases: []string{"ls"}, Args: cobra.NoArgs,
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, _ []string) error {
			list, err := q.Hooks(ctx, p.settings.Tenant)
			if err != nil {
				return err
			}
			if p.settings.json() {
				if list == nil {
					list = []haulier.Hook{}
				}
				return p.printJSON(map[string]any{"hooks": list})
			}
			if len(list) == 0 {
				p.say("No hooks: `haulier hooks set` makes them.")
				return nil
			}
			t := newTable("NAME", "URL", "ON", "QUEUES", "TYPES", "ON ERROR", "SECRET")
			for i := range list {
				h := &list[i]
				t.add(h.Name, h.URL, eventNames(h), listed(h.Queues), listed(h.Types), h.OnError, orDash(h.Secret))
			}
			t.write(p.out)
			return nil
		}),
	}
}

func listed(names []string) string {
	if len(names) == 0 {
		return "all"
	}
	return strings.Join(names, ",")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func (p *program) hooksGetCommand() *cobra.Command {
	return &cobra.Command{
		Use: "get NAME", Short: "Show a hook, as the API has it", Args: cobra.ExactArgs(1),
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
			h, err := q.Hook(ctx, p.settings.Tenant, args[0])
			if err != nil {
				return err
			}
			return p.printJSON(h)
		}),
	}
}

func (p *program) hooksRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME", Short: "Remove a hook", Args: cobra.ExactArgs(1),
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
			if err := q.DeleteHook(ctx, p.settings.Tenant, args[0]); err != nil {
				return err
			}
			p.say("Hook %s is removed.", args[0])
			return nil
		}),
	}
}

func (p *program) hooksTestCommand() *cobra.Command {
	var event string
	cmd := &cobra.Command{Use: "test NAME", Short: "Ask a hook about a made-up job", Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVar(&event, "event", "", "`EVENT` at which it is called; the first of its events unless said")
	cmd.RunE = p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
		out, err := q.TestHook(ctx, p.settings.Tenant, args[0], haulier.HookEvent(event))
		if err != nil {
			return err
		}
		if p.settings.json() {
			return p.printJSON(out)
		}
		if out.Error != "" {
			return fmt.Errorf("hook %s: %w: %s", args[0], haulier.ErrRefused, out.Error)
		}
		p.say("It answered %d in %v: %s %s", out.Status, out.Took, out.Action, out.Reason)
		return nil
	})
	return cmd
}
