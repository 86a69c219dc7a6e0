package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"allium/gateway/api"
	"allium/gateway/client"
	"allium/internal/printable"
	"allium/node"
	"allium/node/tree"
	"allium/node/tree/addcache"
	"allium/protocols/b3"
	"allium/protocols/status"
)

func (a *app) addCommand() *cobra.Command {
	var o api.AddOptions
	var name string
	var rehash bool
	var onBad string
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

Names and link targets are stored in Unicode normal form C; what that changes is
listed. Bad entries of a directory are those that no directory can hold or get
would refuse: names that are no UTF-8 or become one, files that cannot be read,
sockets, pipes and devices, links that are absolute or lead out of the directory.
They are looked for before anything is stored. With --on-bad-entry=refuse they
are listed, the first 100, and nothing is stored (exit code 2); with skip they
are left out and listed, on standard error and in --json as "notes", and the exit
code is 0 when all else was stored.

"-" adds standard input as one file.

With --gateway files are stored on another node, and need a capability that
allows put, and pin unless --no-pin is there. Each goes up in pieces and is
resumed where the connection was cut; its address is worked out here, and an
answer that names another one is an error. Directories are added on a node.`,
		Example: `  allium add ./photos
  allium add -q report.pdf
  allium add ./old-disk --on-bad-entry=skip
  tar c ./src | allium add - --name src.tar
  ALLIUM_TOKEN=… allium add --gateway https://host report.pdf`,
		Args: args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, paths []string) error {
			for i, p := range paths {
				if p == "-" && len(paths) > 1 {
					return status.Errorf(status.BadRequest, "- stands alone; argument %d of %d is standard input", i+1, len(paths))
				}
			}
			var err error
			if o.OnBadEntry, err = api.ParseOnBadEntry(onBad); err != nil {
				return fmt.Errorf("--on-bad-entry: %w", err)
			}
			g, err := through.open(a)
			if err != nil {
				return err
			}
			if g != nil {
				defer g.Close()
				return a.addThrough(cmd.Context(), g, paths, name, o)
			}
			names := paths
			fromStdin := paths[0] == "-"
			if fromStdin {
				spooled, remove, err := spool(cmd.Context(), a.stdin, name)
				if err != nil {
					return err
				}
				defer remove()
				paths, names = []string{spooled}, []string{name}
			}
			disk := tree.NewDisk(paths, o.OnBadEntry)
			notes, err := disk.Check(cmd.Context())
			if err != nil {
				return err
			}
			a.tellNotes(notes)
			items := disk.Items()
			return a.withStore(cmd.Context(), func(s api.Store) (err error) {
				if fromStdin {
					return a.add(cmd.Context(), s, items, names, notes, o)
				}
				cache, err := a.addCache(cmd.Context(), s)
				if err != nil {
					return err
				}
				if cache == nil {
					return a.add(cmd.Context(), s, items, names, notes, o)
				}
				err = a.add(cmd.Context(), s, tree.CachedItems(items, cache, rehash), names, notes, o)
				_ = cache.Close() // the add is done; what the cache has lost is read again
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&o.NoPin, "no-pin", false, "leave what is added to the cache, to be evicted when space is needed")
	cmd.Flags().StringVar(&o.Label, "label", "", "label of the pins")
	cmd.Flags().BoolVar(&rehash, "rehash", false, "read every file, also what is known from an earlier add")
	cmd.Flags().StringVar(&name, "name", "stdin", "name of standard input")
	cmd.Flags().StringVar(&onBad, "on-bad-entry", string(api.RefuseBadEntries), "what becomes of entries that cannot be added: refuse (nothing is added) or skip")
	_ = cmd.RegisterFlagCompletionFunc("on-bad-entry", cobra.FixedCompletions([]string{string(api.RefuseBadEntries), string(api.SkipBadEntries)}, cobra.ShellCompDirectiveNoFileComp)) // it fails for a flag that is not there
	through.add(cmd, "store files on")
	return cmd
}

// addCacheDir is what is known of files that were added, below the home
// directory.
const addCacheDir = "cache/add"

// addCache opens what is known of files that were added. It is nil, and
// everything is read, where the store keeps nothing (amnesia), another add has it
// open, or it cannot be opened: it only saves time.
func (a *app) addCache(ctx context.Context, s api.Store) (*addcache.Cache, error) {
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

// tellNotes says what an add is about to leave out or rename; with --json its
// answer says it.
func (a *app) tellNotes(n *api.AddNotes) {
	if n == nil || a.json {
		return
	}
	var b strings.Builder
	more := func(all int64, listed int) {
		if rest := all - int64(listed); rest > 0 {
			fmt.Fprintf(&b, "  and %d more\n", rest)
		}
	}
	if n.RenamedCount > 0 {
		fmt.Fprintf(&b, "allium: brought to Unicode normal form C, %d:\n", n.RenamedCount)
		for _, e := range n.Renamed {
			fmt.Fprintf(&b, "  %s as %s\n", printable.Name(e.Path), printable.Name(e.As))
		}
		more(n.RenamedCount, len(n.Renamed))
	}
	if n.SkippedCount > 0 {
		fmt.Fprintf(&b, "allium: left out, so that what is added is partial, %d:\n", n.SkippedCount)
		for _, e := range n.Skipped {
			fmt.Fprintf(&b, "  %s: %s\n", e.Path, printable.Text(e.Reason))
		}
		more(n.SkippedCount, len(n.Skipped))
	}
	_, _ = io.WriteString(a.err, b.String())
}

// add stores items and prints a line for each of names.
func (a *app) add(ctx context.Context, s api.Store, items tree.Items, names []string, notes *api.AddNotes, o api.AddOptions) error {
	report, finish := a.progress("adding")
	defer finish()
	i := 0
	for added, err := range addItems(ctx, s, items, o, report) {
		if err != nil {
			return err
		}
		if notes != nil {
			added.Notes, notes = notes, nil
		}
		human := fmt.Sprintf("%s %s", added.Root, printable.Name(names[i]))
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
func addItems(ctx context.Context, s api.Store, items tree.Items, o api.AddOptions, report api.ProgressFunc) iter.Seq2[api.Added, error] {
	if off, ok := s.(*node.Offline); ok {
		return off.AddItems(ctx, items, o, report)
	}
	return tree.SendItems(ctx, s, items, o, report)
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
