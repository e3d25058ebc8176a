package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/haulier/haulier"
)

func (p *program) queuesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "queues", Short: "Look at queues, pause and weigh them", Aliases: []string{"queue"}, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.queuesListCommand(),
		p.pauseCommand("pause", true, "Hand out no more jobs of queues; what runs goes on"),
		p.pauseCommand("resume", false, "Hand out jobs of paused queues again"),
		p.weightCommand(), p.outcomesCommand())
	return cmd
}

func (p *program) queuesListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List queues with their numbers of jobs", Aliases: []string{"ls"}, Args: cobra.NoArgs,
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, _ []string) error {
			queues, err := q.Queues(ctx, p.settings.Tenant)
			if err != nil {
				return err
			}
			if p.settings.json() {
				if queues == nil {
					queues = []haulier.QueueStatus{}
				}
				return p.printJSON(map[string]any{"queues": queues})
			}
			p.printQueues(queues, time.Now())
			return nil
		}),
	}
}

func (p *program) printQueues(queues []haulier.QueueStatus, now time.Time) {
	if len(queues) == 0 {
		p.say("No queues: they come with their first jobs.")
		return
	}
	t := newTable("TENANT", "QUEUE", "PENDING", "RUNNING", "LATER", "DONE", "FAILED", "WEIGHT", "OLDEST", "REMARK").numbers(2, 3, 4, 5, 6, 7)
	for _, q := range queues {
		n := func(states ...haulier.State) (sum int64) {
			for _, s := range states {
				sum += q.Counts[s.String()]
			}
			return sum
		}
		remark := ""
		if q.Paused {
			remark = "paused " + ago(q.PausedAt, now)
			if q.PausedBy != "" {
				remark += " by " + q.PausedBy
			}
		}
		t.add(q.Tenant, q.Queue, n(haulier.Pending), n(haulier.Claimed, haulier.Running), n(haulier.Scheduled, haulier.Blocked),
			n(haulier.Succeeded, haulier.Cancelled, haulier.Collapsed), n(haulier.Failed), max(q.Weight, 1), ago(q.Oldest, now), remark)
	}
	t.write(p.out)
}

func (p *program) pauseCommand(verb string, paused bool, short string) *cobra.Command {
	return &cobra.Command{
		Use: verb + " QUEUE…", Short: short, Args: cobra.MinimumNArgs(1),
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
			for _, name := range args {
				if err := q.PauseQueue(ctx, p.settings.Tenant, name, paused, ""); err != nil {
					return fmt.Errorf("queue %s: %w", name, err)
				}
			}
			return p.printDone(map[string]any{"queues": args, "paused": paused}, "%s %sd", count(len(args), "queue"), verb)
		}),
	}
}

func (p *program) weightCommand() *cobra.Command {
	return &cobra.Command{
		Use: "weight QUEUE N", Short: "Give a queue a share, from 1 to 100, among those of equal priority", Args: cobra.ExactArgs(2),
		Example: "  haulier queues weight mail 5     # five jobs of mail for one of a queue of weight 1",
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
			n, err := strconv.Atoi(args[1])
			if err != nil || n < 1 || n > 100 {
				return usagef("the weight %q is no number from 1 to 100", args[1])
			}
			if err := q.WeighQueue(ctx, p.settings.Tenant, args[0], n, ""); err != nil {
				return fmt.Errorf("queue %s: %w", args[0], err)
			}
			return p.printDone(map[string]any{"queue": args[0], "weight": n}, "queue %s has the weight %d", args[0], n)
		}),
	}
}

// printDone tells of a change: a line for people, a value for tools.
func (p *program) printDone(v any, format string, args ...any) error {
	if p.settings.json() {
		return p.printJSON(v)
	}
	fmt.Fprintf(p.out, format+"\n", args...)
	return nil
}

func (p *program) outcomesCommand() *cobra.Command {
	return &cobra.Command{
		Use: "outcomes", Short: "Show how often attempts ended how, by queue and type", Args: cobra.NoArgs,
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, _ []string) error {
			list, err := q.Outcomes(ctx, p.settings.Tenant)
			if err != nil {
				return err
			}
			if p.settings.json() {
				if list == nil {
					list = []haulier.OutcomeCount{}
				}
				return p.printJSON(map[string]any{"outcomes": list})
			}
			if len(list) == 0 {
				p.say("No attempts have ended yet.")
				return nil
			}
			t := newTable("TENANT", "QUEUE", "TYPE", "OK", "FAILED", "RETRY", "ERROR").numbers(3, 4, 5, 6)
			for i := 0; i < len(list); {
				x := list[i]
				n := map[haulier.Outcome]int64{}
				for ; i < len(list) && list[i].Tenant == x.Tenant && list[i].Queue == x.Queue && list[i].Type == x.Type; i++ {
					n[list[i].Outcome] = list[i].N
				}
				t.add(x.Tenant, x.Queue, x.Type, n[haulier.OutcomeOK], n[haulier.OutcomeFailed], n[haulier.OutcomeRetry], n[haulier.OutcomeError])
			}
			t.write(p.out)
			return nil
		}),
	}
}
