package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/replication"
	"allium/cmd/allium/source"
	"allium/cmd/allium/term"
	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/node"
	"allium/protocols/ticket"
)

// PinCommand returns `allium pin`.
func PinCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pin",
		Short: "Keep objects: a pinned object is never evicted",
		Example: `  allium pin add $ADDRESS
  allium pin ls
  allium pin rm $ADDRESS`,
	}
	cmd.AddCommand(pinAddCommand(a), pinRmCommand(a), pinLsCommand(a), pinImportCommand(a))
	return cmd
}

func pinAddCommand(a *cli.App) *cobra.Command {
	var direct bool
	var label, from string
	cmd := &cobra.Command{
		Use:   "add KEY",
		Short: "Pin an object with everything below it, fetching what is missing",
		Long: `Pin an object with everything below it, fetching what is missing. A pinned object is
never evicted.

With --rf the nodes of this node's cluster keep copies: so many nodes, this one
included, hold each object below the pin. What several pins ask for is all met. Pin it
again with another number to change it, and with --rf 0 to remove it: the copies go a
day after that. "allium durability" shows how far it is.

With --ec 6+3 objects of 1 MiB or more are cut into 6 shards of data and 3 of parity,
each on another node, and any 6 give the object. Smaller ones get 4 copies.`,
		Example: `  allium pin add $ADDRESS
  allium pin add $ADDRESS --label backups
  allium pin add $ADDRESS --rf 3
  allium pin add $ADDRESS --ec 6+3`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, arg []string) error {
			to, err := source.ParseTarget(cmd.Context(), a, arg[0])
			if err != nil {
				return err
			}
			target, err := replication.TargetFromFlag(cmd)
			if err != nil {
				return err
			}
			o := api.PinOptions{Recursive: !direct, Label: label, Target: target}
			pin := func(s api.Store) error { return pinAdd(cmd.Context(), a, s, to.Key, o) }
			switch {
			case from != "" && to.Ticket != nil:
				return source.FromConflict("a ticket")
			case from != "":
				return source.WithFrom(cmd.Context(), a, from, to.Key, func(n api.Node) error { return pin(n) })
			case to.Ticket == nil:
				return a.WithStore(cmd.Context(), pin)
			}
			fromTicket := func(n api.Node) error { return pin(n) }
			err = source.WithRunning(cmd.Context(), a, *to.Ticket, fromTicket)
			if !errors.Is(err, client.ErrNotRunning) || a.API != "" {
				return err
			}
			return source.WithHomeNode(cmd.Context(), a, nil, func(ctx context.Context, n *node.Node) error {
				id := n.ID()
				network, err := ticket.ParseNetwork(id.Network)
				if err != nil {
					return err
				}
				return source.AskFirst(ctx, a, n.API(), id.ID, *to.Ticket, network, fromTicket)
			})
		},
	}
	source.FromFlag(cmd, &from)
	source.TimeoutFlag(cmd)
	replication.TargetFlag(cmd,
		"how many nodes shall hold it, this one included (0 removes the target; default: it stays as it is)")
	cmd.Flags().BoolVar(&direct, "direct", false, "pin only this object, not what is below it")
	cmd.Flags().StringVar(&label, "label", "",
		"label of the pin; an object may have several labels (default: no label)")
	return cmd
}

// pinAdd pins the object. If s is a node, it fetches missing parts first.
func pinAdd(ctx context.Context, a *cli.App, s api.Store, key string, o api.PinOptions) error {
	report, finish := a.Progress("fetching")
	defer finish()
	if n, ok := s.(api.Node); ok {
		if _, err := n.Fetch(ctx, key, report); err != nil {
			return err
		}
	}
	p, err := s.Pin(ctx, key, o) // which waits for a collection of garbage
	if err != nil {
		return err
	}
	finish()
	return a.Print(p, pinResult(a, "pinned", p))
}

func pinRmCommand(a *cli.App) *cobra.Command {
	var label string
	cmd := &cobra.Command{
		Use:   "rm KEY",
		Short: "Remove pins of an object; the object stays until its space is needed",
		Long: `Remove pins of an object; the object stays until its space is needed.

Without a pin, this removes what this node asked for before it lost its store, as other
nodes of the cluster remember it. What a node asked for that is gone for good is removed
with its label (--label cluster/12D3…), on each node that holds the object: "allium
durability KEY" shows who asks.`,
		Example: "  allium pin rm $ADDRESS\n  allium pin rm $ADDRESS --label backups",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, arg []string) error {
			return a.WithStore(cmd.Context(), func(s api.Store) error {
				return s.Unpin(cmd.Context(), arg[0], label)
			})
		},
	}
	cmd.Flags().StringVar(&label, "label", "", "remove only the pin with this label (default: all pins)")
	return cmd
}

// pinResult is a new pin for people.
func pinResult(a *cli.App, verb string, p api.Pin) string {
	return a.Text(fmt.Sprintf("%s %s (%s)", verb, p.Root, PinText(p)), p.Root.String())
}

// PinText describes a pin without its address.
func PinText(p api.Pin) string {
	s := "direct"
	if p.Recursive {
		s = "recursive"
	}
	if p.Label != "" {
		s += fmt.Sprintf(" %q", p.Label)
	}
	if p.Target != nil {
		s += " " + p.Target.String()
	}
	if !p.Since.IsZero() {
		s += " since " + term.Stamp(p.Since)
	}
	return s
}
