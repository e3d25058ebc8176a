package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/haulier/haulier"
)

// choices are the values of flags that have a fixed set of them, by the flag's name.
var choices = map[string][]string{
	"output":     {"text", "json"},
	"log-format": {"text", "json"},
	"log-level":  {"debug", "info", "warn", "error"},
	"durability": {"sync", "process"},
	"results":    {"lines", "tsv", "none"},
	"role":       roleNames(),
	"state":      strings.Split(stateNames(), ", "),
	"only":       benchParts,
}

// completeFlags lets the shell complete the values of such flags, in all commands from this one on.
func completeFlags(cmd *cobra.Command) {
	for name, values := range choices {
		if cmd.LocalFlags().Lookup(name) != nil && !isFolder(cmd, name) {
			_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
		}
	}
	for _, sub := range cmd.Commands() {
		completeFlags(sub)
	}
}

// isFolder: the --state of a worker is a folder.
func isFolder(cmd *cobra.Command, flag string) bool {
	return flag == "state" && (cmd.Name() == "worker" || cmd.Name() == "dev")
}

func roleNames() []string {
	names := make([]string, len(haulier.Roles))
	for i, r := range haulier.Roles {
		names[i] = string(r)
	}
	return names
}
