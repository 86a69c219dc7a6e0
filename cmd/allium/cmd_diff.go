package main

import (
	"context"

	"github.com/spf13/cobra"

	"allium/cmd/allium/failure"
	"allium/cmd/allium/text"
	"allium/gateway/api"
	"allium/protocols/status"
)

// diffOptions are the flags of diff.
type diffOptions struct {
	stat     bool
	exitCode bool
}

func (a *app) diffCommand() *cobra.Command {
	var o diffOptions
	cmd := &cobra.Command{
		Use:   "diff KEY[/path] KEY[/path]",
		Short: "List the differences of two directories",
		Long: `List what was added (+), removed (-) and changed (M: content, kind, executable
bit or link target) from the first key to the second. Parts with the same address
on both sides are not read, and file contents never are, so the cost depends on the
size of the difference.

The exit code is 0 whether or not they differ. With --exit-code it is 5 if they
differ.`,
		Example: `  allium diff $BEFORE $ADDRESS
  allium diff $BEFORE/docs $ADDRESS/docs --stat
  allium diff $BEFORE $ADDRESS --json | jq -r .path`,
		Args: args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, keys []string) error {
			for i, key := range keys {
				if key == "" { // which the API takes for nothing at all
					return failure.NewUsage("write b3:<hex>[/path]", "key %d is empty", i+1)
				}
			}
			return a.withStore(cmd.Context(), func(s api.Store) error {
				return a.diff(cmd.Context(), s, keys[0], keys[1], o)
			})
		},
	}
	cmd.Flags().BoolVar(&o.stat, "stat", false,
		"print only the number of entries added, removed and changed, and their bytes")
	cmd.Flags().BoolVar(&o.exitCode, "exit-code", false, "exit with 5 if the two differ")
	return cmd
}

// diff prints what differs from one key to another.
func (a *app) diff(ctx context.Context, s api.Store, from, to string, o diffOptions) error {
	var sum text.DiffStat
	for c, err := range s.Diff(ctx, from, to) {
		if err != nil {
			return err
		}
		sum.Count(c)
		if o.stat {
			continue
		}
		if err := a.print(c, text.Change(c, a.quiet)); err != nil {
			return err
		}
	}
	if o.stat {
		if err := a.print(sum, sum.String()); err != nil {
			return err
		}
	}
	n := sum.Added + sum.Removed + sum.Changed
	if n == 0 && !o.stat {
		return a.none("no differences")
	}
	if o.exitCode && n > 0 {
		return failure.Found(status.Errorf(status.Precondition,
			"%s and %s differ in %s; leave --exit-code out to exit with 0", from, to, text.Plural(n, "entry")))
	}
	return nil
}
