package main

import (
	"github.com/spf13/cobra"

	"allium/cmd/allium/failure"
	"allium/cmd/allium/text"
	"allium/gateway/api"
)

func (a *app) statCommand() *cobra.Command {
	var whole bool
	var through gatewayFlags
	cmd := &cobra.Command{
		Use:   "stat KEY[/path]",
		Short: "Describe an object and what this node has of it, or the store",
		Long: `Describe an object and what this node has of it. With --store, show what the store
holds and where its bytes are. That reads counters, not the objects.`,
		Example: "  allium stat $ADDRESS --json\n  allium stat --store",
		Args: func(cmd *cobra.Command, got []string) error {
			want := cobra.ExactArgs(1)
			if whole {
				want = cobra.NoArgs
			}
			return args(want)(cmd, got)
		},
		RunE: func(cmd *cobra.Command, arg []string) error {
			switch {
			case whole && through.url != "":
				return failure.NewUsage("leave one of them out",
					"--store is about the store of this machine, and --gateway uses none")
			case whole:
				return a.withStore(cmd.Context(), func(s api.Store) error {
					st, err := s.StatStore(cmd.Context())
					if err != nil {
						return err
					}
					return a.print(st, text.StoreStat(st))
				})
			}
			return a.withTarget(cmd.Context(), through, arg[0], embedOptions{}, func(s api.Reader, to target) error {
				return a.stat(cmd, s, to.key)
			})
		},
	}
	through.add(cmd, "ask this gateway")
	cmd.Flags().BoolVar(&whole, "store", false, "describe the store instead of an object")
	return cmd
}

func (a *app) stat(cmd *cobra.Command, s api.Reader, key string) error {
	st, err := s.Stat(cmd.Context(), key)
	if err != nil {
		return err
	}
	return a.print(st, text.Stat(st, a.quiet))
}
