package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"allium/gateway/client"
	"allium/node"
	"allium/node/addcache"
	"allium/protocols/b3"
	"allium/protocols/status"
)

func (a *app) addCommand() *cobra.Command {
	var o client.AddOptions
	var name string
	var rehash bool
	var through gatewayFlags
	cmd := &cobra.Command{
		Use:   "add PATH…",
		Short: "Store files and directories and print their addresses",
		Long: `Store files and directories and print "b3:<hex> <path>" for each. A file's
address is what b3sum prints; a directory's depends on names, contents,
executable bits and link targets, and on nothing else. What is added is pinned
with everything below it, so that it is never evicted.

Of a file that an earlier add has read, and that has not changed since by its
device, inode, size, modification and change time, nothing is read or sent when
the store still holds it; --rehash reads everything. What is known of files is
in cache/add of the home directory; a node that keeps its store in RAM has none.

"-" adds standard input as one file.

With --gateway files are stored on another node, and need a capability that
allows put, and pin unless --no-pin is there. Each goes up in pieces and is
resumed where the connection was cut; its address is worked out here, and an
answer that names another one is an error. Directories are added on a node.`,
		Example: `  allium add ./photos
  allium add -q report.pdf
  tar c ./src | allium add - --name src.tar
  ALLIUM_TOKEN=… allium add --gateway https://host report.pdf`,
		Args: args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, paths []string) error {
			for i, p := range paths {
				if p == "-" && len(paths) > 1 {
					return status.Errorf(status.BadRequest, "- stands alone; argument %d of %d is standard input", i+1, len(paths))
				}
			}
			g, err := through.open(a)
			if err != nil {
				return err
			}
			if g != nil {
				defer g.Close()
				return a.addThrough(cmd.Context(), g, paths, name, o)
			}
			items := node.DiskItems(paths...)
			names := paths
			fromStdin := paths[0] == "-"
			if fromStdin {
				spooled, remove, err := spool(cmd.Context(), a.stdin, name)
				if err != nil {
					return err
				}
				defer remove()
				items, names = node.DiskItems(spooled), []string{name}
			}
			return a.withStore(cmd.Context(), func(s client.Store) (err error) {
				if fromStdin {
					return a.add(cmd.Context(), s, items, names, o)
				}
				cache, err := a.addCache(cmd.Context(), s)
				if err != nil {
					return err
				}
				if cache == nil {
					return a.add(cmd.Context(), s, items, names, o)
				}
				err = a.add(cmd.Context(), s, node.KnownItems(items, cache, rehash), names, o)
				_ = cache.Close() // the add is done; what the cache has lost is read again
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&o.NoPin, "no-pin", false, "leave what is added to the cache, to be evicted when space is needed")
	cmd.Flags().StringVar(&o.Label, "label", "", "label of the pins")
	cmd.Flags().BoolVar(&rehash, "rehash", false, "read every file, also what is known from an earlier add")
	cmd.Flags().StringVar(&name, "name", "stdin", "name of standard input")
	through.add(cmd, "store files on")
	return cmd
}

// addCacheDir is what is known of files that were added, below the home
// directory.
const addCacheDir = "cache/add"

// addCache opens what is known of files that were added. It is nil, and
// everything is read, where the store keeps nothing (amnesia), another add has it
// open, or it cannot be opened: it only saves time.
func (a *app) addCache(ctx context.Context, s client.Store) (*addcache.Cache, error) {
	if _, err := s.Keep(ctx, []b3.Root{{}}); err != nil {
		if errors.Is(err, client.ErrNotRunning) || ctx.Err() != nil {
			return nil, err
		}
		return nil, nil
	}
	home, err := a.homeDir()
	if err != nil {
		return nil, err
	}
	cache, err := addcache.Open(filepath.Join(home, filepath.FromSlash(addCacheDir)), time.Now)
	if err != nil {
		return nil, nil //nolint:nilerr // as said above
	}
	return cache, nil
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
