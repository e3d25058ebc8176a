package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/haulier/haulier"
)

func (p *program) workersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "workers", Short: "Look at the workers that are there", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use: "list", Short: "List workers", Aliases: []string{"ls"}, Args: cobra.NoArgs,
		RunE: p.withWorkers(func(_ context.Context, _ haulier.Queue, all []haulier.Session, _ []string) error {
			if p.settings.json() {
				return p.printJSON(map[string]any{"workers": all})
			}
			p.printWorkers(all, time.Now())
			return nil
		}),
	}, &cobra.Command{
		Use: "get NAME", Short: "Show all there is to know of a worker", Args: cobra.ExactArgs(1),
		Long: "Show all there is to know of a worker, by its name or the id of its session.",
		RunE: p.withWorkers(func(ctx context.Context, q haulier.Queue, all []haulier.Session, args []string) error {
			found := slices.DeleteFunc(all, func(s haulier.Session) bool { return s.Worker != args[0] && s.ID.String() != args[0] })
			if len(found) == 0 {
				return fmt.Errorf("%w: no worker %s is connected; `haulier workers list` shows those that are", haulier.ErrNotFound, args[0])
			}
			if p.settings.json() {
				return p.printJSON(map[string]any{"workers": found})
			}
			for i := range found {
				held, err := q.Get(ctx, p.settings.Tenant, found[i].Holding)
				if err != nil {
					return err
				}
				p.printWorker(&found[i], held, time.Now())
			}
			return nil
		}),
	})
	return cmd
}

func (p *program) withWorkers(do func(ctx context.Context, q haulier.Queue, all []haulier.Session, args []string) error) func(*cobra.Command, []string) error {
	return p.asking(impatient, func(ctx context.Context, q haulier.Queue, args []string) error {
		all, err := q.Sessions(ctx, p.settings.Tenant)
		if err != nil {
			return err
		}
		if all == nil {
			all = []haulier.Session{}
		}
		return do(ctx, q, all, args)
	})
}

func (p *program) printWorkers(all []haulier.Session, now time.Time) {
	if len(all) == 0 {
		p.say("No workers: start one with `haulier worker`.")
		return
	}
	t := newTable("WORKER", "HOST", "JOBS", "RUNS", "QUEUES", "SINCE", "STATE")
	for i := range all {
		s := &all[i]
		t.add(s.Worker, s.Host, fmt.Sprintf("%d/%d", s.Jobs, s.Concurrency), clip(runsWords(s), 40), clip(queueWords(s), 30), ago(s.StartedAt, now), sessionState(s, now))
	}
	t.write(p.out)
}

// runsWords are the kinds and types of job that a worker runs.
func runsWords(s *haulier.Session) string {
	kinds := make([]string, len(s.Kinds))
	for i, k := range s.Kinds {
		kinds[i] = string(k)
	}
	words := strings.Join(kinds, ",")
	if len(s.Languages) > 0 {
		words += " (" + strings.Join(s.Languages, ",") + ")"
	}
	if len(s.Types) > 0 {
		words += ": " + strings.Join(s.Types, ",")
	}
	return words
}

func queueWords(s *haulier.Session) string {
	if len(s.Queues) == 0 {
		return "*"
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(s.Queues)) {
		if w := s.Queues[name]; w > 1 {
			name = fmt.Sprintf("%s=%d", name, w)
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, ",")
}

func sessionState(s *haulier.Session, now time.Time) string {
	switch {
	case s.Draining:
		return "draining"
	case !s.Connected:
		return "not connected, seen " + ago(s.SeenAt, now)
	}
	return "connected"
}

func (p *program) printWorker(s *haulier.Session, held []*haulier.Job, now time.Time) {
	for _, f := range []struct {
		name string
		v    any
	}{
		{"worker", s.Worker}, {"state", sessionState(s, now)}, {"session", s.ID},
		{"jobs", fmt.Sprintf("%d of %d", s.Jobs, s.Concurrency)}, {"runs", runsWords(s)}, {"queues", queueWords(s)},
		{"tenants", strings.Join(s.Tenants, ",")}, {"lease", s.Lease}, {"host", s.Host}, {"addresses", strings.Join(s.Addresses, ", ")}, {"load", loadWords(s.Load)}, {"pid", s.PID}, {"version", s.Version},
		{"since", stamp(s.StartedAt) + ", " + ago(s.StartedAt, now)},
	} {
		fmt.Fprintf(p.out, "%-9s %s\n", f.name, oneLine(fmt.Sprint(f.v)))
	}
	for _, k := range slices.Sorted(maps.Keys(s.Labels)) {
		fmt.Fprintf(p.out, "%-9s %s\n", "label", oneLine(k+"="+s.Labels[k]))
	}
	for _, j := range held {
		if j != nil {
			fmt.Fprintf(p.out, "%-9s %v %s, %v %s\n", "holds", j.ID, oneLine(j.Type), j.State, ago(j.UpdatedAt, now))
		}
	}
	if more := s.Jobs - len(s.Holding); more > 0 {
		fmt.Fprintf(p.out, "%-9s %d more jobs\n", "holds", more)
	}
}

// loadWords say how busy a machine is.
func loadWords(l *haulier.Load) string {
	if l == nil {
		return "not known"
	}
	return fmt.Sprintf("processors %.0f%%, memory %s of %s", l.CPU, size(l.MemoryUsed), size(l.MemoryTotal))
}
