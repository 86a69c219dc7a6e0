package daemon

import (
	"context"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/cmd/allium/replication"
	"allium/cmd/allium/settings"
	"allium/gateway/api"
)

// NodeCommand returns `allium node`.
func NodeCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Stop a running node, or make it read its configuration again",
		Example: `  allium node reload
  ssh -N -L 9600:127.0.0.1:9600 server &
  allium --api http://127.0.0.1:9600 --token-file drain.token node drain`,
	}
	cmd.AddCommand(drainCommand(a), reloadCommand(a))
	return cmd
}

func reloadCommand(a *cli.App) *cobra.Command {
	var dry bool
	var token string
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Read the configuration and the node's files again",
		Long: `Make the node read its configuration and the files beside it again: certificates,
capability keys, packs and the denylist, if it has them. SIGHUP does the same. New values of hot
keys apply at once; those of others are listed and wait for a restart. What cannot be read
changes nothing; the command names it and fails.

With --dry-run the node says what would change, checks the files and changes nothing. A reload
has a token: with --status TOKEN the command shows how far it is, and whether a gate of readiness
that shut has brought the old values back (node.reload_guard).`,
		Example: "  allium node reload\n  allium node reload --dry-run\n  allium node reload --status $RELOAD --json",
		Args:    cli.NoArgs,
		RunE: a.OnNode(func(ctx context.Context, n api.Node, _ []string) error {
			if token != "" && dry {
				return failure.NewUsage("leave out one of them", "--status shows a reload, and --dry-run begins one")
			}
			ask := func() (api.Reloaded, error) { return n.Reload(ctx, api.ReloadRequest{DryRun: dry}) }
			if token != "" {
				ask = func() (api.Reloaded, error) { return n.ReloadStatus(ctx, token) }
			}
			done, err := ask()
			if err != nil {
				return err
			}
			if err := a.Print(done, a.Loud(settings.Reloaded(done))); err != nil || token != "" {
				return err
			}
			return failure.Found(done.Failed())
		}),
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would change, and change nothing")
	cmd.Flags().StringVar(&token, "status", "",
		"show the reload with this token, one of the latest 16 (default: reload)")
	return cmd
}

func drainCommand(a *cli.App) *cobra.Command {
	var evacuate, stop bool
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Finish the requests in flight and stop the node",
		Long: `Begin the orderly shutdown, as SIGTERM does. The node takes no new requests, and
those in flight finish within node.drain_deadline. The command returns as soon as
the shutdown has begun.

With --evacuate the node first hands its copies over to the other nodes of its
cluster, and stops once these have proved all that its pins ask for. Until then it
serves as before, but gets no more copies. If others cannot hold the copies, the
command says why and fails, and the node runs on. Interrupting the command leaves
the evacuation on, and so does a restart of the node; --evacuate again waits for
its end, and --evacuate --stop makes the node a full member again.`,
		Example: "  allium node drain\n  allium node drain --evacuate\n  allium node drain --evacuate --stop",
		Args:    cli.NoArgs,
		RunE: a.OnNode(func(ctx context.Context, n api.Node, arg []string) error {
			switch {
			case stop && !evacuate:
				return failure.NewUsage("write --evacuate --stop", "--stop ends an evacuation")
			case stop:
				return replication.StopEvacuation(ctx, a, n)
			case evacuate:
				if err := replication.HandOver(ctx, a, n); err != nil {
					return err
				}
			}
			return drainNode(ctx, a, n, arg)
		}),
	}
	cmd.Flags().BoolVar(&evacuate, "evacuate", false, "hand the node's copies over to other nodes of its cluster first")
	cmd.Flags().BoolVar(&stop, "stop", false, "with --evacuate: end an evacuation, the node stays")
	return cmd
}

func drainNode(ctx context.Context, a *cli.App, n api.Node, _ []string) error {
	if err := n.Drain(ctx); err != nil {
		return err
	}
	return a.Print(struct{}{}, a.Loud("draining"))
}
