package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/workflow"
)

func (p *program) workflowsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "workflows", Short: "Keep and start workflows: jobs in order", Aliases: []string{"workflow", "wf"}, Args: cobra.NoArgs,
		Long: `Keep and start workflows: texts that say which jobs run in which order.

A run is named by its workflow and its number, as in build-42. The syntax is in docs/workflows.md.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.workflowsApplyCommand(), p.workflowsCheckCommand(), p.workflowsListCommand(), p.workflowsGetCommand(), p.workflowsGraphCommand(),
		p.workflowsStartCommand(), p.workflowsRunsCommand(), p.workflowsRunCommand(), p.workflowsCancelCommand(), p.workflowsRetryCommand(), p.workflowsRemoveCommand())
	return cmd
}

// readWorkflow reads a text and tells what is wrong with it by file and line.
func (p *program) readWorkflow(file string) (name, source string, w *workflow.Workflow, err error) {
	in, err := p.open(file)
	if err != nil {
		return "", "", nil, err
	}
	defer in.Close()
	b, err := io.ReadAll(io.LimitReader(in, workflow.MaxSource+1))
	if err != nil {
		return "", "", nil, err
	}
	w, err = workflow.Parse(b)
	var faults workflow.Errors
	if errors.As(err, &faults) {
		lines := make([]string, len(faults))
		for i, f := range faults {
			lines[i] = fmt.Sprintf("%s:%d:%d: %s", file, f.Line, f.Column, f.Msg)
		}
		return "", "", nil, fmt.Errorf("%w", &refusedText{strings.Join(lines, "\n"), err})
	}
	if err != nil {
		return "", "", nil, fmt.Errorf("%s: %w", file, err)
	}
	if name = w.Name; name == "" && file != "-" {
		name = strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	}
	w.Name = name
	return name, string(b), w, nil
}

// refusedText is what is wrong with a file.
type refusedText struct {
	text string
	err  error
}

func (e *refusedText) Error() string { return e.text }
func (e *refusedText) Unwrap() error { return e.err }

func (p *program) workflowsApplyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "apply FILE…", Short: "Keep workflows, each in a new version if its text is new", Args: cobra.MinimumNArgs(1),
		Long: `Keep workflows, each in a new version if its text is new.

The name is the one in the text, or that of the file; - is standard input.`,
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
			var all []haulier.Workflow
			for _, file := range args {
				name, source, _, err := p.readWorkflow(file)
				if err != nil {
					return err
				}
				if name == "" {
					return usagef("the text has no name: write name: NAME in it")
				}
				w, err := q.ApplyWorkflow(ctx, p.settings.Tenant, name, source, "")
				if err != nil {
					return fmt.Errorf("%s: %w", file, err)
				}
				all = append(all, w)
				if !p.settings.json() {
					p.say("%s: version %d", w.Name, w.Version)
				}
			}
			if p.settings.json() {
				return p.printJSON(map[string]any{"workflows": all})
			}
			return nil
		}),
	}
}

func (p *program) workflowsCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use: "check FILE…", Short: "Tell what is wrong with texts, without a server", Args: cobra.MinimumNArgs(1),
		RunE: p.plain(func(_ context.Context, args []string) error {
			var all []error
			for _, file := range args {
				_, _, _, err := p.readWorkflow(file)
				all = append(all, err)
			}
			return errors.Join(all...)
		}),
	}
}

func (p *program) workflowsListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List workflows", Aliases: []string{"ls"}, Args: cobra.NoArgs,
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, _ []string) error {
			list, err := q.Workflows(ctx, p.settings.Tenant)
			if err != nil {
				return err
			}
			if p.settings.json() {
				if list == nil {
					list = []haulier.Workflow{}
				}
				return p.printJSON(map[string]any{"workflows": list})
			}
			if len(list) == 0 {
				p.say("No workflows: `haulier workflows apply` keeps them.")
				return nil
			}
			t := newTable("NAME", "VERSION", "JOBS", "RUNS", "APPLIED", "STARTED BY").numbers(1, 2, 3)
			for i := range list {
				w := &list[i]
				t.add(w.Name, w.Version, len(w.Jobs), w.Runs, ago(w.AppliedAt, time.Now()), strings.Join(w.Events, ", "))
			}
			t.write(p.out)
			return nil
		}),
	}
}

func (p *program) workflowsGetCommand() *cobra.Command {
	var version int
	cmd := &cobra.Command{Use: "get NAME", Short: "Print the text of a workflow", Args: cobra.ExactArgs(1)}
	cmd.Flags().IntVar(&version, "version", 0, "`N` of the version; the newest unless said")
	cmd.RunE = p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
		w, err := q.Workflow(ctx, p.settings.Tenant, args[0], version)
		if err != nil {
			return err
		}
		if p.settings.json() {
			return p.printJSON(w)
		}
		_, err = io.WriteString(p.out, w.Source)
		return err
	})
	return cmd
}

func (p *program) workflowsGraphCommand() *cobra.Command {
	var svg bool
	cmd := &cobra.Command{
		Use: "graph NAME|RUN|FILE", Short: "Draw a workflow, or a run with the states of its jobs", Args: cobra.ExactArgs(1),
		Example: `  haulier workflows graph build
  haulier workflows graph build-42
  haulier workflows graph ./build.yaml --svg > build.svg     # without a server`,
	}
	cmd.Flags().BoolVar(&svg, "svg", false, "draw an SVG picture instead of text")
	asked := p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
		drawn, err := q.WorkflowGraph(ctx, p.settings.Tenant, args[0], "", svg)
		if errors.Is(err, haulier.ErrNotFound) {
			drawn, err = q.WorkflowGraph(ctx, p.settings.Tenant, "", args[0], svg)
		}
		if err != nil {
			return err
		}
		_, err = io.WriteString(p.out, drawn)
		return err
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if info, err := os.Stat(args[0]); err != nil || info.IsDir() {
			return asked(cmd, args)
		}
		return p.plain(func(context.Context, []string) error {
			_, _, w, err := p.readWorkflow(args[0])
			if err != nil {
				return err
			}
			drawn := w.Graph().Text(nil)
			if svg {
				drawn = w.Graph().SVG(nil)
			}
			_, err = io.WriteString(p.out, drawn)
			return err
		})(cmd, args)
	}
	return cmd
}

func (p *program) workflowsStartCommand() *cobra.Command {
	var r haulier.RunRequest
	var payload string
	var wait bool
	cmd := &cobra.Command{
		Use: "start NAME", Short: "Start a run, and print its name", Args: cobra.ExactArgs(1),
		Example: `  haulier workflows start build --payload '{"commit":"4711"}' --wait
  haulier workflows start build --from deploy`,
	}
	cmd.Flags().StringVar(&r.From, "from", "", "`JOB` at which it starts; what comes before it is left out")
	cmd.Flags().StringVar(&payload, "payload", "", "`TEXT` for the jobs that come first; JSON for most functions")
	cmd.Flags().IntVar(&r.Version, "version", 0, "`N` of the version; the newest unless said")
	cmd.Flags().BoolVar(&r.Force, "force", false, "start in spite of windows")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the run has ended, and fail if it has not succeeded")
	cmd.RunE = p.asking(patient, func(ctx context.Context, q haulier.Queue, args []string) error {
		r.Tenant, r.Workflow, r.Payload = p.settings.Tenant, args[0], []byte(payload)
		run, err := q.StartRun(ctx, r)
		if err != nil {
			return err
		}
		if p.settings.json() {
			err = p.printJSON(run)
		} else {
			_, err = fmt.Fprintln(p.out, run.ID)
		}
		if err != nil || !wait {
			return err
		}
		return p.awaitRun(ctx, q, run)
	})
	return cmd
}

// awaitRun waits for all jobs of a run.
func (p *program) awaitRun(ctx context.Context, q haulier.Queue, run haulier.Run) error {
	run, err := q.GetRun(ctx, run.Tenant, run.ID)
	if err != nil {
		return err
	}
	ids := []haulier.ID{run.End}
	for _, j := range run.Jobs {
		ids = append(ids, j.ID)
	}
	if _, err := q.Wait(ctx, run.Tenant, ids); err != nil {
		return err
	}
	if run, err = q.GetRun(ctx, run.Tenant, run.ID); err != nil {
		return err
	}
	if run.State != haulier.RunSucceeded {
		return fmt.Errorf("run %s has %s: `haulier workflows run %s` shows its jobs", run.ID, run.State, run.ID)
	}
	return nil
}

func (p *program) workflowsRunsCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{Use: "runs NAME", Short: "List the newest runs of a workflow", Args: cobra.ExactArgs(1)}
	cmd.Flags().IntVar(&limit, "limit", 20, "`N` runs at most")
	cmd.RunE = p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
		list, err := q.Runs(ctx, p.settings.Tenant, args[0], limit)
		if err != nil {
			return err
		}
		if p.settings.json() {
			if list == nil {
				list = []haulier.Run{}
			}
			return p.printJSON(map[string]any{"runs": list})
		}
		if len(list) == 0 {
			p.say("No runs: `haulier workflows start %s` starts one.", args[0])
			return nil
		}
		t := newTable("RUN", "VERSION", "STATE", "STARTED", "BY").numbers(1)
		for i := range list {
			r := &list[i]
			t.add(r.ID, r.Version, r.State, ago(r.StartedAt, time.Now()), oneLine(r.StartedBy))
		}
		t.write(p.out)
		return nil
	})
	return cmd
}

func (p *program) workflowsRunCommand() *cobra.Command {
	return &cobra.Command{
		Use: "run RUN", Short: "Show a run: its graph and its jobs", Args: cobra.ExactArgs(1),
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
			r, err := q.GetRun(ctx, p.settings.Tenant, args[0])
			if err != nil {
				return err
			}
			if p.settings.json() {
				return p.printJSON(r)
			}
			drawn, err := q.WorkflowGraph(ctx, p.settings.Tenant, "", r.ID, false)
			if err != nil {
				return err
			}
			fmt.Fprintf(p.out, "%s: %s, version %d, started %s by %s\n\n%s\n", r.ID, r.State, r.Version, ago(r.StartedAt, time.Now()), r.StartedBy, drawn)
			t := newTable("JOB", "STATE", "ID")
			for _, j := range r.Jobs {
				t.add(j.Ref, j.State, j.ID)
			}
			t.write(p.out)
			return nil
		}),
	}
}

func (p *program) workflowsCancelCommand() *cobra.Command {
	return &cobra.Command{
		Use: "cancel RUN", Short: "Cancel what has not ended of a run", Args: cobra.ExactArgs(1),
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
			c, err := q.CancelRun(ctx, p.settings.Tenant, args[0], "", "")
			if err != nil {
				return err
			}
			return p.printDone(map[string]any{"changed": c.N}, "%s cancelled", count(c.N, "job"))
		}),
	}
}

func (p *program) workflowsRetryCommand() *cobra.Command {
	return &cobra.Command{
		Use: "retry RUN", Short: "Run again what has failed in a run; what depends on it comes back", Args: cobra.ExactArgs(1),
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
			c, err := q.RetryRun(ctx, p.settings.Tenant, args[0], "")
			if err != nil {
				return err
			}
			return p.printDone(map[string]any{"changed": c.N}, "%s again on the way", count(c.N, "job"))
		}),
	}
}

func (p *program) workflowsRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME…", Short: "Remove workflows with what starts them; their runs go on", Args: cobra.MinimumNArgs(1),
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
			for _, name := range args {
				if err := q.DeleteWorkflow(ctx, p.settings.Tenant, name); err != nil {
					return err
				}
			}
			return p.printDone(map[string]any{"workflows": args}, "%s removed", count(len(args), "workflow"))
		}),
	}
}

func (p *program) postCommand() *cobra.Command {
	var payload string
	cmd := &cobra.Command{
		Use: "post EVENT", Short: "Post an event, which starts the workflows that wait for it", Args: cobra.ExactArgs(1),
		Example: `  haulier post pushed --payload '{"commit":"4711"}'`,
	}
	cmd.Flags().StringVar(&payload, "payload", "", "`TEXT` for the jobs that come first; JSON for most functions")
	cmd.RunE = p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
		if err := q.PostEvent(ctx, haulier.Signal{Tenant: p.settings.Tenant, Name: args[0], Payload: []byte(payload)}); err != nil {
			return err
		}
		return p.printDone(map[string]any{"event": args[0]}, "%s posted", args[0])
	})
	return cmd
}
