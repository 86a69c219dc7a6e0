package fileio

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/cmd/allium/term"
	"allium/gateway/api"
	"allium/internal/printable"
	"allium/protocols/status"
)

// diffOptions are the flags of diff.
type diffOptions struct {
	stat     bool
	exitCode bool
}

// DiffCommand returns `allium diff`.
func DiffCommand(a *cli.App) *cobra.Command {
	var o diffOptions
	cmd := &cobra.Command{
		Use:   "diff KEY[/path] KEY[/path]",
		Short: "List the differences of two directories",
		Long: `List what was added (+), removed (-) and changed (M: content, kind, executable
bit or link target) from the first key to the second. Parts with the same address
on both sides are not read, and file contents never are, so the cost depends on the
size of the difference.

The exit code is 0 whether or not they differ. With --exit-code it is 5 if they
differ.`,
		Example: `  allium diff $BEFORE $ADDRESS
  allium diff $BEFORE/docs $ADDRESS/docs --stat
  allium diff $BEFORE $ADDRESS --json | jq -r .path`,
		Args: cli.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, keys []string) error {
			for i, key := range keys {
				if key == "" { // which the API takes for nothing at all
					return failure.NewUsage("write b3:<hex>[/path]", "key %d is empty", i+1)
				}
			}
			return a.WithStore(cmd.Context(), func(s api.Store) error {
				return diff(cmd.Context(), a, s, keys[0], keys[1], o)
			})
		},
	}
	cmd.Flags().BoolVar(&o.stat, "stat", false,
		"print only the number of entries added, removed and changed, and their bytes")
	cmd.Flags().BoolVar(&o.exitCode, "exit-code", false, "exit with 5 if the two differ")
	return cmd
}

// diff prints what differs from one key to another.
func diff(ctx context.Context, a *cli.App, s api.Store, from, to string, o diffOptions) error {
	var sum diffStat
	for c, err := range s.Diff(ctx, from, to) {
		if err != nil {
			return err
		}
		sum.Count(c)
		if o.stat {
			continue
		}
		if err := a.Print(c, changeText(c, a.Quiet)); err != nil {
			return err
		}
	}
	if o.stat {
		if err := a.Print(sum, sum.String()); err != nil {
			return err
		}
	}
	n := sum.Added + sum.Removed + sum.Changed
	if n == 0 && !o.stat {
		return a.None("no differences")
	}
	if o.exitCode && n > 0 {
		return failure.Found(status.Errorf(status.Precondition,
			"%s and %s differ in %s; leave --exit-code out to exit with 0", from, to, printable.Count(n, "entry")))
	}
	return nil
}

// diffStat sums up the differences of two directories.
type diffStat struct {
	Added        int64 `json:"added"`   // entries, directories included
	Removed      int64 `json:"removed"` // entries, directories included
	Changed      int64 `json:"changed"`
	AddedBytes   int64 `json:"added_bytes"`   // bytes of added files, and of changed files as they are now
	RemovedBytes int64 `json:"removed_bytes"` // bytes of removed files, and of changed files as they were
}

// Count adds a change to the sum.
func (s *diffStat) Count(c api.Change) {
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

// String is the sum for people.
func (s diffStat) String() string {
	return fmt.Sprintf("%d added (%s), %d removed (%s), %d changed",
		s.Added, term.Bytes(s.AddedBytes), s.Removed, term.Bytes(s.RemovedBytes), s.Changed)
}

// changeText is one difference: +, - or M, the path, and in brackets what changed. If
// quiet, it is only the sign and the path.
func changeText(c api.Change, quiet bool) string {
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
	if quiet {
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

// describeEntry returns the size of a file, or the target of a link.
func describeEntry(e *api.Entry) string {
	switch e.Kind {
	case api.File:
		return term.Bytes(e.Size)
	case api.Link:
		return "-> " + e.Target
	}
	return ""
}

// howChanged says what differs between two entries of one name.
func howChanged(old, next *api.Entry) string {
	switch {
	case old.Kind != next.Kind:
		return fmt.Sprintf("%s -> %s", old.Kind, next.Kind)
	case old.Kind == api.Link:
		return fmt.Sprintf("-> %s, was -> %s", next.Target, old.Target)
	}
	how := ""
	if old.Root != next.Root || old.Size != next.Size {
		how = fmt.Sprintf("%s -> %s", term.Bytes(old.Size), term.Bytes(next.Size))
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
