package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"allium/node"
)

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Show the version, its commit and the Go version",
		Example: "  allium version --json",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			v := node.ThisVersion()
			human := fmt.Sprintf("allium %s\ncommit %s\ngo     %s", v.Version, v.Commit, v.Go)
			if a.quiet {
				human = v.Version
			}
			return a.print(v, human)
		},
	}
}
