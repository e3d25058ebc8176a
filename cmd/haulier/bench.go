package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const benchLong = `Measure a server: client, server and worker are processes of their own on this machine.
The server is a fresh one for each measurement, in a temporary folder, unless --url names one that
runs already; then only a queue named bench is used, and the server's CPU and memory are not told.

  enqueue    jobs/s of so many callers that each enqueue one job after the other
  batch      jobs/s enqueued in batches of 1000 by two callers
  drain      jobs/s of a worker with functions that do nothing, over jobs that wait
  latency    from the call that enqueues to the start of the function: at 50 jobs/s
             (idle) and at 500 jobs/s
  memory     of the server with --waiting jobs (only where it is asked for)

Payloads are JSON of 100 bytes. Every measurement is made --reps times.`

type benchFlags struct {
	node        nodeFlags
	only        []string
	callers     []int
	span        time.Duration
	jobs        int
	waiting     int
	concurrency int
	reps        int
	dir         string
	ownServer   bool
}

var benchParts = []string{"enqueue", "batch", "drain", "latency", "memory"}

func (p *program) benchCommand() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure a server on this machine", Long: benchLong, Args: cobra.NoArgs,
		Example: `  haulier bench
  haulier bench --only drain --jobs 1000000 --reps 1
  haulier bench --only memory --waiting 5000000 --reps 1 -o json`,
	}
	fs := cmd.Flags()
	fs.StringVar(&f.node.Durability, "durability", "sync", "`WHAT` an acknowledged write survives: sync (power loss) or process (kill -9 only) [env]")
	fs.StringSliceVar(&f.only, "only", nil, "`PARTS` to measure: "+strings.Join(benchParts, ", ")+"; all but memory unless said")
	fs.IntSliceVar(&f.callers, "callers", []int{1, 10, 100, 1000}, "`NUMBERS` of callers that enqueue at the same time")
	fs.DurationVar(&f.span, "span", 2*time.Second, "`TIME` that an enqueue or latency measurement takes")
	fs.IntVar(&f.jobs, "jobs", 100_000, "`N` jobs that are drained")
	fs.IntVar(&f.waiting, "waiting", 5_000_000, "`N` jobs that wait while the memory is measured")
	fs.IntVar(&f.concurrency, "concurrency", 100, "`N` jobs that the worker runs at once")
	fs.IntVar(&f.reps, "reps", 3, "`N` times that everything is measured")
	fs.StringVar(&f.dir, "dir", "", "`DIR` for temporary folders, whose disk is what is measured; the system's unless said")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f.ownServer = !cmd.Flags().Changed("url") && p.env("HAULIER_URL") == ""
		return p.plain(func(ctx context.Context, _ []string) error { return p.bench(ctx, &f) })(cmd, args)
	}
	cmd.AddCommand(p.benchWorkerCommand())
	return cmd
}

func (f *benchFlags) check() error {
	for _, part := range f.only {
		if !slices.Contains(benchParts, part) {
			return usagef("--only: there is no part %q: there are %s", part, strings.Join(benchParts, ", "))
		}
	}
	if len(f.only) == 0 {
		f.only = benchParts[:len(benchParts)-1]
	}
	if f.reps < 1 || f.jobs < 1 || f.waiting < 1 || f.concurrency < 1 || f.span <= 0 || slices.Min(append(f.callers, 1)) < 1 {
		return usagef("--reps, --jobs, --waiting, --concurrency, --span and --callers are positive")
	}
	return nil
}

// measurement is one number that was taken several times, and what it cost.
type measurement struct {
	Name   string    `json:"name"`
	Unit   string    `json:"unit"`
	Values []float64 `json:"values"` // one a repetition, in order of time
	Costs  []cost    `json:"costs,omitempty"`
}

// cost of one repetition. CPU is in seconds, memory in bytes.
type cost struct {
	Jobs      int     `json:"jobs"`
	ClientCPU float64 `json:"client_cpu"`
	ServerCPU float64 `json:"server_cpu"`
	WorkerCPU float64 `json:"worker_cpu"`
	ServerRSS int64   `json:"server_rss"`      // at the end
	ServerMax int64   `json:"server_rss_peak"` // zero: not known
}

// benchRun collects measurements.
type benchRun struct {
	p    *program
	f    *benchFlags
	dir  string
	list []*measurement
}

func (p *program) bench(ctx context.Context, f *benchFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(f.dir, "haulier-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &benchRun{p: p, f: f, dir: dir}
	facts := machineFacts(dir)
	if !p.settings.json() {
		p.say("%s", facts.words(f))
	}
	for rep := range f.reps {
		p.say("repetition %d of %d", rep+1, f.reps)
		if err := b.all(ctx); err != nil {
			return err
		}
	}
	if p.settings.json() {
		return p.printJSON(map[string]any{"machine": facts, "durability": f.node.Durability, "version": p.version, "measurements": b.list})
	}
	b.print()
	return nil
}

// all takes each measurement once.
func (b *benchRun) all(ctx context.Context) error {
	for _, part := range b.f.only {
		var err error
		switch part {
		case "enqueue":
			for _, n := range b.f.callers {
				if err == nil {
					err = b.enqueue(ctx, n)
				}
			}
		case "batch":
			err = b.batches(ctx)
		case "drain":
			err = b.drain(ctx)
		case "latency":
			if err = b.latency(ctx, "idle", 50); err == nil {
				err = b.latency(ctx, "500/s", 500)
			}
		case "memory":
			err = b.memory(ctx)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
	}
	return nil
}

// note adds a value to a measurement.
func (b *benchRun) note(name, unit string, value float64, costs ...cost) {
	i := slices.IndexFunc(b.list, func(m *measurement) bool { return m.Name == name })
	if i < 0 {
		i = len(b.list)
		b.list = append(b.list, &measurement{Name: name, Unit: unit})
	}
	m := b.list[i]
	m.Values = append(m.Values, value)
	m.Costs = append(m.Costs, costs...)
	if b.p.settings.json() {
		return
	}
	b.p.say("  %-22s %s %s", name, number(value), unit)
}
