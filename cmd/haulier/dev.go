package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/client"
	"github.com/haulier/haulier/worker"
)

const devLong = `Run a server and a worker in one process, for this user on this machine alone. It
keeps its data, so that what was enqueued is still there the next time.

This user's other commands need no token for it. An interrupt lets the jobs that run come to
their end; a second one returns them to their queues, to run when it starts again.`

func (p *program) devCommand() *cobra.Command {
	var f nodeFlags
	var wf workerFlags
	var lf logFlags
	cmd := &cobra.Command{
		Use: "dev", Short: "Run server and worker in one, for this user alone", Long: devLong, Args: cobra.NoArgs,
		Example: `  haulier dev
  haulier dev --data ./data --listen 127.0.0.1:7500`,
	}
	f.registerStore(cmd.Flags())
	f.registerListen(cmd.Flags())
	wf.register(cmd.Flags(), haulier.KindExec, haulier.KindHTTP, haulier.KindWasi, haulier.KindScript)
	lf.register(cmd.Flags(), "warn")
	f.AllowPrivate, wf.AllowPrivate = true, true // nobody else reaches it
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return p.dev(cmd.Context(), &f, &wf, &lf) }
	return cmd
}

func (p *program) dev(ctx context.Context, f *nodeFlags, wf *workerFlags, lf *logFlags) error {
	log, err := lf.logger(p.errs)
	if err != nil {
		return err
	}
	if beyond, err := f.checkListen(); err != nil {
		return err
	} else if beyond {
		return usagef("--listen %s can be reached by others: dev is for this machine alone; use `haulier serve` and `haulier worker`", f.Listen)
	}
	n, err := openNode(ctx, f, &p.settings, log)
	if err != nil {
		return err
	}
	defer func() {
		if err := n.close(); err != nil {
			log.Error("store not closed well", "err", err)
		}
	}()
	l, err := f.listen(ctx)
	if err != nil {
		return err
	}
	here := p.settings
	here.URL = "http://" + l.Addr().String()
	w, err := n.localWorker(wf, &here, p.version, log)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	takeBack, err := n.letIn(ctx, &p.settings, l.Addr())
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer takeBack()
	p.welcome(n, l.Addr())
	return p.both(ctx, n, l, f, w)
}

// localWorker is a worker that asks the engine itself.
func (n *node) localWorker(f *workerFlags, s *settings, version string, log *slog.Logger) (*worker.Worker, error) {
	if f.State == "" && n.data != "" {
		f.State = filepath.Join(n.data, "worker")
	}
	f.source = n.engine
	cfg, err := f.config(s, version, log)
	if err != nil {
		return nil, err
	}
	cfg.Consumer = n.engine
	return worker.New(cfg)
}

// both runs server and worker. At the first signal the worker drains, and only
// then does the server stop: so everything that still ends is kept.
func (p *program) both(ctx context.Context, n *node, l net.Listener, f *nodeFlags, w *worker.Worker) error {
	working, drain := context.WithCancel(ctx)
	serving, stopServing := context.WithCancel(ctx)
	defer drain()
	defer stopServing()
	stop := p.eachSignal(func(i int) {
		switch i {
		case 1:
			p.say("Stopping. What runs comes to its end; another Ctrl-C returns it to its queue.")
			drain()
		case 2:
			w.Abort()
		}
	})
	defer stop()
	var g errgroup.Group
	g.Go(func() error {
		defer stopServing()
		return w.Run(working)
	})
	g.Go(func() error {
		defer drain()
		return n.serve(serving, l, f, p.version)
	})
	return g.Wait()
}

// welcome says what is there, and what to type next.
func (p *program) welcome(n *node, at net.Addr) {
	url := localURL(at)
	data := n.data
	if data == "" {
		data = "memory: it is gone when this ends"
	}
	fmt.Fprintf(p.out, "Haulier is ready at %s\nwith its data in %s\n\nIn another terminal, try:\n", url, data)
	flag := ""
	if url != client.DefaultURL {
		flag = " --url " + url
	}
	for _, line := range []string{"haulier run%s -- echo hello", "ls | haulier map%s -- wc -c {}", "haulier jobs list%s", "haulier jobs why%s ID"} {
		fmt.Fprintf(p.out, "  "+line+"\n", flag)
	}
	fmt.Fprintf(p.out, "\nThe HTTP API is explained at %s/docs. Stop with Ctrl-C.\n", url)
}
