package main

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/haulier/haulier"
)

func (p *program) handlersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "handlers", Short: "Keep scripts that run the jobs of a type", Aliases: []string{"handler"}, Args: cobra.NoArgs,
		Long: `Keep scripts that run the jobs of a type, in versions.

Workers fetch the newest and run it in processes that stay warm. Jobs are enqueued with
haulier enqueue TYPE --script. What a handler gets and returns stands in docs/handlers.md.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.handlersSetCommand(), p.handlersGetCommand(), p.handlersListCommand(), p.handlersVersionsCommand(), p.handlersRollbackCommand(),
		p.handlersRemoveCommand())
	return cmd
}

func (p *program) handlersSetCommand() *cobra.Command {
	var h haulier.Handler
	var body, before, beforeEach, afterEach string
	cmd := &cobra.Command{
		Use: "set TYPE", Short: "Keep a handler as the next version", Args: cobra.ExactArgs(1),
		Example: `  haulier handlers set thumbnail --lang node --file thumbnail.js
  haulier handlers set report --lang python --file report.py --before connect.py --after-each commit.py
  haulier handlers set fetch --lang sh --file fetch.sh --eid tools`,
	}
	cmd.Flags().StringVar(&h.Lang, "lang", "", "`NAME` of the language: node, python, sh, or what workers have beside these")
	cmd.Flags().StringVar(&body, "file", "", "`FILE` with the script that runs a job; - for standard input")
	cmd.Flags().StringVar(&before, "before", "", "`FILE` with what runs once in each process")
	cmd.Flags().StringVar(&beforeEach, "before-each", "", "`FILE` with what runs before each batch of jobs")
	cmd.Flags().StringVar(&afterEach, "after-each", "", "`FILE` with what runs after each batch; when it fails, the batch's jobs have failed")
	cmd.Flags().StringVar(&h.Engine, "eid", "", "`ID` shared by handlers that may run in one process; this version has its own unless said")
	cmd.RunE = p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
		if h.Lang == "" || body == "" {
			return usagef("give the language with --lang and the script with --file")
		}
		for _, s := range []struct {
			file string
			text *string
		}{{body, &h.Body}, {before, &h.Before}, {beforeEach, &h.BeforeEach}, {afterEach, &h.AfterEach}} {
			if err := p.readScript(s.file, s.text); err != nil {
				return err
			}
		}
		h.Tenant, h.Type = p.settings.Tenant, args[0]
		set, err := q.SetHandler(ctx, h, "")
		if err != nil {
			return err
		}
		return p.printDone(set, "%s: version %d", set.Type, set.Version)
	})
	return cmd
}

// readScript reads a file of a bounded size; "": there is none.
func (p *program) readScript(file string, text *string) error {
	if file == "" {
		return nil
	}
	in, err := p.open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	b, err := io.ReadAll(io.LimitReader(in, haulier.MaxHandlerSource+1))
	*text = string(b)
	return err
}

func (p *program) handlersGetCommand() *cobra.Command {
	var version int
	cmd := &cobra.Command{Use: "get TYPE", Short: "Print the script of a handler", Args: cobra.ExactArgs(1),
		Long: `Print the script of a handler. With --output json, also those that run around jobs.`}
	cmd.Flags().IntVar(&version, "version", 0, "`N` of the version; the newest unless said")
	cmd.RunE = p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
		h, err := q.Handler(ctx, p.settings.Tenant, args[0], version)
		if err != nil {
			return err
		}
		if p.settings.json() {
			return p.printJSON(h)
		}
		_, err = io.WriteString(p.out, h.Body)
		return err
	})
	return cmd
}

func (p *program) handlersListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List handlers, and types whose jobs wait for one", Aliases: []string{"ls"}, Args: cobra.NoArgs,
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, _ []string) error {
			list, err := q.Handlers(ctx, p.settings.Tenant)
			if err != nil {
				return err
			}
			return p.printHandlers(list, "No handlers: `haulier handlers set` makes them.")
		}),
	}
}

func (p *program) handlersVersionsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "versions TYPE", Short: "List the versions of a handler, the newest first", Args: cobra.ExactArgs(1),
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
			list, err := q.HandlerVersions(ctx, p.settings.Tenant, args[0])
			if err != nil {
				return err
			}
			return p.printHandlers(list, "")
		}),
	}
}

func (p *program) printHandlers(list []haulier.Handler, none string) error {
	if p.settings.json() {
		if list == nil {
			list = []haulier.Handler{}
		}
		return p.printJSON(map[string]any{"handlers": list})
	}
	if len(list) == 0 {
		p.say("%s", none)
		return nil
	}
	now := time.Now()
	t := newTable("TYPE", "VERSION", "LANGUAGE", "EID", "SET", "BY", "WAITING").numbers(1, 6)
	for i := range list {
		h := &list[i]
		if h.Version == 0 {
			t.add(h.Type, "none", "", "", "", "", h.Waiting)
			continue
		}
		t.add(h.Type, h.Version, h.Lang, h.Engine, ago(h.SetAt, now), oneLine(h.SetBy), h.Waiting)
	}
	t.write(p.out)
	return nil
}

func (p *program) handlersRollbackCommand() *cobra.Command {
	var version int
	cmd := &cobra.Command{Use: "rollback TYPE", Short: "Make the next version of what an earlier one says", Args: cobra.ExactArgs(1)}
	cmd.Flags().IntVar(&version, "version", 0, "`N` of the earlier version; the one before the newest unless said")
	cmd.RunE = p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
		h, err := q.RollbackHandler(ctx, p.settings.Tenant, args[0], version, "")
		if err != nil {
			return err
		}
		return p.printDone(h, "%s: version %d", h.Type, h.Version)
	})
	return cmd
}

func (p *program) handlersRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "remove TYPE…", Short: "Remove handlers; jobs of the types wait for others", Aliases: []string{"rm"}, Args: cobra.MinimumNArgs(1),
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
			for _, typ := range args {
				if err := q.DeleteHandler(ctx, p.settings.Tenant, typ); err != nil {
					return err
				}
			}
			return p.printDone(map[string]any{"handlers": args}, "%s removed", count(len(args), "handler"))
		}),
	}
}
