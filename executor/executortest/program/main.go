// Command program is what the conformance suite of executors runs: see executortest.Play.
package main

import (
	"os"

	"github.com/haulier/haulier/executor/executortest/play"
)

func main() { os.Exit(play.Play(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
