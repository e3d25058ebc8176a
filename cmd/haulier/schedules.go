package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/calendar"
)

func (p *program) schedulesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "schedules", Short: "Start jobs by the clock", Aliases: []string{"schedule"}, Args: cobra.NoArgs,
		Long: `Start jobs by the clock: each time of a schedule starts its job once, whatever number of
servers runs and whichever of them dies.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.schedulesListCommand(), p.schedulesGetCommand(), p.schedulesSetCommand(), p.schedulesRunCommand(),
		p.schedulesPauseCommand("pause", true, "Stop schedules"), p.schedulesPauseCommand("resume", false, "Let schedules go on with their next time"),
		p.schedulesRemoveCommand(), p.schedulesNextCommand())
	return cmd
}

func (p *program) schedulesListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List schedules, with their last and next times", Aliases: []string{"ls"}, Args: cobra.NoArgs,
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, _ []string) error {
			list, err := q.Schedules(ctx, p.settings.Tenant)
			if err != nil {
				return err
			}
			if p.settings.json() {
				if list == nil {
					list = []haulier.Schedule{}
				}
				return p.printJSON(map[string]any{"schedules": list})
			}
			if len(list) == 0 {
				p.say("No schedules: `haulier schedules set` makes them.")
				return nil
			}
			now := time.Now()
			t := newTable("NAME", "WHEN", "ZONE", "NEXT", "LAST", "ENDED", "STARTED", "SKIPPED").numbers(6, 7)
			for i := range list {
				s := &list[i]
				next, last, state := ago(s.Next, now), "-", "-"
				if s.Paused {
					next = "paused"
				}
				if s.Last != nil {
					last, state = ago(s.Last.Tick, now), s.Last.State.String()
				}
				t.add(s.Name, s.Cron, zoneOf(s), next, last, state, s.Started, s.Skipped)
			}
			t.write(p.out)
			return nil
		}),
	}
}

func zoneOf(s *haulier.Schedule) string {
	if s.Zone == "" {
		return "UTC"
	}
	return s.Zone
}

func (p *program) schedulesGetCommand() *cobra.Command {
	return &cobra.Command{
		Use: "get NAME", Short: "Show a schedule, as the API has it", Args: cobra.ExactArgs(1),
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
			s, err := q.Schedule(ctx, p.settings.Tenant, args[0])
			if err != nil {
				return err
			}
			return p.printJSON(s)
		}),
	}
}

const scheduleSetLong = `Make a schedule, or replace the one of that name; what it has counted stays. What is started is a
command after --, or with --type a job for a function.

When: five fields (minute, hour, day of month, month, day of week), six with the seconds
first, @hourly, @daily, @weekly, @monthly, @yearly, or @every with a time. H in the place of
a number spreads schedules: which value it is, the name decides.`

type scheduleFlags struct {
	specFlags
	execFlags
	s       haulier.Schedule
	jitter  time.Duration
	overlap string
	missed  string
	start   string
	end     string
	payload string
}

func (p *program) schedulesSetCommand() *cobra.Command {
	var f scheduleFlags
	cmd := &cobra.Command{
		Use: "set NAME --cron WHEN [flags] [-- COMMAND [ARGUMENT…]]", Short: "Make or change a schedule", Long: scheduleSetLong,
		Example: `  haulier schedules set backup --cron '0 2 * * *' --zone Europe/Berlin --overlap skip -- ./backup.sh /srv
  haulier schedules set report --cron 'H 7 * * mon-fri' --type report --payload '{"for":"sales"}'
  haulier schedules set sync --cron '@every 30s' --overlap collapse --missed none -- ./sync`,
		Args: cobra.MinimumNArgs(1),
	}
	fs := cmd.Flags()
	fs.StringVar(&f.s.Cron, "cron", "", "`WHEN` it starts")
	fs.StringVar(&f.s.Zone, "zone", "", "`ZONE` whose clock is meant, as in Europe/Berlin; UTC unless said")
	fs.BoolVar(&f.s.Executor, "executor-queue", false, "read WHEN as the executor queue does: the minute is always spread")
	fs.DurationVar(&f.jitter, "jitter", 0, "`TIME` by which each start is put off at most, by how much the name and the time decide")
	fs.StringVar(&f.overlap, "overlap", "", "`WHAT` to do when the last has not ended: allow, skip, wait, collapse or replace; allow unless said")
	fs.StringVar(&f.missed, "missed", "", "`WHAT` to do about times at which no server was there: none, once or all; once unless said")
	fs.IntVar(&f.s.MissedMost, "missed-most", 0, "`N` of the missed times, the newest, are made up for with --missed all; 10 unless said")
	fs.StringVar(&f.start, "start", "", "`TIME` before which nothing is started")
	fs.StringVar(&f.end, "end", "", "`TIME` after which nothing is started")
	fs.StringVar(&f.payload, "payload", "", "`TEXT` that each job gets; JSON for most functions")
	fs.StringVar(&f.Group, "group", "", "`NAME` shared by the jobs")
	f.specFlags.register(fs, 0)
	f.Flow.register(fs)
	f.execFlags.register(fs)
	cmd.RunE = p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
		s, err := f.schedule(&p.settings, args, time.Now())
		if err != nil {
			return err
		}
		if s, err = q.SetSchedule(ctx, s); err != nil {
			return err
		}
		return p.printDone(s, "%s starts next %s", s.Name, when(s.Next))
	})
	return cmd
}

func when(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Local().Format("2006-01-02 15:04:05 MST")
}

// schedule is what the flags and arguments ask for.
func (f *scheduleFlags) schedule(set *settings, args []string, now time.Time) (haulier.Schedule, error) {
	s := f.s
	if s.Cron == "" {
		return s, usagef("--cron is missing: say when, as in --cron '0 2 * * *' or --cron @hourly")
	}
	spec, err := f.spec(set, now)
	if err != nil {
		return s, err
	}
	spec.Type = f.Type
	if f.payload != "" {
		spec.Payload = []byte(f.payload)
	}
	switch {
	case len(args) > 1:
		if spec.Task.Exec, err = f.task(args[1:], &spec, set); err != nil {
			return s, err
		}
	case f.Type == "":
		return s, usagef("say what is started: a command after --, or --type for a function")
	}
	s.Tenant, s.Name, s.Job = set.Tenant, args[0], haulier.TemplateOf(&spec)
	s.Job.RetryFor = haulier.Duration(f.RetryFor)
	s.Jitter, s.Overlap, s.Missed = haulier.Duration(f.jitter), haulier.Overlap(f.overlap), haulier.Missed(f.missed)
	if f.start != "" {
		if s.Start, err = parseTime(f.start, now); err != nil {
			return s, err
		}
	}
	if f.end != "" {
		s.End, err = parseTime(f.end, now)
	}
	return s, err
}

func (p *program) schedulesRunCommand() *cobra.Command {
	return &cobra.Command{
		Use: "run NAME", Short: "Start at once what a schedule starts, and print the job's id", Args: cobra.ExactArgs(1),
		RunE: p.asking(patient, func(ctx context.Context, q haulier.Queue, args []string) error {
			ids, err := q.RunSchedule(ctx, p.settings.Tenant, args[0], "")
			if err != nil {
				return err
			}
			return p.printIDs(ids)
		}),
	}
}

func (p *program) schedulesPauseCommand(verb string, paused bool, short string) *cobra.Command {
	return &cobra.Command{
		Use: verb + " NAME…", Short: short, Args: cobra.MinimumNArgs(1),
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
			for _, name := range args {
				if _, err := q.PauseSchedule(ctx, p.settings.Tenant, name, paused); err != nil {
					return err
				}
			}
			return p.printDone(map[string]any{"schedules": args}, "%s %sd", count(len(args), "schedule"), verb)
		}),
	}
}

func (p *program) schedulesRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME…", Short: "Remove schedules; what they have started goes on", Args: cobra.MinimumNArgs(1),
		RunE: p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
			for _, name := range args {
				if err := q.DeleteSchedule(ctx, p.settings.Tenant, name); err != nil {
					return err
				}
			}
			return p.printDone(map[string]any{"schedules": args}, "%s removed", count(len(args), "schedule"))
		}),
	}
}

func (p *program) schedulesNextCommand() *cobra.Command {
	var zone, name string
	var n int
	cmd := &cobra.Command{
		Use: "next WHEN", Short: "Show the next times of an expression, without a server", Args: cobra.ExactArgs(1),
		Example: `  haulier schedules next '0 9 * * mon-fri' --zone Europe/Berlin`,
	}
	cmd.Flags().StringVar(&zone, "zone", "", "`ZONE` whose clock is meant; UTC unless said")
	cmd.Flags().StringVar(&name, "name", "", "`NAME` that decides what H stands for")
	cmd.Flags().IntVar(&n, "number", 5, "`N` times are shown")
	cmd.RunE = p.plain(func(_ context.Context, args []string) error {
		z, err := calendar.Zone(zone)
		if err != nil {
			return usagef("--zone: %v", err)
		}
		c, err := calendar.Parse(args[0], calendar.Options{Zone: z, Key: name})
		if err != nil {
			return err
		}
		t := time.Now()
		for range n {
			if t = c.Next(t); t.IsZero() {
				return nil
			}
			fmt.Fprintln(p.out, t.Format(time.RFC3339))
		}
		return nil
	})
	return cmd
}
