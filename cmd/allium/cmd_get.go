package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"allium/gateway/client"
	"allium/node"
)

// getOptions are the flags of get.
type getOptions struct {
	output    string
	storeOnly bool
	overwrite bool
	anyCase   bool
}

func (a *app) getCommand() *cobra.Command {
	var o getOptions
	cmd := &cobra.Command{
		Use:   "get KEY[/path]",
		Short: "Fetch a file or directory and write it to disk",
		Long: `Fetch a file or directory and write it to disk. Every 64 KiB is proved before
it is written. The output appears under its name only when it is whole; nothing
is ever written outside it, whatever the directory says.`,
		Example: `  allium get b3:… -o photos
  allium get b3:…/2026/beach.jpg
  allium get b3:… -o - | tar x     a directory as a tar stream
  allium get b3:… --store-only     keep it in the store, write no file`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, arg []string) error {
			if o.storeOnly {
				return a.fetch(cmd.Context(), arg[0])
			}
			return a.withStore(cmd.Context(), func(s client.Store) error {
				return a.get(cmd.Context(), s, arg[0], o)
			})
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.output, "output", "o", "", "file or directory to create; - is standard output (default: the name in KEY)")
	f.BoolVar(&o.storeOnly, "store-only", false, "fetch into the store, durably, and write no file")
	f.BoolVar(&o.overwrite, "overwrite", false, "replace an existing file")
	f.BoolVar(&o.anyCase, "allow-case-collisions", false, "allow names in one directory that differ in case only")
	return cmd
}

// fetched is the result of get.
type fetched struct {
	client.Object
	Output string `json:"output"`
}

// fetch brings an object into the node's store.
func (a *app) fetch(ctx context.Context, key string) error {
	n, err := a.node()
	if err != nil {
		return err
	}
	defer n.Close()
	report, finish := a.progress("fetching")
	defer finish()
	f, err := n.Fetch(ctx, key, report)
	if err != nil {
		return err
	}
	finish()
	human := fmt.Sprintf("%s: %d objects, %d bytes, %d of them fetched", f.Root, f.Objects, f.Bytes, f.New)
	if a.quiet {
		human = f.Root.String()
	}
	return a.print(f, human)
}

// get writes an object to disk, or to standard output.
func (a *app) get(ctx context.Context, s client.Store, key string, o getOptions) error {
	stream, err := s.Get(ctx, key)
	if err != nil {
		return err
	}
	defer stream.Body.Close()
	if o.output == "-" {
		_, err := io.Copy(a.stdout, stream.Body)
		return err
	}
	name := o.output
	if name == "" {
		name = stream.Name
	}
	if name == "" {
		name = stream.Root.Hex()
	}
	report, finish := a.progress("fetching " + name)
	defer finish()
	if err := node.Extract(stream, name, node.ExtractOptions{Overwrite: o.overwrite, AllowCaseCollisions: o.anyCase}, report); err != nil {
		return err
	}
	finish()
	human := fmt.Sprintf("%s %s", stream.Root, name)
	if a.quiet {
		human = ""
	}
	return a.print(fetched{stream.Object, name}, human)
}
