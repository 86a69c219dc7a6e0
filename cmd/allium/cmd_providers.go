package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"allium/cmd/allium/failure"
	"allium/cmd/allium/text"
	"allium/gateway/api"
	"allium/protocols/status"
)

func (a *app) providersCommand() *cobra.Command {
	var o api.FindOptions
	var trace bool
	cmd := &cobra.Command{
		Use:   "providers KEY",
		Short: "Find the peers that have an object",
		Long: `Ask the network which peers have an object. The command lists the peers that
signed a record for it, and first those that announced it by gossip a short time
ago. Only a fetch proves that a peer has the object.

With --trace the requests of the lookup follow in the order they were sent: start,
duration (it includes the dial of a new connection, so it is no round-trip time),
hop, peer, whether it was a hedge (sent because another request was late), and
outcome:

  ok        the peer answered
  timeout   the peer did not answer in time
  late      the lookup gave it up to ask another peer
  canceled  the lookup ended first
  others    the outcome of the failed request

With --json the trace is the last value.`,
		Example: `  allium providers $ADDRESS --limit 5
  allium providers $ADDRESS --fresh --trace`,
		Args: args(cobra.ExactArgs(1)),
		RunE: a.onNode(func(ctx context.Context, n api.Node, arg []string) error {
			if trace {
				o.Trace = &api.Trace{}
			}
			found := 0
			var failed error
			for p, err := range n.FindProviders(ctx, arg[0], o) {
				if err == nil {
					found++
					err = a.print(p, text.Provider(p, a.quiet))
				}
				if err != nil {
					failed = err
					break
				}
			}
			if trace && o.Trace.End != "" {
				failed = errors.Join(failed, a.print(o.Trace, text.Trace(*o.Trace, found, a.quiet)))
			}
			if failed == nil && found == 0 {
				return failure.Found(status.Errorf(status.NotFound,
					"no peer says that it has %s; its owner can announce it with `allium announce`", arg[0]))
			}
			return failed
		}),
	}
	f := cmd.Flags()
	f.IntVar(&o.Limit, "limit", 0, "stop after this many providers, 1 to 32 (default: the node's own limit)")
	f.BoolVar(&o.Fresh, "fresh", false,
		"ask the peers only, and leave out the records and announcements that the node holds")
	f.BoolVar(&trace, "trace", false, "show each request of the lookup, and why it ended")
	return cmd
}
