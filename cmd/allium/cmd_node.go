package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"allium/cmd/allium/failure"
	"allium/gateway/api"
)

func nodeCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Stop a running node, or make it read its files again",
		Example: `  allium node reload
  ssh -N -L 9600:127.0.0.1:9600 server &
  allium --api http://127.0.0.1:9600 --token-file drain.token node drain`,
	}
	cmd.AddCommand(
		drainCommand(a),
		&cobra.Command{
			Use:   "reload",
			Short: "Read the node's files again",
			Long: `Make the node read the files beside its configuration again: certificates,
capability keys and the denylist, if it has them. SIGHUP does the same. If a file
cannot be read, what was read before stays in force; the command names the file
and fails.`,
			Example: "  allium node reload\n  allium node reload --json",
			Args:    noArgs,
			RunE: onNode(a, func(ctx context.Context, n api.Node, _ []string) error {
				return reloadNode(ctx, a, n)
			}),
		},
	)
	return cmd
}

func drainCommand(a *app) *cobra.Command {
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
		Args:    noArgs,
		RunE: onNode(a, func(ctx context.Context, n api.Node, arg []string) error {
			switch {
			case stop && !evacuate:
				return failure.NewUsage("write --evacuate --stop", "--stop ends an evacuation")
			case stop:
				return stopEvacuation(ctx, a, n)
			case evacuate:
				if err := handOver(ctx, a, n); err != nil {
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

func drainNode(ctx context.Context, a *app, n api.Node, _ []string) error {
	if err := n.Drain(ctx); err != nil {
		return err
	}
	return a.print(struct{}{}, loud(a, "draining"))
}

func reloadNode(ctx context.Context, a *app, n api.Node) error {
	done, err := n.Reload(ctx)
	if err != nil {
		return err
	}
	if err := a.print(done, loud(a, reloadedText(done))); err != nil {
		return err
	}
	return failure.Found(done.Failed())
}

// loud returns text, or nothing with -q.
func loud(a *app, text string) string {
	if a.quiet {
		return ""
	}
	return text
}

// reloadedText says for each file whether the node read it again.
func reloadedText(done api.Reloaded) string {
	if len(done.Files) == 0 {
		return "this node has no file that it could read again"
	}
	lines := make([]string, len(done.Files))
	for i, f := range done.Files {
		lines[i] = "reloaded " + f.Name
		if f.Error != nil {
			lines[i] = "kept " + f.Name + " as it was: " + f.Error.Message
		}
	}
	return strings.Join(lines, "\n")
}
