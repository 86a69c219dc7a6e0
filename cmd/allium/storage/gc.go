package storage

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/term"
	"allium/gateway/api"
	"allium/internal/printable"
)

// GCCommand returns `allium gc`.
func GCCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Remove objects that nothing holds, or say what holds them",
		Long: `An object that no pin holds is cache. When the store is nearly as full as
store.max_bytes and store.max_objects allow, a node evicts the least recently
used cache itself. These commands show and do the same by hand.`,
		Example: `  allium gc plan
  allium gc why $ADDRESS
  allium gc run --all`,
	}
	cmd.AddCommand(gcPlanCommand(a), gcWhyCommand(a), gcRunCommand(a))
	return cmd
}

// gcExamples is the maximum number of objects that `gc plan` shows without --list.
const gcExamples = 10

func gcPlanCommand(a *cli.App) *cobra.Command {
	o := api.GCOptions{Dry: true, Fast: true, List: true}
	var all bool
	cmd := &cobra.Command{
		Use:     "plan",
		Short:   "Say what `gc run` would remove, and why the rest stays",
		Example: "  allium gc plan\n  allium gc plan --all --list",
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return gc(a, cmd, o, all) },
	}
	cmd.Flags().BoolVar(&o.All, "all", false,
		"remove everything that nothing holds, not only down to the low-water mark")
	cmd.Flags().BoolVar(&all, "list", false,
		fmt.Sprintf("list every object that would go, not only the first %d", gcExamples))
	return cmd
}

func gcRunCommand(a *cli.App) *cobra.Command {
	o := api.GCOptions{}
	cmd := &cobra.Command{
		Use:     "run",
		Short:   "Evict down to the low-water mark, or everything that nothing holds",
		Example: "  allium gc run\n  allium gc run --all --fast",
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return gc(a, cmd, o, o.List) },
	}
	cmd.Flags().BoolVar(&o.All, "all", false,
		"remove everything that nothing holds, not only down to the low-water mark")
	cmd.Flags().BoolVar(&o.Fast, "fast", false, "work without the pauses that leave the disk to others")
	cmd.Flags().BoolVar(&o.List, "list", false, "print every object that is removed")
	return cmd
}

// gc runs a collection and prints the report. Before it come the objects: all of
// them, or the first gcExamples.
func gc(a *cli.App, cmd *cobra.Command, o api.GCOptions, all bool) error {
	return a.WithStore(cmd.Context(), func(s api.Store) error {
		report, finish := a.Progress("collecting")
		defer finish()
		shown := 0
		r, err := s.GC(cmd.Context(), o, report, func(v api.GCObject) error {
			if shown++; !all && shown > gcExamples {
				return nil
			}
			return a.Print(v, gcObjectText(v))
		})
		if err != nil {
			return err
		}
		finish()
		if a.Quiet {
			return nil
		}
		return a.Print(r, gcText(r, shown > gcExamples && !all))
	})
}

func gcWhyCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     "why KEY",
		Short:   "Say what keeps an object: a pin, a directory or a reader",
		Example: "  allium gc why $ADDRESS",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, arg []string) error {
			return a.WithStore(cmd.Context(), func(s api.Store) error {
				w, err := s.GCWhy(cmd.Context(), arg[0])
				if err != nil {
					return err
				}
				return a.Print(w, gcWhyText(w))
			})
		},
	}
}

// gcObjectText is an object that a collection removes or would remove.
func gcObjectText(o api.GCObject) string {
	return o.Root.String() + "  " + term.Bytes(o.Size) + lastUsed(o.Used)
}

// lastUsed says when an object was last used, if that is known.
func lastUsed(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return "  used " + minuteOf(t)
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

// gcText is the report of a collection. more says that some objects were not listed.
func gcText(r api.GCReport, more bool) string {
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
		fmt.Fprintf(&b, "%-9s %16s %11s  %s\n", name, printable.Count(c.Objects, "object"), term.Bytes(c.Bytes), why)
	}
	if r.Blocked != "" {
		fmt.Fprintf(&b, "nothing can be removed: %s\n", r.Blocked)
	}
	for _, d := range r.Damaged {
		if d.Fix != r.Blocked {
			fmt.Fprintf(&b, "nothing can be removed: %s\n", d.Fix)
		}
	}
	fmt.Fprintf(&b, "%-9s %16s %11s", "used", printable.Count(r.Used.Objects, "object"), term.Bytes(r.Used.Bytes))
	if r.Max.Bytes > 0 {
		fmt.Fprintf(&b, " of %s; evictions end at %s", term.Bytes(r.Max.Bytes), term.Bytes(r.Low.Bytes))
	}
	if r.Max.Objects > 0 {
		fmt.Fprintf(&b, "; at most %s, evictions end at %d", printable.Count(r.Max.Objects, "object"), r.Low.Objects)
	}
	return b.String()
}

// gcWhyText says what keeps an object, or that the next eviction may remove it.
func gcWhyText(w api.GCWhy) string {
	var lines []string
	for _, p := range w.Pins {
		lines = append(lines, "pinned: "+PinText(p))
	}
	if w.Above != nil {
		lines = append(lines, fmt.Sprintf("below the pin of %s: %s", w.Above.Root, PinText(*w.Above)))
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
		lines = append(lines, fmt.Sprintf("%s here, %s%s", w.Here, term.Bytes(w.Size), lastUsed(w.Used)))
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

// minuteOf is t in local time, to the minute.
func minuteOf(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }
