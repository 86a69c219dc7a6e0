package daemon

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/node"
)

// VersionCommand returns `allium version`.
func VersionCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Show the version, its commit and the Go version",
		Example: "  allium version --json",
		Args:    cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := node.ThisVersion()
			commit := cmp.Or(v.Commit, "unknown")
			if v.Modified {
				commit += ", with changes"
			}
			human := fmt.Sprintf("allium %s\ncommit %s\ngo     %s %s/%s", v.Version, commit, v.Go, v.OS, v.Arch)
			return a.Print(v, a.Text(human, v.Version))
		},
	}
}
