package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/engine"
	"github.com/haulier/haulier/journal"
)

const journalLong = `A journal is a folder of text files that keeps jobs until a server has them: it accepts them while no
server can be reached, and each gets there once. See docs/journal.md.`

// journalWait is how long a command waits for another one that has the journal open.
const journalWait = 10 * time.Second

func (p *program) journalCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "journal", Short: "Look at jobs that wait in a folder, and send them", Long: journalLong, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.journalListCommand(), p.journalIngestCommand())
	return cmd
}

func (p *program) journalListCommand() *cobra.Command {
	var most int
	cmd := &cobra.Command{
		Use: "list DIR", Short: "List the jobs that wait in a journal, the oldest first", Args: cobra.ExactArgs(1),
	}
	cmd.Flags().IntVar(&most, "limit", 100, "`N` jobs at most")
	cmd.RunE = p.plain(func(ctx context.Context, args []string) error { return p.journalList(ctx, args[0], most) })
	return cmd
}

func (p *program) journalIngestCommand() *cobra.Command {
	return &cobra.Command{
		Use: "ingest DIR", Short: "Send the jobs that wait in a journal to the server", Args: cobra.ExactArgs(1),
		Example: `  haulier enqueue mail --payload '{"to":"ann@example.com"}' --journal ./outbox
  haulier journal ingest ./outbox`,
		RunE: p.plain(func(ctx context.Context, args []string) error { return p.journalIngest(ctx, args[0]) }),
	}
}

// openJournal opens a journal that must be there.
func (p *program) openJournal(dir string) (*journal.Journal, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("journal: %w; name the folder of a journal", err)
	}
	return journal.Open(dir, journal.Options{Wait: journalWait, Log: p.journalLog()})
}

// journalLog tells what is damaged or refused.
func (p *program) journalLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(p.errs, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func (p *program) journalList(ctx context.Context, dir string, most int) (err error) {
	j, err := p.openJournal(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	var list []journal.Entry
	for len(list) < most && ctx.Err() == nil {
		token, err := j.Reserve(most-len(list), time.Hour) // given back when the journal is closed
		if err != nil {
			return err
		}
		if token == 0 {
			break
		}
		entries, err := j.Read(token)
		if err != nil {
			return err
		}
		list = append(list, entries...)
	}
	if p.settings.json() {
		return p.printJSON(journalJobs(list))
	}
	if len(list) == 0 {
		p.say("No jobs wait in %s.", dir)
		return nil
	}
	t := newTable("ID", "TYPE", "ACCEPTED", "PAYLOAD")
	for i := range list {
		e := &list[i]
		t.add(e.Job.ID, e.Job.Type, e.At.Local().Format(time.DateTime), clip(string(e.Job.Payload), 60))
	}
	t.write(p.out)
	if left := j.Standing().Lines - len(list); left > 0 {
		p.say("%d more wait; --limit shows more.", left)
	}
	return nil
}

// journalJob is a job that waits, as JSON.
type journalJob struct {
	ID       haulier.ID        `json:"id"`
	Accepted time.Time         `json:"accepted"`
	Tenant   string            `json:"tenant,omitempty"`
	Job      *haulier.Template `json:"job"`
}

func journalJobs(list []journal.Entry) []journalJob {
	out := make([]journalJob, len(list))
	for i := range list {
		s := &list[i].Job
		out[i] = journalJob{ID: s.ID, Accepted: list[i].At, Tenant: s.Tenant, Job: haulier.TemplateOf(s)}
	}
	return out
}

func (p *program) journalIngest(ctx context.Context, dir string) (err error) {
	q, err := p.connect(ctx, patient)
	if err != nil {
		return err
	}
	defer q.Close()
	j, err := p.openJournal(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	in := journal.Ingest{Journal: j, Queue: q, Log: p.journalLog()}
	sum, err := in.Once(ctx)
	if err != nil {
		return fmt.Errorf("%w; %d jobs were sent, and %d wait still", err, sum.Added, j.Standing().Lines)
	}
	if p.settings.json() {
		return p.printJSON(sum)
	}
	fmt.Fprintf(p.out, "%d jobs are at the server now", sum.Added)
	if sum.Dropped > 0 {
		fmt.Fprintf(p.out, ", %d were dropped by hooks", sum.Dropped)
	}
	if sum.Refused > 0 {
		fmt.Fprintf(p.out, ", %d were refused and are in %s/%s", sum.Refused, dir, journal.RefusedFile)
	}
	fmt.Fprintln(p.out, ".")
	return nil
}

// producer is where jobs are enqueued: the server, or a journal's folder.
func (p *program) producer(ctx context.Context, dir string) (q haulier.Producer, shut func() error, err error) {
	if dir == "" {
		c, err := p.connect(ctx, patient)
		if err != nil {
			return nil, nil, err
		}
		return c, c.Close, nil
	}
	j, err := journal.Open(dir, journal.Options{Wait: journalWait, Log: p.journalLog()})
	if err != nil {
		return nil, nil, err
	}
	return &journal.Front{Journal: j, Check: checkPlain}, j.Close, nil
}

// checkPlain refuses jobs that an engine would refuse.
func checkPlain(jobs []haulier.Spec, by string) error {
	_, err := engine.PlainJobs(jobs, by, time.Now())
	return err
}

// openJournal opens the journal of a server.
func (n *node) openJournal(dir string) error {
	j, err := journal.Open(dir, journal.Options{Log: n.log})
	if err != nil {
		return err
	}
	n.ingest = &journal.Ingest{Journal: j, Queue: n.engine, Log: n.log}
	return nil
}

// catchUp ingests what was left in the journal before the server answers. What can't be now is tried again while it serves.
func (n *node) catchUp(ctx context.Context) {
	if n.ingest == nil {
		return
	}
	sum, err := n.ingest.Once(ctx)
	if err != nil {
		n.log.Warn("journal: jobs were not ingested at the start, and will be later", "err", err)
	}
	if sum.Added > 0 {
		n.log.Info("journal: jobs of the last run were ingested", "jobs", sum.Added)
	}
}
