package storage

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"allium/cmd/allium/adding"
	"allium/cmd/allium/cli"
	"allium/cmd/allium/term"
	"allium/gateway/api"
	"allium/internal/printable"
	"allium/protocols/b3"
	"allium/store/meta"
)

func pinLsCommand(a *cli.App) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the pins: address, size, kind, label, age and path",
		Long: `List the pins, each with its address, the size of what it keeps, whether it is direct
or recursive, its label, when it was set, and the path from which the object was added
here last. The size is that of the object and of all files below it; ≥ stands before
one that may be larger, because something is not stored here or the pins name more than
65,536 entries.

The copies that this node keeps for other members of its cluster have one line
together; --all lists each. --json lists all, and "allium pin import" reads that.`,
		Example: "  allium pin ls\n  allium pin ls --all\n  allium pin ls --json > pins.json",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithStore(cmd.Context(), func(s api.Store) error {
				return listPins(cmd.Context(), a, s, all)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "list each copy that is kept for another member of the cluster, too")
	return cmd
}

// listedPin is a pin and the path from which its object was added here last.
type listedPin struct {
	api.Pin
	Path string `json:"path,omitempty"`
}

// listPins prints the pins, without all only the sum of what the cluster has pinned here.
func listPins(ctx context.Context, a *cli.App, s api.Store, all bool) error {
	paths := adding.KnownPaths(a)
	var copies int64
	var bytes int64
	var last b3.Root
	empty := true
	for p, err := range s.Pins(ctx) {
		if err != nil {
			return err
		}
		empty = false
		if meta.OfCluster(p.Label) && !all && !a.JSON {
			if p.Root != last { // an object has one more such pin for each member that asks for copies
				last = p.Root
				copies, bytes = copies+1, bytes+p.Size
			}
			continue
		}
		human := p.Root.String()
		if !a.Quiet {
			human = pinLine(p, paths[p.Root])
		}
		if err := a.Print(listedPin{p, paths[p.Root]}, human); err != nil {
			return err
		}
	}
	switch {
	case empty:
		return a.None("no pins; `allium add` and `allium pin add` set them")
	case copies > 0 && !a.Quiet:
		return a.Print(nil, clusterCopies(copies, bytes))
	}
	return nil
}

// pinLine is a pin in a list: its address, its size, what Pin says of it, and the path from which its
// object was added, which may be empty.
func pinLine(p api.Pin, path string) string {
	bytes := term.Bytes(p.Size)
	if p.AtLeast {
		bytes = "≥ " + bytes
	}
	line := fmt.Sprintf("%s  %10s  %s", p.Root, bytes, PinText(p))
	if path != "" {
		line += "  " + printable.Name(path)
	}
	return line
}

// clusterCopies says in one line what a node keeps for other members of its cluster.
func clusterCopies(objects, bytes int64) string {
	return fmt.Sprintf("%s, %s, for other members of the cluster; --all lists each",
		printable.Count(objects, "copy"), term.Bytes(bytes))
}
