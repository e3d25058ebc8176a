package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/haulier/haulier"
)

const serveLong = `Serve a store over HTTP: to the commands here, to workers, and to programs.

This user's commands on this machine are let in without being asked. Others need a
token, and a server that others can reach does not start before there is one:

  haulier token create --name ops --role admin --data DIR

makes the first one while the server is stopped. --insecure lets everybody do everything.

TERM or an interrupt ends it in good order: it answers what was asked, and closes the
store. Workers and waiting clients come back when it starts again.`

func (p *program) serveCommand() *cobra.Command {
	var f nodeFlags
	var lf logFlags
	cmd := &cobra.Command{
		Use: "serve", Short: "Serve a store over HTTP", Long: serveLong,
		Example: `  haulier serve --data /var/lib/haulier
  haulier serve --data /var/lib/haulier --listen 0.0.0.0:7480    # wants tokens
  haulier serve --durability process                             # faster; may lose the last writes on power loss`,
		Args: cobra.NoArgs,
	}
	f.registerStore(cmd.Flags())
	f.registerListen(cmd.Flags())
	cmd.Flags().BoolVar(&f.Insecure, "insecure", false, "let everybody do everything, without tokens")
	cmd.Flags().StringSliceVar(&f.Hosts, "host", nil, "with --insecure: further `NAMES` under which the server is reached; * for all")
	cmd.Flags().BoolVar(&f.AllowPrivate, "allow-private", false, "let hooks and notifications call addresses of the network inside: loopback, link-local, private")
	cmd.Flags().StringVar(&f.Journal, "journal", "", "`DIR` of a journal, from which requests that ask for it are acknowledged, also while the store is away; see docs/journal.md")
	lf.register(cmd.Flags(), "info")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := context.WithCancel(cmd.Context())
		defer cancel()
		stop := p.eachSignal(func(int) {
			p.usualSignals() // another one ends it at once, which loses nothing
			cancel()
		})
		defer stop()
		return p.serve(ctx, &f, &lf)
	}
	return cmd
}

// serve runs a server until ctx ends.
func (p *program) serve(ctx context.Context, f *nodeFlags, lf *logFlags) error {
	log, err := lf.logger(p.errs)
	if err != nil {
		return err
	}
	beyond, err := f.checkListen()
	if err != nil {
		return err
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
	if beyond && !f.Insecure {
		if err := n.mayListen(ctx, f); err != nil {
			return err
		}
	}
	l, err := f.listen(ctx)
	if err != nil {
		return err
	}
	if !f.Insecure {
		takeBack, err := n.letIn(ctx, &p.settings, l.Addr())
		if err != nil {
			log.Warn("commands on this machine need a token too", "err", err)
		} else {
			defer takeBack()
		}
	}
	log.Info("serving", "addr", l.Addr().String(), "data", n.data, "durability", f.Durability, "insecure", f.Insecure, "version", p.version)
	err = n.serve(ctx, l, f, p.version)
	log.Info("stopped")
	return err
}

// mayListen refuses to be reachable by others while nobody has a token.
func (n *node) mayListen(ctx context.Context, f *nodeFlags) error {
	has, err := n.hasTokens(ctx)
	if err != nil || has {
		return err
	}
	where := ""
	if f.Data != "" {
		where = " --data " + f.Data
	}
	return fmt.Errorf("%w: %s can be reached by others, and there are no tokens yet; make one with `haulier token create --name ops --role admin%s`, or let everybody in with --insecure",
		haulier.ErrForbidden, f.Listen, where)
}
