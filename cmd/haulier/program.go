package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// program is one run of the command line, with all that it touches of its surroundings.
type program struct {
	in        io.Reader
	out, errs io.Writer
	env       func(string) string
	signals   <-chan os.Signal // INT and TERM; nil: none ever come
	unhook    func()           // gives signals their usual effect again; nil: nothing to do
	version   string

	settings settings
	began    bool // the command line was understood, and a command runs
}

// run carries out a command line, without the program's name, and returns the exit code.
func (p *program) run(ctx context.Context, args []string) int {
	root := p.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	return p.conclude(err)
}

const rootLong = `Haulier is a durable job queue: it takes commands and functions, writes them to
disk before it says yes, hands each to one worker at a time, and keeps them alive
through crashes.

Start a server with a worker in it, for this user alone:

  haulier dev

and in another terminal give it work:

  haulier run -- echo hello
  ls | haulier map -- wc -c {}
  haulier jobs list

Each flag marked [env] is also read from the environment (--url from HAULIER_URL),
and from the configuration file, a line such as "url: http://queue.example:7480"
for each. A flag goes before the environment, and that before the file.

Exit codes: 0 all went well, 1 something failed, 2 the command line was wrong, 130
interrupted. "haulier run" passes on the exit code of its command.`

// The groups of commands in the help.
const (
	groupStart = "start"
	groupWork  = "work"
	groupLook  = "look"
)

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use: "haulier", Short: "A durable job queue", Long: rootLong,
		SilenceUsage: true, SilenceErrors: true, Version: p.version,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := p.settings.complete(cmd.Flags(), p.env); err != nil {
				return err
			}
			if err := cmd.ValidateRequiredFlags(); err != nil { // cobra does so only when the command has begun
				return err
			}
			if err := cmd.ValidateFlagGroups(); err != nil {
				return err
			}
			p.began = true
			return nil
		},
	}
	root.SetIn(p.in)
	root.SetOut(p.out)
	root.SetErr(p.errs)
	root.SetVersionTemplate("haulier {{.Version}}\n")
	root.CompletionOptions.HiddenDefaultCmd = false
	p.settings.register(root.PersistentFlags())
	root.AddGroup(
		&cobra.Group{ID: groupStart, Title: "Start it:"},
		&cobra.Group{ID: groupWork, Title: "Give it work:"},
		&cobra.Group{ID: groupLook, Title: "See to it:"},
	)
	add := func(group string, list ...*cobra.Command) {
		for _, c := range list {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(groupStart, p.devCommand(), p.serveCommand(), p.workerCommand())
	add(groupWork, p.runCommand(), p.enqueueCommand(), p.journalCommand(), p.mapCommand(), p.workflowsCommand(), p.handlersCommand(), p.schedulesCommand(), p.batchesCommand(), p.filesetsCommand(), p.blobsCommand(), p.hooksCommand(), p.secretsCommand(), p.postCommand())
	add(groupLook, p.jobsCommand(), p.queuesCommand(), p.limitsCommand(), p.windowsCommand(), p.workersCommand(), p.tokenCommand(), p.storeCommand())
	root.AddCommand(p.benchCommand(), p.shimCommand(), p.watchCommand(), p.versionCommand())
	completeFlags(root)
	return root
}

// task is what a command does. Its context ends at the first signal.
type task func(ctx context.Context, args []string) error

// plain runs a command that an interrupt ends.
func (p *program) plain(do task) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, stop := p.untilSignal(cmd.Context())
		defer stop()
		err := do(ctx, args)
		if err != nil && context.Cause(ctx) == errInterrupted { //nolint:errorlint // it is this very value
			return errInterrupted
		}
		return err
	}
}

// say writes a line for people to standard error.
func (p *program) say(format string, args ...any) { fmt.Fprintf(p.errs, format+"\n", args...) }
