package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/haulier/haulier"
)

func (p *program) getCommand() *cobra.Command {
	return &cobra.Command{
		Use: "get ID…", Short: "Show all there is to know of jobs", Aliases: []string{"show"}, Args: cobra.MinimumNArgs(1),
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
			ids, err := parseIDs(args)
			if err != nil {
				return err
			}
			jobs, err := q.Get(ctx, p.settings.Tenant, ids)
			if err != nil {
				return err
			}
			return p.printFull(ids, jobs)
		}),
	}
}

func (p *program) printFull(ids []haulier.ID, jobs []*haulier.Job) error {
	var missing []string
	found := []*haulier.Job{}
	for i, j := range jobs {
		if j == nil {
			missing = append(missing, ids[i].String())
		} else {
			found = append(found, j)
		}
	}
	if p.settings.json() {
		if err := p.printJSON(map[string]any{"jobs": found}); err != nil {
			return err
		}
	} else {
		for i, j := range found {
			if i > 0 {
				fmt.Fprintln(p.out)
			}
			p.printJob(j, time.Now())
		}
	}
	if missing != nil {
		return fmt.Errorf("%w: %s; `haulier jobs list` shows what there is", haulier.ErrNotFound, strings.Join(missing, ", "))
	}
	return nil
}

func (p *program) printJob(j *haulier.Job, now time.Time) {
	field := func(name string, v any) {
		if s := oneLine(fmt.Sprint(v)); s != "" {
			fmt.Fprintf(p.out, "%-11s %s\n", name, s)
		}
	}
	when := func(name string, t time.Time) {
		if !t.IsZero() {
			field(name, stamp(t)+", "+ago(t, now))
		}
	}
	field("job", j.ID)
	field("state", stateWords(j))
	field("reason", j.Reason)
	if j.Error != "" && !strings.Contains(j.Reason, j.Error) {
		field("error", j.Error)
	}
	field("lane", j.Lane())
	field("group", j.Group)
	for _, k := range slices.Sorted(maps.Keys(j.Labels)) {
		field("label", k+"="+j.Labels[k])
	}
	p.printTask(j, field)
	field("priority", j.Priority)
	field("attempt", fmt.Sprintf("%d of %d%s", j.Tries(), j.MaxAttempts, spared(j)))
	field("worker", j.Worker)
	if j.Step != "" || j.Percent > 0 && !j.State.Terminal() {
		field("progress", strings.TrimSpace(fmt.Sprintf("%.0f%% %s", j.Percent, j.Step)))
	}
	if j.Outcome != "" {
		field("outcome", fmt.Sprintf("%s, code %d", j.Outcome, j.Code))
	}
	field("result", clip(string(j.Result), 2000))
	when("created", j.CreatedAt)
	when("due", j.Status.RunAt)
	when("started", j.StartedAt)
	when("finished", j.FinishedAt)
	when("removed", j.PurgeAt)
	field("result blob", j.ResultBlob)
	if j.LogSize > 0 {
		field("output", fmt.Sprintf("%s: haulier jobs logs %v", size(j.LogSize), j.ID))
	}
	p.printHistory(j)
}

func stateWords(j *haulier.Job) string {
	if j.Cancelling {
		return j.State.String() + ", cancelling"
	}
	return j.State.String()
}

func spared(j *haulier.Job) string {
	if j.Spared == 0 {
		return ""
	}
	return fmt.Sprintf(", and %d that did not count", j.Spared)
}

func (p *program) printTask(j *haulier.Job, field func(string, any)) {
	if t := j.Task.Exec; t != nil {
		if t.Shell {
			field("shell", t.Argv[0])
			field("arguments", commandLine(t.Argv[1:]))
		} else {
			field("command", commandLine(t.Argv))
		}
		field("folder", t.Dir)
		if l := t.Limits; l != nil {
			field("limits", limitWords(l))
		}
		for _, k := range slices.Sorted(maps.Keys(t.Env)) {
			field("variable", k+"="+t.Env[k])
		}
	}
	if t := j.Task.Container; t != nil {
		field("container", containerLine(t))
	}
	if a := j.Account; a != nil {
		field("used", accountLine(a))
	}
	if t := j.Task.Wasi; t != nil {
		field("module", t.Module)
		field("arguments", commandLine(t.Args))
		field("stdin", t.Stdin)
	}
	switch {
	case j.Blob != "":
		field("payload", "blob "+j.Blob)
	case len(j.Payload) > 0:
		field("payload", clip(string(j.Payload), 2000))
	}
	if j.Files != nil {
		for i := range j.Inputs {
			in := &j.Inputs[i]
			field("input", strings.TrimSuffix(cmp.Or(in.Fileset, "that of "+in.From)+" in "+in.To, " in "))
		}
		if o := j.Outputs; o != nil && j.OutputVersion > 0 {
			field("saved", haulier.FilesetRef(o.Fileset, j.OutputVersion))
		} else if o != nil {
			field("saves", o.Fileset)
		}
	}
	if j.Timeout > 0 {
		field("timeout", j.Timeout)
	}
}

func (p *program) printHistory(j *haulier.Job) {
	fmt.Fprintln(p.out, "history")
	t := newTable("  AT", "STATE", "BY", "")
	for i, c := range j.History {
		t.add("  "+stamp(c.At), c.State, c.By, c.Step)
		if i == 0 && j.HistoryCut > 0 {
			t.add("  …", "", "", fmt.Sprintf("%d changes left out", j.HistoryCut))
		}
	}
	t.write(p.out)
}

// stamp is an instant to the millisecond, in this machine's zone.
func stamp(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05.000 -0700") }

// size is a number of bytes as people read it.
func size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}
