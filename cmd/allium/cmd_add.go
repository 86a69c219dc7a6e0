package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"allium/gateway/client"
	"allium/node"
	"allium/protocols/status"
)

func (a *app) addCommand() *cobra.Command {
	var o client.AddOptions
	var name string
	cmd := &cobra.Command{
		Use:   "add PATH…",
		Short: "Store files and directories and print their addresses",
		Long: `Store files and directories and print "b3:<hex> <path>" for each. A file's
address is what b3sum prints; a directory's depends on names, contents,
executable bits and link targets, and on nothing else. What is added is pinned
with everything below it, so that it is never evicted.

"-" adds standard input as one file.`,
		Example: `  allium add ./photos
  allium add -q report.pdf
  tar c ./src | allium add - --name src.tar`,
		Args: args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, paths []string) error {
			for i, p := range paths {
				if p == "-" && len(paths) > 1 {
					return status.Errorf(status.BadRequest, "- stands alone; argument %d of %d is standard input", i+1, len(paths))
				}
			}
			items := node.DiskItems(paths...)
			names := paths
			if paths[0] == "-" {
				spooled, remove, err := spool(cmd.Context(), a.stdin, name)
				if err != nil {
					return err
				}
				defer remove()
				items, names = node.DiskItems(spooled), []string{name}
			}
			return a.withStore(cmd.Context(), func(s client.Store) error {
				return a.add(cmd.Context(), s, items, names, o)
			})
		},
	}
	cmd.Flags().BoolVar(&o.NoPin, "no-pin", false, "leave what is added to the cache, to be evicted when space is needed")
	cmd.Flags().StringVar(&o.Label, "label", "", "label of the pins")
	cmd.Flags().StringVar(&name, "name", "stdin", "name of standard input")
	return cmd
}

// add stores items and prints a line for each of names.
func (a *app) add(ctx context.Context, s client.Store, items node.Items, names []string, o client.AddOptions) error {
	report, finish := a.progress("adding")
	defer finish()
	i := 0
	for added, err := range addItems(ctx, s, items, o, report) {
		if err != nil {
			return err
		}
		human := fmt.Sprintf("%s %s", added.Root, names[i])
		if a.quiet {
			human = added.Root.String()
		}
		i++
		finish()
		if err := a.print(added, human); err != nil {
			return err
		}
	}
	return nil
}

// addItems hands items to a store of this process directly and to a node as a
// tar stream.
func addItems(ctx context.Context, s client.Store, items node.Items, o client.AddOptions, report client.ProgressFunc) iter.Seq2[client.Added, error] {
	if off, ok := s.(*node.Offline); ok {
		return off.AddItems(ctx, items, o, report)
	}
	return node.SendItems(ctx, s, items, o, report)
}

// spool keeps standard input in a file of that name, which remove deletes: a
// tar header needs the length before the bytes.
func spool(ctx context.Context, r io.Reader, name string) (file string, remove func(), err error) {
	if name != filepath.Base(name) || name == "." || name == ".." {
		return "", nil, status.Errorf(status.BadRequest, "--name %q is not a plain file name", name)
	}
	dir, err := os.MkdirTemp("", "allium-add-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	file = filepath.Join(dir, name)
	if err := writeAll(file, interruptible{ctx, r}); err != nil {
		remove()
		return "", nil, fmt.Errorf("standard input: %w", err)
	}
	return file, remove, nil
}

func writeAll(file string, r io.Reader) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}
