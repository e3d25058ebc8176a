package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/haulier/haulier"
)

func (p *program) batchesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "batches", Short: "Jobs that belong together, and what follows them", Aliases: []string{"batch"}, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.batchesCreateCommand(), p.batchesListCommand(),
		p.batchCommand("get", "Show how a batch stands",
			func(ctx context.Context, q haulier.Queue, tenant string, id haulier.ID) (haulier.BatchStatus, error) {
				return q.GetBatch(ctx, tenant, id)
			}),
		p.batchCommand("close", "Say that no more jobs come: the callbacks may run when all have ended",
			func(ctx context.Context, q haulier.Queue, tenant string, id haulier.ID) (haulier.BatchStatus, error) {
				return q.CloseBatch(ctx, tenant, id, "")
			}),
		p.batchCommand("cancel", "Close a batch, and cancel what has not ended of it", cancelBatch),
		p.batchCommand("wait", "Wait until all jobs of a batch have ended, and its callback for that", awaitBatch))
	return cmd
}

func (p *program) batchesCreateCommand() *cobra.Command {
	var name, onSuccess, onEnd string
	cmd := &cobra.Command{
		Use: "create", Short: "Make an open batch, and print its id", Args: cobra.NoArgs,
		Example: `  B=$(haulier batches create --name import --on-success publish)
  haulier enqueue row --lines rows.txt --batch $B
  haulier batches close $B
  haulier batches wait $B`,
	}
	cmd.Flags().StringVar(&name, "name", "", "`NAME` for people")
	cmd.Flags().StringVar(&onSuccess, "on-success", "", "`TYPE` of a job that is enqueued when all have succeeded")
	cmd.Flags().StringVar(&onEnd, "on-end", "", "`TYPE` of a job that is enqueued when all have ended")
	cmd.RunE = p.asking(patient, func(ctx context.Context, q haulier.Queue, _ []string) error {
		r := haulier.BatchRequest{Tenant: p.settings.Tenant, Name: name, Open: true}
		if onSuccess != "" {
			r.OnSuccess = &haulier.Spec{Type: onSuccess}
		}
		if onEnd != "" {
			r.OnEnd = &haulier.Spec{Type: onEnd}
		}
		b, err := q.CreateBatch(ctx, r)
		if err != nil {
			return err
		}
		if p.settings.json() {
			return p.printJSON(b)
		}
		_, err = fmt.Fprintln(p.out, b.ID)
		return err
	})
	return cmd
}

func (p *program) batchesListCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{Use: "list", Short: "List the newest batches", Aliases: []string{"ls"}, Args: cobra.NoArgs}
	cmd.Flags().IntVar(&limit, "limit", 20, "`N` batches at most")
	cmd.RunE = p.asking(impatient, func(ctx context.Context, q haulier.Queue, _ []string) error {
		list, err := q.ListBatches(ctx, p.settings.Tenant, limit)
		if err != nil {
			return err
		}
		if p.settings.json() {
			if list == nil {
				list = []haulier.BatchStatus{}
			}
			return p.printJSON(map[string]any{"batches": list})
		}
		if len(list) == 0 {
			p.say("No batches: `haulier batches create` makes them.")
			return nil
		}
		p.printBatches(list...)
		return nil
	})
	return cmd
}

func (p *program) printBatches(list ...haulier.BatchStatus) {
	t := newTable("BATCH", "NAME", "MADE", "CLOSED", "JOBS", "ENDED", "FAILED", "PERCENT").numbers(4, 5, 6, 7)
	for i := range list {
		b := &list[i]
		closed := "no"
		if b.Closed {
			closed = "yes"
		}
		t.add(b.ID, b.Name, ago(b.CreatedAt, time.Now()), closed, b.Total, b.Ended, b.Failed, fmt.Sprintf("%.0f", b.Percent))
	}
	t.write(p.out)
}

// batchCommand is a command about one batch, which it shows afterwards.
func (p *program) batchCommand(verb, short string, do func(context.Context, haulier.Queue, string, haulier.ID) (haulier.BatchStatus, error)) *cobra.Command {
	return &cobra.Command{
		Use: verb + " ID", Short: short, Args: cobra.ExactArgs(1),
		RunE: p.asking(patient, func(ctx context.Context, q haulier.Queue, args []string) error {
			id, err := haulier.ParseID(args[0])
			if err != nil {
				return usagef("%v", err)
			}
			b, err := do(ctx, q, p.settings.Tenant, id)
			if err != nil {
				return err
			}
			if p.settings.json() {
				return p.printJSON(b)
			}
			p.printBatches(b)
			return nil
		}),
	}
}

func cancelBatch(ctx context.Context, q haulier.Queue, tenant string, id haulier.ID) (haulier.BatchStatus, error) {
	b, err := q.CloseBatch(ctx, tenant, id, "")
	if err != nil {
		return b, err
	}
	if _, err := q.Cancel(ctx, haulier.Selection{Filter: &haulier.Filter{Tenant: b.Tenant, Group: id.String()}}, "", "its batch was cancelled"); err != nil {
		return b, err
	}
	return q.GetBatch(ctx, tenant, id)
}

func awaitBatch(ctx context.Context, q haulier.Queue, tenant string, id haulier.ID) (haulier.BatchStatus, error) {
	b, err := q.GetBatch(ctx, tenant, id)
	if err != nil {
		return b, err
	}
	if _, err := q.Wait(ctx, b.Tenant, []haulier.ID{b.OnEnd}); err != nil {
		return b, err
	}
	return q.GetBatch(ctx, tenant, id)
}
