package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/haulier/haulier"
)

// pageSize is how many jobs are asked for at once.
const pageSize = 1000

func (p *program) listCommand() *cobra.Command {
	var f filterFlags
	var limit int
	cmd := &cobra.Command{
		Use: "list", Short: "List jobs, the newest first", Aliases: []string{"ls"}, Args: cobra.NoArgs,
		Long: `List jobs: all of them, the newest first, or those that a filter selects, by state.`,
		Example: `  haulier jobs list
  haulier jobs list --state failed --queue mail
  haulier jobs list --group sums --limit 0 -o json`,
	}
	f.register(cmd.Flags())
	cmd.Flags().IntVar(&limit, "limit", 50, "`N` jobs at most; 0 for all")
	cmd.RunE = p.asking(impatient, func(ctx context.Context, q haulier.Queue, _ []string) error {
		filter, err := f.filter(p.settings.Tenant)
		if err != nil {
			return err
		}
		return p.list(ctx, q, filter, limit)
	})
	return cmd
}

func (p *program) list(ctx context.Context, q haulier.Operator, f haulier.Filter, limit int) error {
	var jobs []*haulier.Job
	more, err := eachPage(ctx, q, f, limit, func(page []*haulier.Job) error {
		jobs = append(jobs, page...)
		return nil
	})
	if err != nil {
		return err
	}
	if p.settings.json() {
		if jobs == nil {
			jobs = []*haulier.Job{}
		}
		return p.printJSON(map[string]any{"jobs": jobs, "more": more})
	}
	if len(jobs) == 0 {
		p.say("No jobs.")
		return nil
	}
	p.printJobs(jobs, time.Now())
	if more {
		p.say("There are more: raise --limit, or give a filter.")
	}
	return nil
}

// eachPage calls do with pages of the jobs that the filter selects, up to limit of them when that
// is positive. more: there are others.
func eachPage(ctx context.Context, q haulier.Operator, f haulier.Filter, limit int, do func([]*haulier.Job) error) (more bool, err error) {
	n := 0
	for cursor := ""; ; {
		want := pageSize
		if limit > 0 {
			want = min(pageSize, limit-n)
		}
		page, err := q.List(ctx, f, cursor, want)
		if err != nil {
			return false, err
		}
		n += len(page.Jobs)
		if err := do(page.Jobs); err != nil {
			return false, err
		}
		cursor = page.Next
		if cursor == "" || limit > 0 && n >= limit {
			return cursor != "", nil
		}
	}
}

// printJobs writes a table of jobs. The tenant is shown where there are several.
func (p *program) printJobs(jobs []*haulier.Job, now time.Time) {
	tenants := false
	for _, j := range jobs {
		tenants = tenants || j.Tenant != jobs[0].Tenant
	}
	heads := []string{"ID", "STATE", "QUEUE", "TYPE", "TRIES", "CREATED", "WHAT", "REMARK"}
	if tenants {
		heads = append([]string{"TENANT"}, heads...)
	}
	t := newTable(heads...)
	for _, j := range jobs {
		row := []any{j.ID, j.State, j.Queue, j.Type, fmt.Sprintf("%d/%d", j.Tries(), j.MaxAttempts), ago(j.CreatedAt, now), clip(what(j), 40), clip(remark(j, now), 60)}
		if tenants {
			row = append([]any{j.Tenant}, row...)
		}
		t.add(row...)
	}
	t.write(p.out)
}

// what is the job's work in short: its command or its payload.
func what(j *haulier.Job) string {
	switch {
	case j.Task.Exec != nil && j.Task.Exec.Shell:
		return j.Task.Exec.Argv[0]
	case j.Task.Exec != nil:
		return commandLine(j.Task.Exec.Argv)
	case j.Task.Container != nil:
		return containerLine(j.Task.Container)
	case j.Task.Wasi != nil:
		return commandLine(append([]string{j.Task.Wasi.Module[:min(len(j.Task.Wasi.Module), 12)] + "…"}, j.Task.Wasi.Args...))
	case j.Blob != "":
		return "payload " + j.Blob[:min(len(j.Blob), 12)] + "…"
	}
	return string(j.Payload[:min(len(j.Payload), 200)])
}

// commandLine is a command as one could type it.
func commandLine(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = shellWord(a)
	}
	return strings.Join(words, " ")
}

// remark is the one thing to know of the job as it stands.
func remark(j *haulier.Job, now time.Time) string {
	switch {
	case j.State == haulier.Succeeded:
		return "took " + span(j.FinishedAt.Sub(j.StartedAt))
	case j.Cancelling:
		return "cancelling: " + j.Reason
	case j.State == haulier.Running && j.Percent > 0:
		return fmt.Sprintf("%.0f%% %s", j.Percent, j.Step)
	case j.State.Owned():
		return strings.TrimSpace("on " + j.Worker + " " + j.Step)
	case j.State == haulier.Scheduled:
		return strings.TrimSuffix(ago(j.Status.RunAt, now)+": "+j.Reason, ": ")
	}
	return j.Reason
}
