package source

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/gateway/api"
	"allium/internal/printable"
)

// MaxStaleFlag adds the flag that says how old the record of a name may be.
func MaxStaleFlag(cmd *cobra.Command, most *time.Duration) {
	cmd.Flags().DurationVar(most, "max-stale", 0,
		"take a record of a name that ended up to this long ago, such as 1h, and look the name up behind the answer "+
			"(default: none)")
}

// StaleName returns the address that key stands for, where a record may be as old as maxStale, and tells
// the user if one is. The key of a command without --max-stale is left as it is.
func StaleName(ctx context.Context, a *cli.App, r api.Reader, key string, maxStale time.Duration) (string, error) {
	n, ok := r.(api.Node)
	switch {
	case maxStale == 0:
		return key, nil
	case !ok:
		return "", failure.NewUsage("start the node, or leave it out",
			"--max-stale needs a running node and no --gateway")
	}
	found, err := n.Resolve(ctx, key, api.Query{MaxStale: maxStale, Limit: 1})
	if err != nil || len(found.Chain) == 0 {
		return key, err
	}
	if found.Stale {
		_ = a.Warn(fmt.Sprintf("%s may have changed: what it stands for was looked up %s ago", printable.Name(key),
			time.Duration(found.AgeMS)*time.Millisecond))
	}
	if found.Target.IsZero() {
		return key, nil
	}
	return strings.TrimSuffix(found.Target.String()+"/"+found.Path, "/"), nil
}
