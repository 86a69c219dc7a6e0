package text

import (
	"fmt"
	"strings"

	"allium/gateway/api"
)

// Stat describes an object and what the node has of it.
func Stat(st api.Stat, quiet bool) string {
	if quiet {
		return st.Root.String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "address  %s\ncid      %s\nkind     %s\n", st.Root, st.CID, st.Kind)
	fmt.Fprintf(&b, "size     %d (%s, %s of 64 KiB)\n", st.Size, size(st.Size), Plural(st.Groups, "group"))
	if st.Kind == api.Directory {
		fmt.Fprintf(&b, "entries  %d\n", st.Entries)
	}
	fmt.Fprintf(&b, "local    %t", st.Local)
	for _, p := range st.Pins {
		fmt.Fprintf(&b, "\npinned   %s", Pin(p))
	}
	return b.String()
}

// StoreStat is a table of what the store holds. Rows are left out if they are
// zero and that says nothing.
func StoreStat(s api.StoreStat) string {
	var b strings.Builder
	row := func(name string, n, bytes int64, more string) {
		fmt.Fprintf(&b, "\n%-11s %10d %11s%s", name, n, size(bytes), more)
	}
	bytesRow := func(name string, bytes int64, more string) {
		fmt.Fprintf(&b, "\n%-11s %10s %11s%s", name, "", size(bytes), more)
	}
	countRow := func(name string, n int64, more string) {
		fmt.Fprintf(&b, "\n%-11s %10d              %s", name, n, more)
	}
	fmt.Fprintf(&b, "backend     %10s", s.Backend)
	row("objects", s.Objects, s.Bytes, fmt.Sprintf("  %s small, %s large", size(s.SmallBytes), size(s.LargeBytes)))
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
		row("segments", int64(g.Files), g.Bytes, "  "+size(g.LiveBytes)+" needed")
		row("spares", int64(g.Spares), g.SpareBytes, "")
		if g.Compactions > 0 {
			row("compacted", g.Compactions, g.CompactedBytes, "  copied, "+size(g.ReclaimedBytes)+" given back")
		}
	}
	row("used", s.Space.Used.Objects, s.Space.Used.Bytes, storeBounds(s.Space))
	if s.Space.Free >= 0 {
		bytesRow("free", s.Space.Free, "  "+size(s.Space.Reserve)+" of it stay free")
	}
	if s.Hot != (api.HotTier{}) {
		row("hot", s.Hot.Objects, s.Hot.Bytes, fmt.Sprintf("  %d hits, %d misses", s.Hot.Hits, s.Hot.Misses))
	}
	if s.Leases > 0 || s.Ingests > 0 {
		countRow("in use", int64(s.Leases), Plural(int64(s.Ingests), "download")+" being written")
	}
	if s.GC.Runs > 0 {
		row("collected", s.GC.LastRemoved.Objects, s.GC.LastRemoved.Bytes, "  "+minute(s.GC.LastEnd))
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
		text += "  of " + size(sp.Max.Bytes)
	}
	if sp.Max.Objects > 0 {
		text += "  of " + Plural(sp.Max.Objects, "object")
	}
	return text
}

// Damages lists the findings of r, or is none if there are none.
func Damages(r api.DamageReport, none string) string {
	if len(r.Damage) == 0 {
		return none
	}
	lines := make([]string, 0, len(r.Damage))
	for _, d := range r.Damage {
		lines = append(lines, Damage(d))
	}
	return strings.Join(lines, "\n")
}

// Damage is one finding.
func Damage(d api.Damage) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-8s %-6s %s", d.State, d.Kind, d.File)
	if d.Length > 0 {
		fmt.Fprintf(&b, " %d+%d", d.Offset, d.Length)
	}
	if !d.Found.IsZero() {
		fmt.Fprintf(&b, "  found %s", minute(d.Found))
	}
	fmt.Fprintf(&b, "  %s", d.Cause)
	if d.Left > 0 {
		fmt.Fprintf(&b, "; %s of records are lost, and nobody knows which", size(d.Left))
	}
	for i, root := range d.Roots {
		if i == 0 {
			b.WriteString("; affects")
		}
		address := root.String()
		b.WriteString(" " + address[:7] + "…" + address[len(address)-4:])
	}
	return b.String()
}

// Verified is the result for one object, and empty if all of its bytes are good.
func Verified(v api.Verified) string {
	where := ""
	if v.Pin != nil {
		where = ", pinned"
		if v.Path != "" {
			where = fmt.Sprintf(", %s/%s of a pin", v.Pin.Root, v.Path)
		}
	}
	switch {
	case v.Repaired:
		return fmt.Sprintf("%s repaired: fetched again and every byte proved%s", v.Root, where)
	case v.Error != nil && v.Again:
		return fmt.Sprintf("%s %s%s", v.Root, v.Error.Reason, where)
	case v.Error != nil:
		return fmt.Sprintf("%s %s%s: %s", v.Root, v.Error.Reason, where, v.Error.Message)
	}
	return ""
}
