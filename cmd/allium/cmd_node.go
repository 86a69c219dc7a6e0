package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"allium/gateway/api"
)

func (a *app) nodeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Stop a running node, or let it read its files again",
		Example: `  allium node reload
  ssh -N -L 9600:127.0.0.1:9600 server &
  allium --api http://127.0.0.1:9600 --token-file drain.token node drain`,
	}
	cmd.AddCommand(
		&cobra.Command{
			Use:   "drain",
			Short: "Let the node finish what is in flight and stop",
			Long: `Begin the orderly shutdown, as SIGTERM does: the node takes no new requests,
those in flight finish within node.drain_deadline. The command returns when it
has begun.`,
			Example: "  allium node drain",
			Args:    noArgs,
			RunE:    a.onNode(a.drainNode),
		},
		&cobra.Command{
			Use:   "reload",
			Short: "Let the node read its files again",
			Long: `Read again what a node reads from files beside its configuration: certificates,
capability keys, the denylist, as far as it has them. SIGHUP does the same. A
file that cannot be read leaves what was read of it before in force; the command
names it and fails.`,
			Example: "  allium node reload\n  allium node reload --json",
			Args:    noArgs,
			RunE:    a.onNode(a.reloadNode),
		},
	)
	return cmd
}

func (a *app) drainNode(ctx context.Context, n api.Node, _ []string) error {
	if err := n.Drain(ctx); err != nil {
		return err
	}
	return a.print(struct{}{}, a.loud("draining"))
}

func (a *app) reloadNode(ctx context.Context, n api.Node, _ []string) error {
	done, err := n.Reload(ctx)
	if err != nil {
		return err
	}
	if err := a.print(done, a.loud(reloadLines(done))); err != nil {
		return err
	}
	return done.Failed()
}

// loud is text unless the user wants only what a script needs.
func (a *app) loud(text string) string {
	if a.quiet {
		return ""
	}
	return text
}

// reloadLines says what became of each file.
func reloadLines(done api.Reloaded) string {
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
