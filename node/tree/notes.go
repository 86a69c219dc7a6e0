package tree

import (
	"fmt"
	"strings"

	"allium/gateway/api"
	"allium/internal/printable"
	"allium/protocols/status"
)

// addNotes are the entries that an add leaves out or renames. It names
// api.MaxNotes of each and counts the others. One goroutine uses it.
type addNotes struct{ n api.AddNotes }

// oneName is why one of two entries is bad.
const oneName = "its name becomes that of another entry in Unicode normal form C"

// skipped notes that the entry at path cannot be added.
func (a *addNotes) skipped(path, reason string) {
	if a.n.SkippedCount++; len(a.n.Skipped) < api.MaxNotes {
		a.n.Skipped = append(a.n.Skipped, api.BadEntry{Path: printable.Name(clipPath(path)), Reason: reason})
	}
}

// renamed notes that the name or the link target of path becomes as.
func (a *addNotes) renamed(path, as string) {
	if a.n.RenamedCount++; len(a.n.Renamed) < api.MaxNotes {
		a.n.Renamed = append(a.n.Renamed, api.RenamedEntry{Path: clipPath(path), As: as})
	}
}

// clipPath bounds what a note repeats of a path.
func clipPath(path string) string {
	const most = 1024
	if len(path) > most {
		return path[:most] + "…"
	}
	return path
}

// get returns the notes, nil when there are none.
func (a *addNotes) get() *api.AddNotes {
	if a.n.SkippedCount == 0 && a.n.RenamedCount == 0 {
		return nil
	}
	n := a.n
	return &n
}

// refusal is the error of an add that has bad entries and is to refuse them;
// nil when it has none. more says that others may follow.
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
		b.WriteString("\n  what follows was not looked at")
	}
	entries := "1 entry"
	if a.n.SkippedCount > 1 {
		entries = fmt.Sprintf("%d entries", a.n.SkippedCount)
	}
	return status.Errorf(status.BadRequest, "%s cannot be added, so nothing was: rename or remove what is listed, or leave it out (--on-bad-entry=skip):%s", entries, b.String())
}
