package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"allium/testnet"
)

func (a *app) testnetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "testnet",
		Short:   "Run a network of nodes on this machine",
		Example: "  allium testnet up\n  allium testnet up -n 20 --dir ./photos",
	}
	cmd.AddCommand(a.testnetUpCommand())
	return cmd
}

func (a *app) testnetUpCommand() *cobra.Command {
	var o testnet.Options
	var processes, exit bool
	var dir string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start nodes over loopback, show them at work, and stay up until Ctrl-C",
		Long: `Start nodes over loopback, add a directory on one of them, find and fetch it on
another, compare both trees byte by byte and print gateway URLs to look at.
Needs no network; ports are whatever is free.`,
		Example: `  allium testnet up
  allium testnet up -n 10 --processes
  allium testnet up --dir ./photos --exit`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if dir == "" {
				var err error
				if dir, err = testnet.GoSource(ctx); err != nil {
					return err
				}
			}
			if processes {
				var err error
				if o.Binary, err = testnet.Self(); err != nil {
					return err
				}
			}
			return a.testnetUp(ctx, o, dir, exit)
		},
	}
	f := cmd.Flags()
	f.IntVarP(&o.N, "nodes", "n", 5, fmt.Sprintf("how many, 2 to %d", testnet.MaxNodes))
	f.BoolVar(&processes, "processes", false, "one process for each node")
	f.StringVar(&dir, "dir", "", "directory to add (default: the Go distribution's src)")
	f.BoolVar(&exit, "exit", false, "end after the demonstration; the exit code is 0 only if all of it came true")
	return cmd
}

func (a *app) testnetUp(ctx context.Context, o testnet.Options, dir string, exit bool) error {
	net, err := testnet.Up(ctx, o)
	if err != nil {
		return err
	}
	for _, m := range net.Members {
		fmt.Fprintf(a.stdout, "%-8s %s  gateway %s  home %s\n", m.Name, m.ID().ID, m.ID().Gateway, m.Home)
	}
	err = net.Demo(ctx, a.stdout, dir)
	if err == nil && !exit {
		fmt.Fprintln(a.stdout, "\nThe network stays up until Ctrl-C. Talk to a node with `allium --home HOME …`.")
		<-ctx.Done()
		err = nil
	}
	return errors.Join(err, net.Down(context.WithoutCancel(ctx)))
}
