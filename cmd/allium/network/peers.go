// Package network has the commands about other peers: id, peers, connect, disconnect,
// ping, announce, providers, resolve and seeds.
package network

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/diagnosis"
	"allium/cmd/allium/failure"
	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/internal/printable"
	homedir "allium/node/home"
)

// IDCommand returns `allium id`.
func IDCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "id",
		Short: "Show the node's peer id and addresses",
		Long: `Show the node's peer id and the addresses where it listens. If no node runs, the peer
id is read from the home directory, and there are no addresses.`,
		Example: "  allium id --json",
		Args:    cli.NoArgs,
		RunE: a.OnNode(func(ctx context.Context, n api.Node, _ []string) error {
			id, err := n.ID(ctx)
			if errors.Is(err, client.ErrNotRunning) && a.API == "" {
				return idOfHome(a)
			}
			if err != nil {
				return err
			}
			human := id.ID
			if !a.Quiet {
				gateway := id.Gateway
				if id.GatewayLocal != "" {
					gateway += "\n         " + id.GatewayLocal + " from its own machine"
				}
				human = fmt.Sprintf("id       %s\nlisten   %s\ngateway  %s\nadmin    %s",
					id.ID, strings.Join(id.Addrs, "\n         "), gateway, id.Admin)
			}
			return a.Print(id, human)
		}),
	}
}

// idOfHome prints the peer id of the identity in the home directory, while no node runs.
func idOfHome(a *cli.App) error {
	home, err := a.HomeDir()
	if err != nil {
		return err
	}
	id, err := homedir.ID(home)
	if err != nil {
		return err
	}
	human := id.String()
	if !a.Quiet {
		human = fmt.Sprintf("id       %s\nlisten   no node is running; start it with `allium run`", id)
	}
	return a.Print(api.ID{ID: id.String(), Addrs: []string{}}, human)
}

// PeersCommand returns `allium peers`.
func PeersCommand(a *cli.App) *cobra.Command {
	var reach bool
	cmd := &cobra.Command{
		Use:   "peers",
		Short: "List the connected peers",
		Long: `List the connected peers: direction, transport, round-trip time, age of the
connection, bucket of the routing table, address, agent. A bucket is the number
of leading bits that the peer's key has in common with the node's; a peer that
does not answer lookups is in none.

With --reach: list the addresses of this node instead, and what peers found of each.`,
		Example: "  allium peers --json\n  allium peers --reach",
		Args:    cli.NoArgs,
		RunE: a.OnNode(func(ctx context.Context, n api.Node, _ []string) error {
			if reach {
				return diagnosis.PrintReach(ctx, a, n, diagnosis.Addresses)
			}
			peers, err := n.Peers(ctx)
			if err != nil {
				return err
			}
			for _, p := range peers {
				if err := a.Print(p, peerText(p, a.Quiet)); err != nil {
					return err
				}
			}
			if len(peers) == 0 {
				return a.None("no peers are connected; `allium seeds` shows through which the node looks for others")
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&reach, "reach", false, "show from where this node can be dialled, address by address")
	return cmd
}

// ConnectCommand returns `allium connect`.
func ConnectCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     "connect MULTIADDR",
		Short:   "Connect to a peer",
		Example: "  allium connect /ip4/203.0.113.7/tcp/4901/p2p/$PEER",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: a.OnNode(func(ctx context.Context, n api.Node, arg []string) error {
			p, err := n.Connect(ctx, arg[0])
			if err != nil {
				return err
			}
			return a.Print(p, peerText(p, a.Quiet))
		}),
	}
}

// DisconnectCommand returns `allium disconnect`.
func DisconnectCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     "disconnect PEER",
		Short:   "Close the connections to a peer",
		Example: "  allium disconnect $PEER",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: a.OnNode(func(ctx context.Context, n api.Node, arg []string) error {
			return n.Disconnect(ctx, arg[0])
		}),
	}
}

// PingCommand returns `allium ping`.
func PingCommand(a *cli.App) *cobra.Command {
	var count int
	cmd := &cobra.Command{
		Use:     "ping PEER|MULTIADDR",
		Short:   "Measure the round-trip time to a peer",
		Example: "  allium ping $PEER -n 3",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: a.OnNode(func(ctx context.Context, n api.Node, arg []string) error {
			if count < 1 || count > 1000 {
				return failure.NewUsage("give 1 to 1000", "--count is %d", count)
			}
			for i := range count {
				if i > 0 {
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(time.Second):
					}
				}
				pong, err := n.Ping(ctx, arg[0])
				if err != nil {
					return err
				}
				if err := a.Print(pong, fmt.Sprintf("%s  %.3f ms", pong.ID, pong.RTTMS)); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().IntVarP(&count, "count", "n", 1, "number of round trips, one a second, 1 to 1000")
	return cmd
}

// AnnounceCommand returns `allium announce`.
func AnnounceCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     "announce KEY",
		Short:   "Tell the network that this node has an object",
		Example: "  allium announce $ADDRESS",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: a.OnNode(func(ctx context.Context, n api.Node, arg []string) error {
			done, err := n.Announce(ctx, arg[0])
			if err != nil {
				return err
			}
			return a.Print(done, fmt.Sprintf("%s: %s took the record", done.Root, printable.Count(done.Peers, "peer")))
		}),
	}
}

// peerText is a connected peer: id, direction, transport, round-trip time, age of the
// connection, bucket, address and agent. If quiet, it is only the id.
func peerText(p api.Peer, quiet bool) string {
	if quiet {
		return p.ID
	}
	rtt := "-"
	if p.RTTMS > 0 {
		rtt = fmt.Sprintf("%.1f ms", p.RTTMS)
	}
	bucket := "-"
	if p.Bucket != nil {
		bucket = fmt.Sprintf("bucket %d", *p.Bucket)
	}
	age := (time.Duration(p.AgeMS) * time.Millisecond).Round(time.Second)
	return fmt.Sprintf("%s  %-3s  %-5s  %9s  %8s  %-9s  %s  %s",
		p.ID, p.Direction, p.Transport, rtt, age, bucket, p.Addr, printable.Name(p.Agent))
}
