package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"allium/gateway/api"
	"allium/internal/limits"
	"allium/protocols/status"
)

func (a *app) statCommand() *cobra.Command {
	var whole bool
	var through gatewayFlags
	cmd := &cobra.Command{
		Use:   "stat KEY[/path]",
		Short: "Describe an object and what this node has of it, or the store",
		Long: `Describe an object and what this node has of it. With --store, say what the store
holds and where its bytes are; that reads counters, not the objects.`,
		Example: "  allium stat b3:… --json\n  allium stat --store",
		Args: func(cmd *cobra.Command, got []string) error {
			want := cobra.ExactArgs(1)
			if whole {
				want = cobra.NoArgs
			}
			return args(want)(cmd, got)
		},
		RunE: func(cmd *cobra.Command, arg []string) error {
			switch {
			case whole && through.url != "":
				return status.Errorf(status.BadRequest, "--store is about the own store; it cannot go with --gateway")
			case whole:
				return a.withStore(cmd.Context(), func(s api.Store) error {
					st, err := s.StatStore(cmd.Context())
					if err != nil {
						return err
					}
					return a.print(st, storeStatText(st))
				})
			}
			return a.withReader(cmd.Context(), through, func(s api.Reader) error { return a.stat(cmd, s, arg[0]) })
		},
	}
	through.add(cmd, "ask")
	cmd.Flags().BoolVar(&whole, "store", false, "the store instead of an object")
	return cmd
}

func (a *app) stat(cmd *cobra.Command, s api.Reader, key string) error {
	st, err := s.Stat(cmd.Context(), key)
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "address  %s\ncid      %s\nkind     %s\nsize     %d (%s, %d groups of 64 KiB)\n",
		st.Root, st.CID, st.Kind, st.Size, limits.Bytes(st.Size).Human(), st.Groups)
	if st.Kind == api.Directory {
		fmt.Fprintf(&b, "entries  %d\n", st.Entries)
	}
	fmt.Fprintf(&b, "local    %t", st.Local)
	for _, p := range st.Pins {
		fmt.Fprintf(&b, "\npinned   %s", pinLine(p))
	}
	if a.quiet {
		return a.print(st, st.Root.String())
	}
	return a.print(st, b.String())
}

// storeStatText is a table; what is zero and says nothing by that is left out.
func storeStatText(s api.StoreStat) string {
	var b strings.Builder
	line := func(name string, n int64, bytes int64, more string) {
		fmt.Fprintf(&b, "\n%-11s %10d %11s%s", name, n, limits.Bytes(bytes).Human(), more)
	}
	size := func(name string, bytes int64, more string) {
		fmt.Fprintf(&b, "\n%-11s %10s %11s%s", name, "", limits.Bytes(bytes).Human(), more)
	}
	fmt.Fprintf(&b, "backend     %10s", s.Backend)
	line("objects", s.Objects, s.Bytes, fmt.Sprintf("  %s small, %s large", limits.Bytes(s.SmallBytes).Human(), limits.Bytes(s.LargeBytes).Human()))
	if s.Corrupt > 0 {
		fmt.Fprintf(&b, "\n%-11s %10d              `allium verify --all --repair` fetches them again", "damaged", s.Corrupt)
	}
	if s.PartialObjects > 0 {
		line("partial", s.PartialObjects, s.PartialBytes, "")
	}
	if s.Uploads > 0 {
		line("uploads", s.Uploads, s.UploadBytes, "  not whole yet")
	}
	size("outboards", s.OutboardBytes, "")
	size("index", s.Index, "")
	if g := s.Segments; g.Files > 0 {
		line("segments", int64(g.Files), g.Bytes, "  "+limits.Bytes(g.LiveBytes).Human()+" needed")
		line("spares", int64(g.Spares), g.SpareBytes, "")
		if g.Compactions > 0 {
			line("compacted", g.Compactions, g.CompactedBytes, "  copied, "+limits.Bytes(g.ReclaimedBytes).Human()+" given back")
		}
	}
	line("used", s.Space.Used.Objects, s.Space.Used.Bytes, storeBounds(s.Space))
	if s.Space.Free >= 0 {
		size("free", s.Space.Free, "  "+limits.Bytes(s.Space.Reserve).Human()+" of it stay free")
	}
	if s.Hot != (api.HotTier{}) {
		line("hot", s.Hot.Objects, s.Hot.Bytes, fmt.Sprintf("  %d hits, %d misses", s.Hot.Hits, s.Hot.Misses))
	}
	if s.Leases > 0 || s.Ingests > 0 {
		fmt.Fprintf(&b, "\n%-11s %10d              %d downloads being written", "in use", s.Leases, s.Ingests)
	}
	if s.GC.Runs > 0 {
		line("collected", s.GC.LastRemoved.Objects, s.GC.LastRemoved.Bytes, "  "+s.GC.LastEnd.Local().Format("2006-01-02 15:04"))
	}
	if v := s.Scrub; !v.Started.IsZero() {
		line("checked", v.Objects, v.Bytes, fmt.Sprintf("  %.0f %%, %d bad", 100*v.Progress, v.Bad))
	}
	if s.Space.Full {
		fmt.Fprintf(&b, "\nnothing is stored: %s", s.Space.FullReason)
	}
	if s.WriteErr != "" {
		fmt.Fprintf(&b, "\nnothing is written until the node is started again: %s", s.WriteErr)
	}
	return b.String()
}

func storeBounds(sp api.StoreSpace) string {
	text := ""
	if sp.Max.Bytes > 0 {
		text += "  of " + limits.Bytes(sp.Max.Bytes).Human()
	}
	if sp.Max.Objects > 0 {
		text += fmt.Sprintf("  of %d objects", sp.Max.Objects)
	}
	return text
}
