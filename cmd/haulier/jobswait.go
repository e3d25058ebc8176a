package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/haulier/haulier"
)

const waitLong = `Wait until jobs have ended: those with the ids, or those that a filter
selects and that have not ended yet. It ends with 0 when all of them succeeded, and with 1 when any did not,
or when --timeout is over first.`

func (p *program) waitCommand() *cobra.Command {
	var f filterFlags
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "wait [ID…]", Short: "Wait until jobs have ended", Long: waitLong,
		Example: `  haulier jobs wait $(haulier enqueue mail --lines letters.txt)
  haulier jobs wait --group sums --timeout 1h`,
	}
	f.register(cmd.Flags())
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "`TIME` to wait at most")
	cmd.RunE = p.asking(patient, func(ctx context.Context, q haulier.Queue, args []string) error {
		if timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, timeout, errTimeout)
			defer cancel()
		}
		ids, err := p.chosen(ctx, q, &f, args)
		if err != nil {
			return err
		}
		err = p.wait(ctx, q, ids)
		if context.Cause(ctx) == errTimeout { //nolint:errorlint // it is this very value
			return fmt.Errorf("%w after %v: not all of the jobs have ended; `haulier jobs why ID` says what one waits for", errTimeout, timeout)
		}
		return err
	})
	return cmd
}

var errTimeout = errors.New("time is up")

// chosen are the ids among the arguments, or those of the jobs that the filter selects and that have not ended.
func (p *program) chosen(ctx context.Context, q haulier.Operator, f *filterFlags, args []string) ([]haulier.ID, error) {
	if len(args) > 0 == f.any() {
		return nil, usagef("give ids of jobs, or a filter such as --group, and not both")
	}
	if len(args) > 0 {
		return parseIDs(args)
	}
	filter, err := f.filter(p.settings.Tenant)
	if err != nil {
		return nil, err
	}
	if len(filter.States) == 0 {
		filter.States = slices.DeleteFunc(slices.Clone(haulier.States), haulier.State.Terminal)
	}
	var ids []haulier.ID
	_, err = eachPage(ctx, q, filter, 0, func(page []*haulier.Job) error {
		for _, j := range page {
			ids = append(ids, j.ID)
		}
		return nil
	})
	return ids, err
}

func (p *program) wait(ctx context.Context, q haulier.Operator, ids []haulier.ID) error {
	jobs := []*haulier.Job{}
	bad := 0
	for part := range slices.Chunk(ids, pageSize) {
		ended, err := q.Wait(ctx, p.settings.Tenant, part)
		if err != nil {
			return err
		}
		for i, j := range ended {
			if j == nil {
				p.say("haulier: there is no job %v any more", part[i])
				bad++
				continue
			}
			if j.State != haulier.Succeeded {
				bad++
			}
			jobs = append(jobs, j)
		}
	}
	switch {
	case p.settings.json():
		if err := p.printJSON(map[string]any{"jobs": jobs}); err != nil {
			return err
		}
	case len(jobs) > 0:
		p.printJobs(jobs, time.Now())
	}
	if bad > 0 {
		p.say("haulier: %d of %s did not succeed", bad, count(len(ids), "job"))
		return exit(exitFailed)
	}
	return nil
}
