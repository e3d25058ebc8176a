package main

import (
	"context"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of this program", Args: cobra.NoArgs,
		RunE: p.plain(func(context.Context, []string) error {
			if p.settings.json() {
				return p.printJSON(map[string]string{"version": p.version, "go": runtime.Version(), "system": runtime.GOOS + "/" + runtime.GOARCH})
			}
			fmt.Fprintf(p.out, "haulier %s (%s, %s/%s)\n", p.version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		}),
	}
}
