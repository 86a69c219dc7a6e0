package diagnosis

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/drawing"
	"allium/cmd/allium/term"
	"allium/gateway/api/client"
	"allium/internal/limits"
)

// LimitsCommand returns `allium limits`.
func LimitsCommand(a *cli.App) *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "limits",
		Short: "List every limit of the node and how full it is",
		Long: `List what bounds the node (connections, queues, rates, buffers), the fullest first:
how much is in use of how much, the most that was, how often something was refused, and
what happens when the limit is full. A limit "per peer" is one for each: shown is the
fullest of those in use.`,
		Example: "  allium limits\n  allium limits --watch\n  allium limits -q   name, use and capacity",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.Watch(cmd.Context(), func(ctx context.Context, n *client.Client) error {
				for {
					if err := printLimits(ctx, a, n, watch); err != nil || !watch {
						return err
					}
					if err := limits.Sleep(ctx, time.Second); err != nil {
						return err
					}
				}
			})

		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "show them again every second, until interrupted")
	return cmd
}

// printLimits prints the limits once. If watch, it draws over what a terminal shows.
func printLimits(ctx context.Context, a *cli.App, n *client.Client, watch bool) error {
	l, err := n.Limits(ctx)
	if err != nil {
		return err
	}
	drawing.SortLimits(l.Limits)
	rows := 0
	if out, ok := a.Stdout.(*os.File); watch && ok && a.Columns > 0 && !a.JSON {
		rows = term.Rows(out) - 1 // the cursor is on the last
		fmt.Fprint(a.Stdout, term.Clear)
	}
	text := drawing.LimitLines(l.Limits)
	if !a.Quiet {
		text = drawing.Limits(l.Limits, a.Columns, rows)
	}
	return a.Print(l, text)
}
