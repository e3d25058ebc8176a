package main

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/worker"
)

const workerLong = `Take jobs from a server and run them, as many at once as --concurrency says.

Commands run under a small supervisor process. When the worker is killed they go on, and the
next worker with the same --state, if it comes within a third of the lease, goes on with them:
their output continues, and their exit code is reported.

At the first TERM or interrupt the worker takes no more jobs and waits for those that
run; at the second it gives them back to their queues at once. Neither counts as an attempt.`

func (p *program) workerCommand() *cobra.Command {
	var f workerFlags
	var lf logFlags
	cmd := &cobra.Command{
		Use: "worker", Short: "Run jobs of a server", Long: workerLong, Args: cobra.NoArgs,
		Example: `  haulier worker --url http://queue.example:7480 --concurrency 8
  haulier worker --queues 'mail=3,reports=1' --name mailer
  haulier worker --types thumbnail,transcode --lease 1m`,
	}
	f.register(cmd.Flags(), haulier.KindExec, haulier.KindScript)
	cmd.Flags().BoolVar(&f.AllowPrivate, "allow-private", false, "let tasks of kind http call addresses of the network inside: loopback, link-local, private")
	lf.register(cmd.Flags(), "info")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		log, err := lf.logger(p.errs)
		if err != nil {
			return err
		}
		c, err := p.connect(cmd.Context(), endless)
		if err != nil {
			return err
		}
		defer c.Close()
		f.source = c
		cfg, err := f.config(&p.settings, p.version, log)
		if err != nil {
			return err
		}
		cfg.Consumer = c
		log.Info("worker", "name", cfg.Name, "server", p.settings.URL, "concurrency", cfg.Concurrency, "state", cfg.Dir, "version", p.version)
		w, err := worker.New(cfg)
		if err != nil {
			return err
		}
		if err := knock(cmd.Context(), p.settings.URL); err != nil {
			log.Warn("no server answers yet, trying on", "server", p.settings.URL, "err", err)
		}
		ctx, drain := context.WithCancel(cmd.Context())
		defer drain()
		stop := p.eachSignal(drainThenAbort(log, w, drain))
		defer stop()
		return w.Run(ctx)
	}
	return cmd
}

// drainThenAbort is what signals do to a worker.
func drainThenAbort(log *slog.Logger, w *worker.Worker, drain func()) func(int) {
	return func(n int) {
		switch n {
		case 1:
			log.Info("draining: no more jobs are taken, those that run go on to their end; a second signal returns them at once")
			drain()
		case 2:
			log.Info("returning jobs to their queues")
			w.Abort()
		}
	}
}
