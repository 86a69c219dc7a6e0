package main

import (
	"context"

	"github.com/spf13/cobra"

	"allium/cmd/allium/text"
	"allium/gateway/api"
)

func (a *app) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "doctor",
		Short:   "Say what keeps the node from its work, and what to do",
		Example: "  allium doctor reach",
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "reach",
		Short: "Say who can dial this node, and what to open if few can",
		Long: `Say from where this node can be dialled: what peers found of each address, and what
to open in a firewall or forward in a router.

Peers that are asked to (AutoNAT v2) dial the addresses of this node on the
Internet; that begins when it is connected to one, and takes some seconds. Which
peer confirmed an address is not known. Local addresses are not checked.`,
		Example: "  allium doctor reach\n  allium doctor reach --json",
		Args:    noArgs,
		RunE: a.onNode(func(ctx context.Context, n api.Node, _ []string) error {
			return a.printReach(ctx, n, text.Doctor)
		}),
	})
	return cmd
}

// printReach prints what the node knows of its addresses, as written by human.
func (a *app) printReach(ctx context.Context, n api.Node, human func(r api.Reach, quiet bool) string) error {
	r, err := n.Reach(ctx)
	if err != nil {
		return err
	}
	return a.print(r, human(r, a.quiet))
}
