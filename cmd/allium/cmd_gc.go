package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"allium/gateway/api"
	"allium/internal/limits"
	"allium/internal/printable"
)

func (a *app) gcCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Remove objects that nothing holds, or say what holds them",
		Long:  "What no pin holds is cache. A node evicts the least recently used of it on its own when the store is nearly as full as store.max_bytes and store.max_objects allow; these commands show and do the same by hand.",
		Example: `  allium gc plan
  allium gc why b3:…
  allium gc run --all`,
	}
	cmd.AddCommand(a.gcPlanCommand(), a.gcWhyCommand(), a.gcRunCommand())
	return cmd
}

// gcExamples is how many objects are shown without --list.
const gcExamples = 10

func (a *app) gcPlanCommand() *cobra.Command {
	o := api.GCOptions{Dry: true, Fast: true, List: true}
	var all bool
	cmd := &cobra.Command{
		Use:     "plan",
		Short:   "Say what `gc run` would remove, and why the rest stays",
		Example: "  allium gc plan\n  allium gc plan --all --list",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.gc(cmd, o, all) },
	}
	cmd.Flags().BoolVar(&o.All, "all", false, "everything that nothing holds, not only what the low-water mark asks for")
	cmd.Flags().BoolVar(&all, "list", false, fmt.Sprintf("every object that would go, not only %d", gcExamples))
	return cmd
}

func (a *app) gcRunCommand() *cobra.Command {
	o := api.GCOptions{}
	cmd := &cobra.Command{
		Use:     "run",
		Short:   "Evict down to the low-water mark, or everything that nothing holds",
		Example: "  allium gc run\n  allium gc run --all --fast",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.gc(cmd, o, o.List) },
	}
	cmd.Flags().BoolVar(&o.All, "all", false, "everything that nothing holds, not only what the low-water mark asks for")
	cmd.Flags().BoolVar(&o.Fast, "fast", false, "take no rests (store.gc_duty)")
	cmd.Flags().BoolVar(&o.List, "list", false, "print every object that is removed")
	return cmd
}

// gc runs a collection and prints objects, all or some, and the report.
func (a *app) gc(cmd *cobra.Command, o api.GCOptions, all bool) error {
	return a.withStore(cmd.Context(), func(s api.Store) error {
		report, finish := a.progress("collecting")
		defer finish()
		shown := 0
		r, err := s.GC(cmd.Context(), o, report, func(v api.GCObject) error {
			if shown++; !all && shown > gcExamples {
				return nil
			}
			return a.print(v, v.Root.String()+"  "+limits.Bytes(v.Size).Human()+gcUsed(v.Used))
		})
		if err != nil {
			return err
		}
		finish()
		if a.quiet {
			return nil
		}
		return a.print(r, gcSummary(r, shown > gcExamples && !all))
	})
}

func gcUsed(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return "  used " + t.Local().Format("2006-01-02 15:04")
}

// gcReasons say why a class stays or goes.
var gcReasons = map[string]string{
	"pinned": "pins hold them", "leased": "in use", "recent": "used since this began", "held": "an add or a fetch will pin them",
	"cache": "nothing holds them, their space is not needed", "removed": "nothing held them",
}

func gcSummary(r api.GCReport, more bool) string {
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
		fmt.Fprintf(&b, "%-9s %8d objects %11s  %s\n", name, c.Objects, limits.Bytes(c.Bytes).Human(), why)
	}
	if r.Blocked != "" {
		fmt.Fprintf(&b, "nothing can be removed: %s\n", r.Blocked)
	}
	for _, d := range r.Damaged {
		if d.Fix != r.Blocked {
			fmt.Fprintf(&b, "nothing can be removed: %s\n", d.Fix)
		}
	}
	fmt.Fprintf(&b, "used      %8d objects %11s", r.Used.Objects, limits.Bytes(r.Used.Bytes).Human())
	if r.Max.Bytes > 0 {
		fmt.Fprintf(&b, " of %s; evictions end at %s", limits.Bytes(r.Max.Bytes).Human(), limits.Bytes(r.Low.Bytes).Human())
	}
	if r.Max.Objects > 0 {
		fmt.Fprintf(&b, "; %d objects at most, evictions end at %d", r.Max.Objects, r.Low.Objects)
	}
	return b.String()
}

func (a *app) gcWhyCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "why KEY",
		Short:   "Say what keeps an object: pins, directories, readers",
		Example: "  allium gc why b3:…",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, arg []string) error {
			return a.withStore(cmd.Context(), func(s api.Store) error {
				w, err := s.GCWhy(cmd.Context(), arg[0])
				if err != nil {
					return err
				}
				return a.print(w, gcWhyText(w))
			})
		},
	}
}

// gcNext says whether an object of the cache goes next.
func gcNext(w api.GCWhy) string {
	if w.Cutoff.IsZero() {
		return "what the next eviction removes is not known: there is no bound, or this node has not looked yet"
	}
	cutoff := strings.TrimSpace(gcUsed(w.Cutoff))
	if w.Next {
		return "the next eviction removes it, with what was " + cutoff + " or before"
	}
	return "the next eviction leaves it: it removes what was " + cutoff + " or before"
}

func gcWhyText(w api.GCWhy) string {
	var lines []string
	for _, p := range w.Pins {
		lines = append(lines, "pinned: "+pinLine(p))
	}
	if w.Above != nil {
		lines = append(lines, fmt.Sprintf("below the pin of %s: %s", w.Above.Root, pinLine(*w.Above)))
		for i, st := range w.Path {
			name := printable.Name(st.Name)
			if name == "" {
				name = "."
			}
			lines = append(lines, fmt.Sprintf("%s%s  %s", strings.Repeat("  ", i+1), name, st.Root))
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
		lines = append(lines, "an add or a fetch under way keeps it until its pin is set")
	}
	switch {
	case w.Here == "no":
		lines = append(lines, "it is not here")
	case !w.Kept:
		lines = append(lines, "nothing holds it: it is cache, evicted when its space is needed and it is the least recently used", gcNext(w))
	}
	if w.Here != "no" {
		lines = append(lines, fmt.Sprintf("%s here, %s%s", w.Here, limits.Bytes(w.Size).Human(), gcUsed(w.Used)))
	}
	return strings.Join(lines, "\n")
}
