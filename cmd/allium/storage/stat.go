package storage

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/cmd/allium/source"
	"allium/cmd/allium/term"
	"allium/gateway/api"
	"allium/internal/printable"
)

// StatCommand returns `allium stat`.
func StatCommand(a *cli.App) *cobra.Command {
	var whole bool
	var through source.GatewayFlags
	cmd := &cobra.Command{
		Use:   "stat KEY[/path]",
		Short: "Describe an object and what this node has of it, or the store",
		Long: `Describe an object and what this node has of it. With --store, show what the store
holds and where its bytes are. That reads counters, not the objects.`,
		Example: "  allium stat $ADDRESS --json\n  allium stat --store",
		Args:    cli.OneUnless(&whole),
		RunE: func(cmd *cobra.Command, arg []string) error {
			switch {
			case whole && through.URL != "":
				return failure.NewUsage("leave one of them out",
					"--store is about the store of this machine, and --gateway uses none")
			case whole:
				return a.WithStore(cmd.Context(), func(s api.Store) error {
					st, err := s.StatStore(cmd.Context())
					if err != nil {
						return err
					}
					return a.Print(st, storeStatText(st))
				})
			}
			do := func(s api.Reader, to source.Target) error { return stat(a, cmd, s, to.Key) }
			return source.WithTarget(cmd.Context(), a, through, arg[0], source.EmbedOptions{}, do)
		},
	}
	through.Add(cmd, "ask this gateway")
	cmd.Flags().BoolVar(&whole, "store", false, "describe the store instead of an object")
	return cmd
}

func stat(a *cli.App, cmd *cobra.Command, s api.Reader, key string) error {
	st, err := s.Stat(cmd.Context(), key)
	if err != nil {
		return err
	}
	return a.Print(st, statText(st, a.Quiet))
}

// statText describes an object and what the node has of it.
func statText(st api.Stat, quiet bool) string {
	if quiet {
		return st.Root.String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "address  %s\ncid      %s\nkind     %s\n", st.Root, st.CID, st.Kind)
	fmt.Fprintf(&b, "size     %d (%s, %s of 64 KiB)\n", st.Size, term.Bytes(st.Size),
		printable.Count(st.Groups, "group"))
	if st.Kind == api.Directory {
		fmt.Fprintf(&b, "entries  %d\n", st.Entries)
	}
	fmt.Fprintf(&b, "local    %t", st.Local)
	for _, p := range st.Pins {
		fmt.Fprintf(&b, "\npinned   %s", PinText(p))
	}
	return b.String()
}

// storeStatText is a table of what the store holds. Rows are left out if they are
// zero and that says nothing.
func storeStatText(s api.StoreStat) string {
	var b strings.Builder
	row := func(name string, n, bytes int64, more string) {
		fmt.Fprintf(&b, "\n%-11s %10d %11s%s", name, n, term.Bytes(bytes), more)
	}
	bytesRow := func(name string, bytes int64, more string) {
		fmt.Fprintf(&b, "\n%-11s %10s %11s%s", name, "", term.Bytes(bytes), more)
	}
	countRow := func(name string, n int64, more string) {
		fmt.Fprintf(&b, "\n%-11s %10d              %s", name, n, more)
	}
	fmt.Fprintf(&b, "backend     %10s", s.Backend)
	row("objects", s.Objects, s.Bytes, fmt.Sprintf("  %s small, %s large",
		term.Bytes(s.SmallBytes), term.Bytes(s.LargeBytes)))
	if s.Corrupt > 0 {
		countRow("damaged", s.Corrupt, "`allium verify --all --repair` fetches them again")
	}
	if s.PartialObjects > 0 {
		row("partial", s.PartialObjects, s.PartialBytes, "")
	}
	if s.Uploads > 0 {
		row("uploads", s.Uploads, s.UploadBytes, "  not whole yet")
	}
	bytesRow("outboards", s.OutboardBytes, "")
	bytesRow("index", s.Index, "")
	if g := s.Segments; g.Files > 0 {
		row("segments", int64(g.Files), g.Bytes, "  "+term.Bytes(g.LiveBytes)+" needed")
		row("spares", int64(g.Spares), g.SpareBytes, "")
		if g.Compactions > 0 {
			row("compacted", g.Compactions, g.CompactedBytes, "  copied, "+term.Bytes(g.ReclaimedBytes)+" given back")
		}
	}
	row("used", s.Space.Used.Objects, s.Space.Used.Bytes, storeBounds(s.Space))
	if s.Space.Free >= 0 {
		bytesRow("free", s.Space.Free, "  "+term.Bytes(s.Space.Reserve)+" of it stay free")
	}
	if s.Hot != (api.HotTier{}) {
		row("hot", s.Hot.Objects, s.Hot.Bytes, fmt.Sprintf("  %d hits, %d misses", s.Hot.Hits, s.Hot.Misses))
	}
	if s.Leases > 0 || s.Ingests > 0 {
		countRow("in use", int64(s.Leases), printable.Count(int64(s.Ingests), "download")+" being written")
	}
	if s.GC.Runs > 0 {
		row("collected", s.GC.LastRemoved.Objects, s.GC.LastRemoved.Bytes, "  "+minuteOf(s.GC.LastEnd))
	}
	if v := s.Scrub; !v.Started.IsZero() {
		row("checked", v.Objects, v.Bytes, fmt.Sprintf("  %.0f %%, %d bad", 100*v.Progress, v.Bad))
	}
	if s.Space.Full {
		fmt.Fprintf(&b, "\nnothing is stored: %s", s.Space.FullReason)
	}
	if s.WriteErr != "" {
		fmt.Fprintf(&b, "\nnothing is written until the node is started again: %s", s.WriteErr)
	}
	return b.String()
}

// storeBounds says how much the store may use.
func storeBounds(sp api.StoreSpace) string {
	text := ""
	if sp.Max.Bytes > 0 {
		text += "  of " + term.Bytes(sp.Max.Bytes)
	}
	if sp.Max.Objects > 0 {
		text += "  of " + printable.Count(sp.Max.Objects, "object")
	}
	return text
}
