package files

import (
	"fmt"
	"slices"
	"strings"

	"allium/gateway/api"
	"allium/internal/printable"
	"allium/protocols/status"
)

// addNotes records the entries that an add skips or renames. It names the first
// api.MaxNotes of each and counts the rest. One goroutine uses it.
type addNotes struct {
	n       api.AddNotes
	secrets int // skipped entries with private keys, which are named first
}

// oneName is the reason to skip an entry whose normalised name another entry has.
const oneName = "its name becomes that of another entry in Unicode normal form C"

// skipped records that the entry at path cannot be added.
func (a *addNotes) skipped(path, reason string) {
	if a.n.SkippedCount++; len(a.n.Skipped) < api.MaxNotes {
		a.n.Skipped = append(a.n.Skipped, api.BadEntry{Path: printable.Name(clipPath(path)), Reason: reason})
	}
}

// secret records that the entry at path has private keys, in the place of another note if there are too many.
func (a *addNotes) secret(path, reason string) {
	a.n.SkippedCount++
	if a.secrets >= api.MaxNotes {
		return
	}
	a.n.Skipped = slices.Insert(a.n.Skipped, a.secrets,
		api.BadEntry{Path: printable.Name(clipPath(path)), Reason: reason})
	a.n.Skipped = a.n.Skipped[:min(len(a.n.Skipped), api.MaxNotes)]
	a.secrets++
}

// renamed records that the name or the link target of path becomes as.
func (a *addNotes) renamed(path, as string) {
	if a.n.RenamedCount++; len(a.n.Renamed) < api.MaxNotes {
		a.n.Renamed = append(a.n.Renamed, api.RenamedEntry{Path: clipPath(path), As: as})
	}
}

// clipPath shortens a path to 1,024 bytes for a note.
func clipPath(path string) string {
	const most = 1024
	if len(path) > most {
		return path[:most] + "…"
	}
	return path
}

// get returns the notes, or nil when there are none.
func (a *addNotes) get() *api.AddNotes {
	if a.n.SkippedCount == 0 && a.n.RenamedCount == 0 {
		return nil
	}
	n := a.n
	return &n
}

// refusal returns the error that lists the bad entries of an add, or nil when there
// are none. more says that the entries after them were not examined.
func (a *addNotes) refusal(more bool) error {
	if a.n.SkippedCount == 0 {
		return nil
	}
	var b strings.Builder
	for _, e := range a.n.Skipped {
		fmt.Fprintf(&b, "\n  %s: %s", e.Path, e.Reason)
	}
	if rest := a.n.SkippedCount - int64(len(a.n.Skipped)); rest > 0 {
		fmt.Fprintf(&b, "\n  and %d more", rest)
	}
	if more {
		b.WriteString("\n  the entries after these were not examined")
	}
	entries := "1 entry"
	if a.n.SkippedCount > 1 {
		entries = fmt.Sprintf("%d entries", a.n.SkippedCount)
	}
	return status.Errorf(status.BadRequest,
		"%s cannot be added, so nothing was added. Rename or remove them, or skip them (--on-bad-entry=skip, "+
			"over HTTP ?on_bad_entry=skip):%s",
		entries, b.String())
}
