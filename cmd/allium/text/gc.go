package text

import (
	"fmt"
	"strings"
	"time"

	"allium/gateway/api"
	"allium/internal/printable"
)

// GCObject is an object that a collection removes or would remove.
func GCObject(o api.GCObject) string {
	return o.Root.String() + "  " + size(o.Size) + lastUsed(o.Used)
}

// lastUsed says when an object was last used, if that is known.
func lastUsed(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return "  used " + minute(t)
}

// gcReasons say why the objects of a class stay or go.
var gcReasons = map[string]string{
	"pinned":  "pins hold them",
	"leased":  "in use",
	"recent":  "used since the collection began",
	"held":    "an add or a fetch will pin them",
	"cache":   "nothing holds them, and their space is not needed",
	"removed": "nothing held them",
}

// GC is the report of a collection. more says that some objects were not listed.
func GC(r api.GCReport, more bool) string {
	var b strings.Builder
	if more {
		b.WriteString("… --list shows all\n")
	}
	for _, c := range r.Classes {
		name := c.Class
		if c.Objects == 0 && name != "removed" {
			continue
		}
		why := gcReasons[name]
		if r.Dry && name == "removed" {
			name, why = "would go", "nothing holds them"
		}
		fmt.Fprintf(&b, "%-9s %16s %11s  %s\n", name, Plural(c.Objects, "object"), size(c.Bytes), why)
	}
	if r.Blocked != "" {
		fmt.Fprintf(&b, "nothing can be removed: %s\n", r.Blocked)
	}
	for _, d := range r.Damaged {
		if d.Fix != r.Blocked {
			fmt.Fprintf(&b, "nothing can be removed: %s\n", d.Fix)
		}
	}
	fmt.Fprintf(&b, "%-9s %16s %11s", "used", Plural(r.Used.Objects, "object"), size(r.Used.Bytes))
	if r.Max.Bytes > 0 {
		fmt.Fprintf(&b, " of %s; evictions end at %s", size(r.Max.Bytes), size(r.Low.Bytes))
	}
	if r.Max.Objects > 0 {
		fmt.Fprintf(&b, "; at most %s, evictions end at %d", Plural(r.Max.Objects, "object"), r.Low.Objects)
	}
	return b.String()
}

// GCWhy says what keeps an object, or that the next eviction may remove it.
func GCWhy(w api.GCWhy) string {
	var lines []string
	for _, p := range w.Pins {
		lines = append(lines, "pinned: "+Pin(p))
	}
	if w.Above != nil {
		lines = append(lines, fmt.Sprintf("below the pin of %s: %s", w.Above.Root, Pin(*w.Above)))
		for i, step := range w.Path {
			name := printable.Name(step.Name)
			if name == "" {
				name = "."
			}
			lines = append(lines, fmt.Sprintf("%s%s  %s", strings.Repeat("  ", i+1), name, step.Root))
		}
	}
	if w.Unknown != "" {
		lines = append(lines, w.Unknown)
	}
	if w.Ingest {
		lines = append(lines, "being downloaded")
	}
	if w.Leases > 0 {
		lines = append(lines, fmt.Sprintf("in use: %d readers or writers", w.Leases))
	}
	if w.Held {
		lines = append(lines, "an add or a fetch holds it until its pin is set")
	}
	switch {
	case w.Here == "no":
		lines = append(lines, "it is not in the store")
	case !w.Kept:
		lines = append(lines,
			"nothing holds it: it is cache, and is evicted when space is needed and it is the least recently used",
			nextEviction(w))
	}
	if w.Here != "no" {
		lines = append(lines, fmt.Sprintf("%s here, %s%s", w.Here, size(w.Size), lastUsed(w.Used)))
	}
	return strings.Join(lines, "\n")
}

// nextEviction says whether the next eviction removes an object of the cache.
func nextEviction(w api.GCWhy) string {
	if w.Cutoff.IsZero() {
		return "what the next eviction removes is not known: the store has no bound, or no eviction was planned yet"
	}
	cutoff := strings.TrimSpace(lastUsed(w.Cutoff))
	if w.Next {
		return "the next eviction removes it, with all that was " + cutoff + " or before"
	}
	return "the next eviction leaves it: it removes what was " + cutoff + " or before"
}
