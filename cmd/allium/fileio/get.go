package fileio

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/cmd/allium/source"
	"allium/cmd/allium/term"
	"allium/gateway/api"
	"allium/internal/printable"
	"allium/node/files"
	"allium/protocols/address"
)

// getOptions are the flags of get.
type getOptions struct {
	output    string
	storeOnly bool
	overwrite bool
	anyCase   bool
	update    bool
	delete    bool
	maxStale  time.Duration
	listen    []string
	from      string
	most      files.Bounds
}

// GetCommand returns `allium get`.
func GetCommand(a *cli.App) *cobra.Command {
	var o getOptions
	var through source.GatewayFlags
	cmd := &cobra.Command{
		Use:   "get KEY[/path]",
		Short: "Fetch a file or directory and write it to disk",
		Long: `Fetch a file or directory and write it to disk. KEY is an address, a name, or a ticket
that "allium share" printed. Every 64 KiB is proved before it is written. The output
gets its name only when it is whole, and nothing is written outside it, whatever the
directory says. Until then it is called
.NAME.allium-XXXXXXXX and is locked. If a get is killed, a get in that directory a few
seconds later removes what it left.

Once bytes have arrived, a source that stands still or restarts is waited for: a
minute without a source, or until the end of --timeout. Run again, it goes on.

--update changes an existing output to match KEY. Files that are the same on disk,
by size and BLAKE3, are neither fetched nor written. Each of the others is replaced
in one step and keeps its permissions except the executable bit. Names that KEY does
not have stay, unless --delete is given. An interrupted update can be run again.

With --max-entries or --max-bytes the lists of names are read first, and a larger
KEY is refused before anything of a file is fetched (exit code 6).

With --gateway no node is needed. This command proves the bytes of the gateway
against KEY and writes none that fail the proof (exit code 65).`,
		Example: `  allium get $ADDRESS -o photos
  allium get $ADDRESS/2026/beach.jpg
  allium get $TICKET                   what "allium share -q" printed
  allium get $ADDRESS -o - | tar x     a directory as a tar stream
  allium get $ADDRESS -o photos --update --delete
  allium get $ADDRESS --store-only     keep it in the store, write no file
  allium get $ADDRESS --gateway https://gateway.example.org
  allium get $ADDRESS --from /ip4/203.0.113.7/tcp/4901/p2p/$PEER`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, arg []string) error {
			if err := o.check(); err != nil {
				return err
			}
			if o.storeOnly && through.URL != "" {
				return failure.NewUsage("leave one of them out",
					"--store-only fetches into the store of this machine's node, and --gateway uses none")
			}
			if o.storeOnly {
				return fetchTarget(cmd.Context(), a, o.from, arg[0], o.most)
			}
			if o.output != "-" {
				if err := cli.CheckOutput(cmp.Or(o.output, ".")); err != nil {
					return err
				}
			}
			if o.output != "" && o.output != "-" && !o.update {
				if err := files.CanExtract(o.output, o.extract()); err != nil {
					return err // before a node is started
				}
			}
			embed := source.EmbedOptions{Listen: o.listen, Beside: cmp.Or(o.output, ".")}
			switch o.output {
			case "-":
				embed.Beside = ""
			case "":
				embed.Beside = "x" // in the working directory
			}
			do := func(s api.Reader, to source.Target) error {
				var err error
				if to.Key, err = source.StaleName(cmd.Context(), a, s, to.Key, o.maxStale); err != nil {
					return err
				}
				if err := o.most.Check(cmd.Context(), s, to.Key); err != nil {
					return err
				}
				if o.update {
					return updateFile(cmd.Context(), a, s, to.Key, o)
				}
				return get(cmd.Context(), a, s, to, o)
			}
			return source.WithSource(cmd.Context(), a, through, o.from, arg[0], embed, do)
		},
	}
	through.Add(cmd, "fetch through this gateway")
	source.MaxStaleFlag(cmd, &o.maxStale)
	source.FromFlag(cmd, &o.from)
	source.TimeoutFlag(cmd)
	f := cmd.Flags()
	f.StringVarP(&o.output, "output", "o", "",
		"file or directory to create; - is standard output (default: the last name in KEY, else its hash)")
	f.BoolVar(&o.storeOnly, "store-only", false, "fetch into the store and write no file")
	f.BoolVar(&o.overwrite, "overwrite", false, "replace an existing output")
	f.BoolVar(&o.overwrite, "force", false, "the same as --overwrite")
	f.StringArrayVar(&o.listen, "listen", nil,
		"with a ticket and no running node, multiaddr to listen on, repeatable (default free ports)")
	f.BoolVar(&o.update, "update", false, "change an existing output to match KEY, writing only what differs")
	f.BoolVar(&o.delete, "delete", false, "with --update, remove names that KEY does not have")
	f.BoolVar(&o.anyCase, "allow-case-collisions", false, "allow names in one directory that differ only in case")
	f.Int64Var(&o.most.Entries, "max-entries", 0,
		"most files, directories and links that KEY may have (default: any number)")
	f.Var((*term.Size)(&o.most.Bytes), "max-bytes",
		"most bytes that the files of KEY may have, such as 500MiB (default: any number)")
	return cmd
}

// check refuses flags that contradict each other.
func (o getOptions) check() error {
	switch {
	case o.delete && !o.update:
		return failure.NewUsage("give --update too", "--delete is about an update")
	case o.maxStale != 0 && o.storeOnly:
		return failure.NewUsage("leave one of them out",
			"--store-only fetches what a name stands for now, and --max-stale takes an older record")
	case o.update && (o.storeOnly || o.output == "-"):
		return failure.NewUsage("leave --store-only or -o - out",
			"--update needs a file or directory on disk to change")
	}
	return nil
}

// extract returns the options of the extraction.
func (o getOptions) extract() files.ExtractOptions {
	return files.ExtractOptions{Overwrite: o.overwrite, AllowCaseCollisions: o.anyCase}
}

// fetched is the result of get.
type fetched struct {
	api.Object
	Output string `json:"output"`

	Updated *files.UpdateStats `json:"updated,omitempty"` // of --update

	TookMS float64 `json:"took_ms,omitempty"`
	Path   string  `json:"path,omitempty"` // by a ticket, to the peer that shares: direct quic, direct tcp or relayed
}

// fetchTarget brings what an argument names into the node's store.
func fetchTarget(ctx context.Context, a *cli.App, from, arg string, most files.Bounds) error {
	to, err := source.ParseTarget(ctx, a, arg)
	if err != nil {
		return err
	}
	fetch := func(n api.Node) error {
		if err := most.Check(ctx, n, to.Key); err != nil {
			return err
		}
		return fetchObject(ctx, a, n, to.Key)
	}
	switch {
	case to.Ticket != nil && from != "":
		return source.FromConflict("a ticket")
	case from != "":
		return source.WithFrom(ctx, a, from, to.Key, fetch)
	case to.Ticket != nil:
		return source.WithRunning(ctx, a, *to.Ticket, fetch)
	}
	n, err := a.Node()
	if err != nil {
		return err
	}
	defer n.Close()
	return fetch(n)
}

// fetchObject brings an object into the node's store.
func fetchObject(ctx context.Context, a *cli.App, n api.Node, key string) error {
	report, finish := a.Progress("fetching")
	defer finish()
	begun := time.Now()
	f, err := n.Fetch(ctx, key, report)
	if err != nil {
		return err
	}
	finish()
	human := fmt.Sprintf("%s: %s, %s, %s of them fetched%s, in %s", f.Root, printable.Count(f.Objects, "object"),
		term.Bytes(f.Bytes), term.Bytes(f.New), term.Resumed(f.Resumed, f.Bytes),
		term.Speed(f.New, time.Since(begun)))
	return a.Print(f, a.Text(human, f.Root.String()))
}

// get writes an object to disk, or to standard output.
func get(ctx context.Context, a *cli.App, s api.Reader, to source.Target, o getOptions) error {
	begun := time.Now()
	how := o.extract()
	if name := to.Suggested(); name != "" && o.output == "" {
		if err := files.CanExtract(name, how); err != nil {
			return err // before anything is fetched
		}
	}
	whole, err := fetchFirst(ctx, a, s, to, o)
	if err != nil {
		return err
	}
	stream, err := s.Get(ctx, to.Key)
	if err != nil {
		return err
	}
	defer stream.Body.Close()
	if o.output == "-" {
		return source.CopyOut(a, stream, to.Key, stream.TreeBytes)
	}
	name := cmp.Or(o.output, stream.Name, to.Suggested(), stream.Root.Hex())
	show, finish := a.Progress("fetching " + name)
	defer finish()
	var written int64 // bytes of files
	stream.TreeBytes = whole.Bytes
	err = files.Extract(stream, name, how, func(p api.Progress) {
		if written = p.Bytes; show != nil {
			show(p)
		}
	})
	if err != nil {
		return err
	}
	finish()
	stream.Resumed = max(stream.Resumed, whole.Resumed)
	stream.TreeBytes = max(stream.TreeBytes, whole.Bytes)
	took := time.Since(begun)
	got := fetched{Object: stream.Object, Output: name, TookMS: float64(took.Microseconds()) / 1000}
	human := fmt.Sprintf("%s %s%s: %s", stream.Root, printable.Name(name),
		term.Resumed(stream.Resumed, cmp.Or(stream.TreeBytes, stream.Size)),
		term.Took(written, max(0, written-stream.Resumed), took))
	if n, ok := s.(api.Node); ok && to.Ticket != nil {
		if got.Path = source.PathTo(ctx, n, to.Ticket.Peer); got.Path != "" {
			human += ", " + got.Path
		}
	}
	return a.Print(got, a.Loud(human))
}

// fetchFirst fetches a directory into the store of a node before it is read, where progress is shown: the
// stream of a directory begins only when all of it is there. It returns the zero value if it did not.
func fetchFirst(ctx context.Context, a *cli.App, s api.Reader, to source.Target, o getOptions) (api.Fetched, error) {
	n, ok := s.(api.Node)
	if !ok || a.ErrColumns == 0 || a.Quiet || a.JSON {
		return api.Fetched{}, nil
	}
	name := cmp.Or(o.output, to.Suggested(), to.Key)
	report, finish := a.Progress("fetching " + name)
	defer finish()
	if to.Ticket == nil || to.Key != to.Ticket.Root.String() {
		st, err := n.Stat(ctx, to.Key)
		if err != nil || st.Kind != api.Directory {
			return api.Fetched{}, err
		}
	} else if !to.Ticket.Directory {
		return api.Fetched{}, nil
	}
	return n.Fetch(ctx, to.Key, report)
}

// updateFile makes a file or directory on disk equal to an object.
func updateFile(ctx context.Context, a *cli.App, s api.Reader, key string, o getOptions) error {
	key, err := address.Canonical(key)
	if err != nil {
		return err
	}
	name := o.output
	if name == "" {
		addr, below, _ := strings.Cut(strings.TrimRight(key, "/"), "/")
		name = strings.TrimPrefix(addr, "b3:")
		if below != "" {
			name = path.Base(below)
		}
	}
	report, finish := a.Progress("updating " + name)
	defer finish()
	how := files.UpdateOptions{Delete: o.delete, AllowCaseCollisions: o.anyCase}
	top, stats, err := files.Update(ctx, s, key, name, how, report)
	if err != nil {
		return err
	}
	finish()
	human := fmt.Sprintf("%s %s: %d kept, %d written (%s), %d removed", top.Root, printable.Name(name),
		stats.Kept, stats.Written, term.Bytes(stats.Bytes), stats.Removed)
	got := api.Object{Root: top.Root, Kind: top.Kind, Size: top.Size, Name: top.Name, Executable: top.Executable}
	return a.Print(fetched{Object: got, Output: name, Updated: &stats}, a.Loud(human))
}
