package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/haulier/haulier"
)

const mapLong = `Run a command for each line of standard input, as many at once as there are workers
for: a durable xargs. {} in an argument stands for the line; when there is none, the line is
added as the last argument. With --shell the line is "$1", for which {} may stand too.

The result of a job is the last line that its command writes, or what it leaves in the
file $HAULIER_RESULT. Results are printed in the order of the lines, as they come:

  --results lines   the result alone (unless said)
  --results tsv     line, state and result, apart by tabs
  --results none    nothing
  -o json           an object a job, and one with the summary

Jobs outlive this program: after Ctrl-C, or a crash, they go on. With --name, the same
command on the same lines adds nothing twice: it waits for what is on its way, adds
what is missing, and prints all results. That holds for a week.

It ends with 0 when all jobs succeeded, and with 1 when any did not.`

type mapFlags struct {
	specFlags
	execFlags
	name    string
	results string
}

func (p *program) mapCommand() *cobra.Command {
	var f mapFlags
	cmd := &cobra.Command{
		Use: "map [flags] -- COMMAND [ARGUMENT…] [{}]", Short: "Run a command for each line of standard input", Long: mapLong,
		Example: `  ls *.png | haulier map -- convert {} {}.webp
  find . -name '*.go' | haulier map --name sums --results tsv -- cksum {}
  cat hosts | haulier map --shell --timeout 1m -- 'ssh {} uptime'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("map needs a command, as in: ls | haulier map -- wc -c {}")
			}
			return nil
		},
	}
	f.specFlags.register(cmd.Flags(), 3)
	f.execFlags.register(cmd.Flags())
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().StringVar(&f.name, "name", "", "`NAME` of the whole, which makes it resumable; the jobs' group")
	cmd.Flags().StringVar(&f.results, "results", "lines", "`HOW` results are printed: lines, tsv or none")
	cmd.RunE = p.plain(func(ctx context.Context, args []string) error { return p.mapLines(ctx, &f, args) })
	return cmd
}

// lookEvery is the least time between looks at all jobs that have not ended, which cost more the more there are.
const lookEvery = 2 * time.Second

// mapping is one run of map.
type mapping struct {
	p     *program
	q     haulier.Queue
	spec  haulier.Spec // of each job, but for the line
	name  string
	tally *tally
	began time.Time

	mu      sync.Mutex
	batches []*mapBatch
	grown   chan struct{} // closed and replaced when batches grow
	all     bool          // no more batches come
}

// mapBatch is some lines on their way.
type mapBatch struct {
	from  int // number of the first line, from 1
	lines []string
	keys  []string
	ids   []haulier.ID  // set when added is closed
	added chan struct{} // closed when the jobs were added
}

func (p *program) mapLines(ctx context.Context, f *mapFlags, argv []string) error {
	out, err := p.resultPrinter(f.results)
	if err != nil {
		return err
	}
	m, err := p.newMapping(f, argv)
	if err != nil {
		return err
	}
	q, err := p.connect(ctx, patient)
	if err != nil {
		return err
	}
	defer q.Close()
	m.q = q
	err = m.run(ctx, out)
	switch {
	case context.Cause(ctx) == errInterrupted: //nolint:errorlint // it is this very value
		m.farewell()
		return errInterrupted
	case errors.Is(err, haulier.ErrConflict):
		return err
	case err != nil:
		return fmt.Errorf("%w\nWhat was enqueued goes on. To go on with the rest, run the same command with --name %s", err, m.name)
	}
	return m.summary(out)
}

func (p *program) newMapping(f *mapFlags, argv []string) (*mapping, error) {
	if f.Shell && len(argv) != 1 {
		return nil, usagef("with --shell the command is one argument: quote it")
	}
	if len(f.name) > haulier.MaxName {
		return nil, usagef("--name is longer than %d bytes", haulier.MaxName)
	}
	now := time.Now()
	m := &mapping{p: p, name: f.name, tally: newTally(), began: now, grown: make(chan struct{})}
	if m.name == "" {
		id := haulier.NewID(now).String()
		m.name = "map-" + now.Format("0102-1504") + "-" + id[len(id)-6:]
	}
	f.Group = m.name
	var err error
	if m.spec, err = f.spec(&p.settings, now); err != nil {
		return nil, err
	}
	m.spec.Type = f.Type
	m.spec.Task.Exec, err = f.task(argv, &m.spec, &p.settings)
	return m, err
}

// run adds the jobs and waits for them, with their progress on the screen.
func (m *mapping) run(ctx context.Context, out *resultPrinter) error {
	screen := m.p.newScreen(m.tally, m.began)
	out.screen = screen
	watching, stop := context.WithCancel(ctx)
	var aside sync.WaitGroup
	aside.Go(func() { screen.run(watching) })
	aside.Go(func() { m.watch(watching) })
	aside.Go(func() { m.hint(watching, screen) })
	defer aside.Wait()
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return m.add(ctx, m.p.in) })
	g.Go(func() error { return m.collect(ctx, out) })
	return g.Wait()
}

// watch follows the jobs as they go, for the eye. What counts is what collect finds.
func (m *mapping) watch(ctx context.Context) {
	f := haulier.Filter{Tenant: m.p.settings.Tenant, Group: m.name}
	var looked time.Time
	err := m.q.Events(ctx, f, func(e haulier.JobEvent) error {
		m.tally.seen(e.Job, e.State)
		missed := looked.IsZero() || e.Missed > 0 // others may have come before the first
		if missed && time.Since(looked) > lookEvery {
			m.look(ctx, m.tally.unended())
			looked = time.Now()
		}
		return nil
	})
	if err != nil && ctx.Err() == nil && !errors.Is(err, haulier.ErrUnavailable) {
		m.p.say("haulier: progress is not shown: %s", m.p.explain(err))
	}
}

// hint says once why nothing goes on, when nothing does.
func (m *mapping) hint(ctx context.Context, s *screen) {
	for wait := hintAfter; ; wait *= 2 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		waiting := m.tally.waiting()
		if waiting.IsNil() {
			continue
		}
		x, err := m.q.Why(ctx, m.p.settings.Tenant, waiting)
		if err == nil && x.State == haulier.Pending && len(x.Reasons) > 0 {
			_ = s.print(m.p.errs, fmt.Appendf(nil, "haulier: the jobs wait: %s\n", x.Reasons[0])) // it is only a hint
			return
		}
	}
}

// look updates the tally of some jobs.
func (m *mapping) look(ctx context.Context, ids []haulier.ID) {
	for len(ids) > 0 {
		n := min(len(ids), 1000)
		jobs, err := m.q.Get(ctx, m.p.settings.Tenant, ids[:n])
		if err != nil {
			return // the eye goes without
		}
		for _, j := range jobs {
			if j != nil {
				m.tally.seen(j.ID, j.State)
			}
		}
		ids = ids[n:]
	}
}

// farewell says what goes on without this program, and how to get back to it.
func (m *mapping) farewell() {
	p := m.p
	c := m.tally.counts()
	p.say("Left: of %s, %d have ended; the others go on by themselves.", count(c.total, "job"), c.ended)
	m.mu.Lock()
	all := m.all
	m.mu.Unlock()
	if !all {
		p.say("Not all lines were read yet.")
	}
	p.say("  To come back to them, run the same command with --name %s", shellWord(m.name))
	p.say("  To end them:  haulier jobs cancel --group %s", shellWord(m.name))
}

// shellWord quotes text for a shell, where that is needed.
func shellWord(s string) string {
	plain := strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/+@%") == "" && s != ""
	if plain {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
