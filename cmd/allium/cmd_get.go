package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"allium/gateway/api"
	"allium/internal/limits"
	"allium/internal/printable"
	"allium/node/tree"
	"allium/protocols/status"
)

// getOptions are the flags of get.
type getOptions struct {
	output    string
	storeOnly bool
	overwrite bool
	anyCase   bool
	update    bool
	delete    bool
}

func (a *app) getCommand() *cobra.Command {
	var o getOptions
	var through gatewayFlags
	cmd := &cobra.Command{
		Use:   "get KEY[/path]",
		Short: "Fetch a file or directory and write it to disk",
		Long: `Fetch a file or directory and write it to disk. Every 64 KiB is proved before
it is written. The output appears under its name only when it is whole; nothing
is ever written outside it, whatever the directory says. Until then it is called
.NAME.allium-XXXXXXXX and locked; what a get that was killed left under such a name
is removed by the next one in that directory.

--update brings an existing output to KEY: files that are the same on disk, by
size and BLAKE3, are neither fetched nor written, others are replaced one by one,
each at once, and keep their permissions but for the executable bit. Names that KEY does not have stay, unless --delete is given. An
update that was interrupted can be run again.

With --gateway no node is needed: what that gateway sends is proved here, against
KEY, and what does not prove is not written (exit code 65).`,
		Example: `  allium get b3:… -o photos
  allium get b3:…/2026/beach.jpg
  allium get b3:… -o - | tar x     a directory as a tar stream
  allium get b3:… -o photos --update --delete
  allium get b3:… --store-only     keep it in the store, write no file
  allium get b3:… --gateway https://gateway.example.org`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, arg []string) error {
			if err := o.check(); err != nil {
				return err
			}
			if o.storeOnly && through.url != "" {
				return status.Errorf(status.BadRequest, "--store-only fetches into the own node's store; it cannot go with --gateway")
			}
			if o.storeOnly {
				return a.fetch(cmd.Context(), arg[0])
			}
			return a.withReader(cmd.Context(), through, func(s api.Reader) error {
				if o.update {
					return a.update(cmd.Context(), s, arg[0], o)
				}
				return a.get(cmd.Context(), s, arg[0], o)
			})
		},
	}
	through.add(cmd, "fetch through")
	f := cmd.Flags()
	f.StringVarP(&o.output, "output", "o", "", "file or directory to create; - is standard output (default: the name in KEY)")
	f.BoolVar(&o.storeOnly, "store-only", false, "fetch into the store, durably, and write no file")
	f.BoolVar(&o.overwrite, "overwrite", false, "replace an existing file")
	f.BoolVar(&o.update, "update", false, "bring an existing output to KEY, writing only what differs")
	f.BoolVar(&o.delete, "delete", false, "with --update: remove names that KEY does not have")
	f.BoolVar(&o.anyCase, "allow-case-collisions", false, "allow names in one directory that differ in case only")
	return cmd
}

// check refuses flags that contradict each other.
func (o getOptions) check() error {
	switch {
	case o.delete && !o.update:
		return status.Errorf(status.BadRequest, "--delete removes what an update finds beside KEY; give --update too")
	case o.update && (o.storeOnly || o.output == "-"):
		return status.Errorf(status.BadRequest, "--update needs a file or directory to bring to KEY; it cannot go with --store-only or -o -")
	}
	return nil
}

// fetched is the result of get.
type fetched struct {
	api.Object
	Output string `json:"output"`

	Updated *tree.UpdateStats `json:"updated,omitempty"` // of --update
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
	human := fmt.Sprintf("%s: %d objects, %d bytes, %d of them fetched%s", f.Root, f.Objects, f.Bytes, f.New, resumed(f.Resumed, f.Bytes))
	if a.quiet {
		human = f.Root.String()
	}
	return a.print(f, human)
}

// resumed says how much of total bytes an earlier fetch had left, if it did.
func resumed(held, total int64) string {
	if held == 0 {
		return ""
	}
	return fmt.Sprintf(", resumed at %s of %s", limits.Bytes(held).Human(), limits.Bytes(total).Human())
}

// get writes an object to disk, or to standard output.
func (a *app) get(ctx context.Context, s api.Reader, key string, o getOptions) error {
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
	if err := tree.Extract(stream, name, tree.ExtractOptions{Overwrite: o.overwrite, AllowCaseCollisions: o.anyCase}, report); err != nil {
		return err
	}
	finish()
	human := fmt.Sprintf("%s %s%s", stream.Root, printable.Name(name), resumed(stream.Resumed, cmp.Or(stream.TreeBytes, stream.Size)))
	if a.quiet {
		human = ""
	}
	return a.print(fetched{Object: stream.Object, Output: name}, human)
}

// update brings what is on disk to an object.
func (a *app) update(ctx context.Context, s api.Reader, key string, o getOptions) error {
	name := o.output
	if name == "" {
		addr, below, _ := strings.Cut(strings.TrimRight(key, "/"), "/")
		name = strings.TrimPrefix(addr, "b3:")
		if below != "" {
			name = path.Base(below)
		}
	}
	report, finish := a.progress("updating " + name)
	defer finish()
	top, stats, err := tree.Update(ctx, s, key, name, tree.UpdateOptions{Delete: o.delete, AllowCaseCollisions: o.anyCase}, report)
	if err != nil {
		return err
	}
	finish()
	human := fmt.Sprintf("%s %s: %d kept, %d written (%s), %d removed", top.Root, printable.Name(name), stats.Kept, stats.Written, limits.Bytes(stats.Bytes).Human(), stats.Removed)
	if a.quiet {
		human = ""
	}
	got := api.Object{Root: top.Root, Kind: top.Kind, Size: top.Size, Name: top.Name, Executable: top.Executable}
	return a.print(fetched{Object: got, Output: name, Updated: &stats}, human)
}
