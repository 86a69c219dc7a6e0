package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"allium/gateway/api"
	"allium/internal/limits"
	"allium/internal/printable"
	"allium/protocols/status"
)

// diffOptions are the flags of diff.
type diffOptions struct {
	stat     bool
	exitCode bool
}

func (a *app) diffCommand() *cobra.Command {
	var o diffOptions
	cmd := &cobra.Command{
		Use:   "diff KEY[/path] KEY[/path]",
		Short: "List what differs between two directories",
		Long: `List what was added (+), removed (-) and changed (M: content, kind, executable
bit or link target) from the first key to the second. Parts with one address on
both sides are not read, and files never: the cost is that of the difference.

The exit code is 0 whether or not they differ; with --exit-code it is 5 when
they do.`,
		Example: `  allium diff b3:… b3:…
  allium diff b3:…/docs b3:…/docs --stat
  allium diff b3:… b3:… --json | jq -r .path`,
		Args: args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, keys []string) error {
			for i, key := range keys {
				if key == "" { // which the API takes for nothing at all
					return status.Errorf(status.BadRequest, "key %d is empty; write b3:<hex>[/path]", i+1)
				}
			}
			return a.withStore(cmd.Context(), func(s api.Store) error {
				return a.diff(cmd.Context(), s, keys[0], keys[1], o)
			})
		},
	}
	cmd.Flags().BoolVar(&o.stat, "stat", false, "only count: files added, removed and changed, and their bytes")
	cmd.Flags().BoolVar(&o.exitCode, "exit-code", false, "exit with 5 when the two differ")
	return cmd
}

// diffStat sums up the differences of two directories.
type diffStat struct {
	Added        int64 `json:"added"`   // entries, directories included
	Removed      int64 `json:"removed"` // likewise
	Changed      int64 `json:"changed"`
	AddedBytes   int64 `json:"added_bytes"`   // of files added, and of changed ones as they are now
	RemovedBytes int64 `json:"removed_bytes"` // of files removed, and of changed ones as they were
}

func (s *diffStat) count(c api.Change) {
	switch c.Op {
	case api.AddedEntry:
		s.Added++
	case api.RemovedEntry:
		s.Removed++
	default:
		s.Changed++
	}
	s.AddedBytes += fileBytes(c.New)
	s.RemovedBytes += fileBytes(c.Old)
}

func fileBytes(e *api.Entry) int64 {
	if e == nil || e.Kind != api.File {
		return 0
	}
	return e.Size
}

// diff prints what differs from one key to another.
func (a *app) diff(ctx context.Context, s api.Store, from, to string, o diffOptions) error {
	var sum diffStat
	for c, err := range s.Diff(ctx, from, to) {
		if err != nil {
			return err
		}
		sum.count(c)
		if o.stat {
			continue
		}
		if err := a.print(c, a.changeLine(c)); err != nil {
			return err
		}
	}
	if o.stat {
		human := fmt.Sprintf("%d added (%s), %d removed (%s), %d changed", sum.Added, limits.Bytes(sum.AddedBytes).Human(), sum.Removed, limits.Bytes(sum.RemovedBytes).Human(), sum.Changed)
		if err := a.print(sum, human); err != nil {
			return err
		}
	}
	if n := sum.Added + sum.Removed + sum.Changed; o.exitCode && n > 0 {
		return status.Errorf(status.Precondition, "%s and %s differ in %d entries", from, to, n)
	}
	return nil
}

// changeLine is a change for people; with -q without sizes.
func (a *app) changeLine(c api.Change) string {
	e := c.New
	sign := "+"
	switch c.Op {
	case api.RemovedEntry:
		sign, e = "-", c.Old
	case api.ChangedEntry:
		sign = "M"
	}
	path := printable.Name(c.Path)
	if path == "" {
		path = "."
	}
	if e.Kind == api.Directory {
		path += "/"
	}
	if a.quiet {
		return sign + " " + path
	}
	how := describeEntry(e)
	if c.Op == api.ChangedEntry {
		how = howChanged(c.Old, c.New)
	}
	if how == "" {
		return sign + " " + path
	}
	return fmt.Sprintf("%s %s  (%s)", sign, path, how)
}

// describeEntry is what there is to say of an entry beside its name.
func describeEntry(e *api.Entry) string {
	switch e.Kind {
	case api.File:
		return limits.Bytes(e.Size).Human()
	case api.Link:
		return "-> " + e.Target
	}
	return ""
}

// howChanged says what is not the same in two entries of one name.
func howChanged(old, next *api.Entry) string {
	switch {
	case old.Kind != next.Kind:
		return fmt.Sprintf("%s -> %s", old.Kind, next.Kind)
	case old.Kind == api.Link:
		return fmt.Sprintf("-> %s, was -> %s", next.Target, old.Target)
	}
	how := ""
	if old.Root != next.Root || old.Size != next.Size {
		how = fmt.Sprintf("%s -> %s", limits.Bytes(old.Size).Human(), limits.Bytes(next.Size).Human())
	}
	if old.Executable != next.Executable {
		if how != "" {
			how += ", "
		}
		if next.Executable {
			return how + "now executable"
		}
		return how + "not executable any more"
	}
	return how
}
