package main

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/haulier/haulier/executor/docker"
	"github.com/haulier/haulier/executor/process"
)

// shimCommand is the supervisor of commands, which workers start.
func (p *program) shimCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "shim", Short: "Supervise the commands of a worker", Hidden: true, Args: cobra.NoArgs,
		Long: "Supervise the commands of a worker and outlive it. Workers start it; there is no need to by hand.",
	}
	cmd.Flags().StringVar(&dir, "dir", "", "`DIR` with the worker's state")
	_ = cmd.MarkFlagRequired("dir") // it is there
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		p.usualSignals() // it has its own ways with them
		return process.RunShim(cmd.Context(), process.ShimConfig{Dir: dir, Build: p.version, Log: slog.New(slog.NewTextHandler(p.errs, nil))})
	}
	return cmd
}

// watchCommand watches over the containers of a worker, which starts it.
func (p *program) watchCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "watch", Short: "Watch over the containers of a worker", Hidden: true, Args: cobra.NoArgs,
		Long: "Remove the containers of a worker that is lost. Workers start it; there is no need to by hand.",
	}
	cmd.Flags().StringVar(&dir, "dir", "", "`DIR` of containers in the worker's state folder")
	_ = cmd.MarkFlagRequired("dir") // it is there
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		p.usualSignals() // it has its own ways with them
		return docker.RunWatch(cmd.Context(), dir, p.in, slog.New(slog.NewTextHandler(p.errs, nil)))
	}
	return cmd
}
