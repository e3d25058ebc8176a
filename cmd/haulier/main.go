// Command haulier is the whole of Haulier in one program: server, worker, and
// the commands for people. `haulier help` lists them.
//
// It ends with 0 when all went well, with 1 when something failed, with 2 when
// the command line was wrong, and with 130 when it was interrupted; `haulier run` passes on the
// exit code of its command.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// version of the program; the build sets it.
var version = "dev"

func main() {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	p := &program{
		in: os.Stdin, out: os.Stdout, errs: os.Stderr, env: os.Getenv, signals: signals,
		unhook: func() { signal.Stop(signals) }, version: version,
	}
	os.Exit(p.run(context.Background(), os.Args[1:]))
}
