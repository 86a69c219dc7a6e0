package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"allium/node"
)

// versionCommand returns `allium version`.
func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Show the version, its commit and the Go version",
		Example: "  allium version --json",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			v := node.ThisVersion()
			commit := cmp.Or(v.Commit, "unknown")
			if v.Modified {
				commit += ", with changes"
			}
			human := fmt.Sprintf("allium %s\ncommit %s\ngo     %s %s/%s", v.Version, commit, v.Go, v.OS, v.Arch)
			if a.quiet {
				human = v.Version
			}
			return a.print(v, human)
		},
	}
}
