package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/haulier/haulier"
)

func (p *program) whyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "why ID", Short: "Say what a job waits for, or why it ended as it did", Args: cobra.ExactArgs(1),
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
			ids, err := parseIDs(args)
			if err != nil {
				return err
			}
			x, err := q.Why(ctx, p.settings.Tenant, ids[0])
			if err != nil {
				return err
			}
			if p.settings.json() {
				return p.printJSON(x)
			}
			p.printWhy(&x, time.Now())
			return nil
		}),
	}
}

func (p *program) printWhy(x *haulier.Explanation, now time.Time) {
	fmt.Fprintf(p.out, "Job %v is %v since %s.\n", x.Job, x.State, since(x.Since, now))
	for _, r := range x.Reasons {
		fmt.Fprintf(p.out, "  - %s\n", oneLine(r))
	}
	if !x.Expected.IsZero() {
		fmt.Fprintf(p.out, "It can start at %s, %s, at the earliest.\n", stamp(x.Expected), ago(x.Expected, now))
	}
}

// since is how long ago something began.
func since(t, now time.Time) string {
	if d := now.Sub(t); d >= time.Second {
		return span(d)
	}
	return "a moment"
}
