// Package fileio has the commands that bring files and directories into a node and
// out of it again: add, get, cat, ls, diff and share.
package fileio

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"allium/cmd/allium/adding"
	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/cmd/allium/replication"
	"allium/cmd/allium/source"
	"allium/cmd/allium/term"
	"allium/gateway/api"
	"allium/internal/printable"
	"allium/node"
	"allium/node/files"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// AddCommand returns `allium add`.
func AddCommand(a *cli.App) *cobra.Command {
	var o api.AddOptions
	var name string
	var rehash bool
	var onBad string
	var through source.GatewayFlags
	var noWait bool
	cmd := &cobra.Command{
		Use:   "add PATH…",
		Short: "Store files and directories and print their addresses",
		Long: `Store files and directories and print "b3:<hex> <path>" for each. A file's
address is what b3sum prints; a directory's depends on names, contents,
executable bits and link targets, and on nothing else. What is added is pinned
with everything below it, so that it is never evicted.

A file that an earlier add has read is not read again if its device, inode, size,
modification time and change time are the same and the store still holds it.
--rehash reads every file. The list of known files is cache/add in the home
directory; a node that keeps its store in RAM has none.

Names and link targets are stored in Unicode normal form C; the names that this
changes are listed. An entry of a directory is bad if no directory can hold it or
"allium get" would refuse it: a name that is not UTF-8, two names that become one
in normal form C, a file that cannot be read, a socket, pipe or device, a link that
is absolute or leads out of the directory. So is what has private keys: the home
directory of a node, this one's or another, and the key of a node or a zone. What lies
in a home directory cannot be added at all. All entries are checked before anything is
stored. With --on-bad-entry=refuse the first 100 bad entries are listed and
nothing is stored (exit code 2). With skip they are left out and listed, on
standard error and in --json as "notes"; the exit code is 0 if all else was stored.

"-" adds standard input as one file.

With --rf N, N nodes of this node's cluster hold each object that was added. The
addresses are printed when everything is stored and durable here; then add waits until
other nodes hold it durably and have proved that, and ends with 0. When the cluster
cannot hold so many copies it says why, and when it is interrupted the node goes on.

With --gateway files are stored on another node. That needs a capability that
allows put, and also pin unless --no-pin is given. A file is uploaded in pieces,
and an upload continues where the connection was cut. A directory is sent in one
piece. This command computes the address too: an answer with another address is an
error.`,
		Example: `  allium add ./photos
  allium add -q report.pdf
  allium add ./old-disk --on-bad-entry=skip
  allium add ./photos --rf 3
  allium add ./videos --ec 6+3
  tar c ./src | allium add - --name src.tar
  ALLIUM_TOKEN=$TOKEN allium add --gateway https://host report.pdf ./photos`,
		Args: cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, paths []string) error {
			for i, p := range paths {
				if p == "-" && len(paths) > 1 {
					return failure.NewUsage("give - as the only argument",
						"argument %d of %d is -, standard input", i+1, len(paths))
				}
			}
			var err error
			if o.OnBadEntry, err = api.ParseOnBadEntry(onBad); err != nil {
				return failure.In("--on-bad-entry", err)
			}
			if o.Target, err = replication.TargetFromFlag(cmd); err != nil {
				return err
			}
			if o.Target != nil && o.NoPin {
				return failure.NewUsage("leave one of them out",
					"--rf and --ec ask for copies of a pin, and --no-pin sets none")
			}
			g, err := through.Open(a)
			if err != nil {
				return err
			}
			if g != nil {
				defer g.Close()
				if o.Target != nil {
					return failure.NewUsage("pin it there, on a node of the cluster",
						"copies cannot be asked for through a gateway")
				}
				return addThrough(cmd.Context(), a, g, paths, name, o)
			}
			names := paths
			fromStdin := paths[0] == "-"
			if fromStdin {
				spooled, remove, err := spool(cmd.Context(), a.Stdin, name)
				if err != nil {
					return err
				}
				defer remove()
				paths, names = []string{spooled}, []string{name}
			}
			disk, err := adding.Disk(a, paths, o.OnBadEntry)
			if err != nil {
				return err
			}
			notes, err := disk.Check(cmd.Context())
			if err != nil {
				return err
			}
			adding.TellNotes(a, notes)
			tell := func() *api.AddNotes {
				all := adding.LateNotes(a, notes, disk)
				notes = nil // once
				return all
			}
			items := disk.Items()
			return a.WithStore(cmd.Context(), func(s api.Store) (err error) {
				in := addition{items: items, size: disk.Size(), one: disk.OneFile(), names: names, notes: tell,
					unnamed: fromStdin && !cmd.Flags().Changed("name")}
				if !fromStdin {
					known, home, done, err := adding.CachedItems(cmd.Context(), a, s, items, rehash)
					if err != nil {
						return err
					}
					defer done()
					in.items, in.home = known, home
				}
				return add(cmd.Context(), a, s, in, o, !noWait)
			})
		},
	}
	cmd.Flags().BoolVar(&o.NoPin, "no-pin", false,
		"add without a pin: the objects are cache, and are evicted when space is needed")
	cmd.Flags().StringVar(&o.Label, "label", "", "label of the pins (default: no label)")
	cmd.Flags().BoolVar(&rehash, "rehash", false, "read every file, also those that an earlier add has read")
	cmd.Flags().StringVar(&name, "name", "stdin", "file name of standard input")
	cmd.Flags().StringVar(&onBad, "on-bad-entry", string(api.RefuseBadEntries),
		"what to do about entries that cannot be added: refuse (add nothing) or skip")
	replication.TargetFlag(cmd,
		"how many nodes of the cluster shall hold it, this one included; add waits until they do (default: this one)")
	cmd.Flags().BoolVar(&noWait, "no-wait", false,
		"with --rf or --ec: end when it is stored here, and have the node make the copies")
	through.Add(cmd, "store it on this gateway")
	return cmd
}

// addition is the content that one add stores.
type addition struct {
	items files.Items
	size  int64                // bytes of items
	one   bool                 // items are one file, see files.Disk.OneFile
	names []string             // a line is printed for each
	notes func() *api.AddNotes // what each answer has, as it is then; may be nil

	unnamed bool   // links have no name, as nobody gave one
	home    string // notes that names are paths; "": they are none, or home keeps nothing
}

// linked is an added entry with its links.
type linked struct {
	api.Added
	Links []string `json:"links,omitempty"` // none without a gateway
}

// add stores what in says, and prints a line for each of its names.
func add(ctx context.Context, a *cli.App, s api.Store, in addition, o api.AddOptions, wait bool) error {
	begun := time.Now()
	var roots []b3.Root
	var sum api.Added
	var report api.ProgressFunc
	line := a.Line("adding "+shownNames(in.names), true)
	defer line.Finish()
	if line != nil {
		report = adding.WithTotal(line.Report, in.size)
	}
	i, at := 0, adding.KnownGateway(ctx, s)
	for added, err := range addItems(ctx, s, in, o, report) {
		if err != nil {
			return err
		}
		sum.Files, sum.Bytes, sum.Reused = sum.Files+added.Files, sum.Bytes+added.Bytes, sum.Reused+added.Reused
		if in.notes != nil {
			added.Notes = in.notes()
		}
		human := fmt.Sprintf("%s %s", added.Root, printable.Name(in.names[i]))
		i++
		name := added.Name
		if in.unnamed {
			name = ""
		}
		item := linked{added, at.RootLinks(added.Root, name, added.Kind == api.Directory)}
		roots = append(roots, added.Root)
		line.Clear()
		if err := a.Print(item, a.Text(human, added.Root.String())); err != nil {
			return err
		}
		adding.TellLinks(a, item.Links)
	}
	line.Finish()
	adding.TellAdded(a, sum, time.Since(begun))
	if !o.NoPin {
		adding.NotePaths(ctx, a, in.home, roots, in.names)
	}
	if wait && o.Target != nil && o.Target.Wants() {
		return replication.AwaitCopies(ctx, a, s, roots, o.Target)
	}
	return nil
}

// shownNames returns the text that stands for names while an add runs.
func shownNames(names []string) string {
	if len(names) > 1 {
		return printable.Count(len(names), "path")
	}
	return filepath.Base(names[0])
}

// addItems gives the items of in to a store of this process directly, and to a node as an
// open file or a tar stream.
func addItems(
	ctx context.Context, s api.Store, in addition, o api.AddOptions, report api.ProgressFunc,
) iter.Seq2[api.Added, error] {
	if off, ok := s.(*node.Offline); ok {
		return off.AddItems(ctx, in.items, o, report)
	}
	if in.one {
		return files.SendFile(ctx, s, in.items, o, report)
	}
	return files.SendItems(ctx, s, in.items, o, report)
}

// spool copies r to a temporary file called name, because a tar header needs the
// length before the bytes. The caller calls remove to delete the file.
func spool(ctx context.Context, r io.Reader, name string) (file string, remove func(), err error) {
	if name != filepath.Base(name) || name == "." || name == ".." {
		return "", nil, failure.NewUsage("give a name without slashes", "--name %q is no plain file name", name)
	}
	dir, err := os.MkdirTemp("", "allium-add-")
	if err != nil {
		return "", nil, spoolError(err)
	}
	remove = func() { _ = os.RemoveAll(dir) }
	file = filepath.Join(dir, name)
	if err := cli.WriteNewFile(file, term.Interruptible(ctx, r)); err != nil {
		remove()
		return "", nil, spoolError(failure.In("standard input", err))
	}
	return file, remove, nil
}

// spoolError returns err with what to do when the disk of temporary files is full.
func spoolError(err error) error {
	if failure.OutcomeOf(err) != status.NoSpace {
		return err
	}
	return status.Errorf(status.NoSpace, "standard input is held on the disk of temporary files, %s, and that is "+
		"full (%w); make space on it, or name a directory of another disk with TMPDIR", os.TempDir(), err)
}
