package text

import (
	"fmt"

	"allium/gateway/api"
	"allium/internal/printable"
)

// DiffStat sums up the differences of two directories.
type DiffStat struct {
	Added        int64 `json:"added"`   // entries, directories included
	Removed      int64 `json:"removed"` // entries, directories included
	Changed      int64 `json:"changed"`
	AddedBytes   int64 `json:"added_bytes"`   // bytes of added files, and of changed files as they are now
	RemovedBytes int64 `json:"removed_bytes"` // bytes of removed files, and of changed files as they were
}

// Count adds a change to the sum.
func (s *DiffStat) Count(c api.Change) {
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
func (s DiffStat) String() string {
	return fmt.Sprintf("%d added (%s), %d removed (%s), %d changed",
		s.Added, size(s.AddedBytes), s.Removed, size(s.RemovedBytes), s.Changed)
}

// Change is one difference: +, - or M, the path, and in brackets what changed. If
// quiet, it is only the sign and the path.
func Change(c api.Change, quiet bool) string {
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
		return size(e.Size)
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
		how = fmt.Sprintf("%s -> %s", size(old.Size), size(next.Size))
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
