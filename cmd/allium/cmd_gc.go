package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"allium/cmd/allium/text"
	"allium/gateway/api"
)

func (a *app) gcCommand() *cobra.Command {
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
	cmd.AddCommand(a.gcPlanCommand(), a.gcWhyCommand(), a.gcRunCommand())
	return cmd
}

// gcExamples is the maximum number of objects that `gc plan` shows without --list.
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
	cmd.Flags().BoolVar(&o.All, "all", false, "remove everything that nothing holds, not only down to the low-water mark")
	cmd.Flags().BoolVar(&all, "list", false,
		fmt.Sprintf("list every object that would go, not only the first %d", gcExamples))
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
	cmd.Flags().BoolVar(&o.All, "all", false, "remove everything that nothing holds, not only down to the low-water mark")
	cmd.Flags().BoolVar(&o.Fast, "fast", false, "work without the pauses that leave the disk to others")
	cmd.Flags().BoolVar(&o.List, "list", false, "print every object that is removed")
	return cmd
}

// gc runs a collection and prints the report. Before it come the objects: all of
// them, or the first gcExamples.
func (a *app) gc(cmd *cobra.Command, o api.GCOptions, all bool) error {
	return a.withStore(cmd.Context(), func(s api.Store) error {
		report, finish := a.progress("collecting")
		defer finish()
		shown := 0
		r, err := s.GC(cmd.Context(), o, report, func(v api.GCObject) error {
			if shown++; !all && shown > gcExamples {
				return nil
			}
			return a.print(v, text.GCObject(v))
		})
		if err != nil {
			return err
		}
		finish()
		if a.quiet {
			return nil
		}
		return a.print(r, text.GC(r, shown > gcExamples && !all))
	})
}

func (a *app) gcWhyCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "why KEY",
		Short:   "Say what keeps an object: a pin, a directory or a reader",
		Example: "  allium gc why $ADDRESS",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, arg []string) error {
			return a.withStore(cmd.Context(), func(s api.Store) error {
				w, err := s.GCWhy(cmd.Context(), arg[0])
				if err != nil {
					return err
				}
				return a.print(w, text.GCWhy(w))
			})
		},
	}
}
