package diagnosis

import (
	"bytes"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/drawing"
	"allium/gateway/api"
)

// WhyCommand returns `allium why`.
func WhyCommand(a *cli.App) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "why KEY|ID",
		Short: "Show why a lookup failed or was slow",
		Long: `Show what the node did to find an object: which sources it asked, which peers,
what each request brought and how long it took, and why it gave a peer up.

An error has the ID of its lookup (lookup_id), and so has each line of the access
log. With an address the latest lookup of it is shown that was not answered at
once, and the others are listed.

The node remembers the latest lookups in RAM, and forgets them when it stops.
Failed and slow lookups have a part of their own, so that others do not push
them out. A lookup counts as slow when its first bytes came after more than
1 second; a fetch may take 1 second more for each MiB.

Of a lookup that took more than 4 times the p99 of its class the node also keeps
what Go's execution tracer saw in the 5 seconds before its end. --trace writes
that to a file for "go tool trace", in which the lookup is a task with its ID.`,
		Example: `  allium why $ADDRESS
  allium why $ADDRESS --json
  allium why $ADDRESS --trace slow.trace`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: a.OnNode(func(ctx context.Context, n api.Node, arg []string) error {
			w, err := n.Why(ctx, arg[0])
			if err != nil {
				return err
			}
			if file != "" {
				return writeFilm(ctx, a, n, w, file)
			}
			return a.Print(w, drawing.Why(w, a.Quiet))
		}),
	}
	cmd.Flags().StringVar(&file, "trace", "", "write the execution trace of the lookup to this new file (default none)")
	return cmd
}

// writeFilm writes the execution trace of a lookup to a new file.
func writeFilm(ctx context.Context, a *cli.App, n api.Node, w api.Why, name string) error {
	film, err := n.Film(ctx, w.Lookup.ID)
	if err != nil {
		return err
	}
	if err := cli.WriteNewFile(name, bytes.NewReader(film.Trace)); err != nil {
		return err
	}
	return a.Print(w, fmt.Sprintf("%s has the trace of lookup %s. Look at it with: go tool trace %s",
		name, film.ID, name))
}
