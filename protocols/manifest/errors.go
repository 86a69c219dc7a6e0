package manifest

import (
	"fmt"

	"allium/protocols/status"
)

// ErrNotManifest reports that an object does not begin with the magic line and so
// is no directory (SPEC §1). Its outcome is bad_request.
var ErrNotManifest error = status.Errorf(status.BadRequest,
	"the object is not a directory: it does not begin with the manifest line")

// EntryError names an entry that is invalid, not found or not written, and says
// why.
type EntryError struct {
	Entry   string         // name, or slash-separated path from the root of the tree
	Reason  string         // what is wrong and, where it helps, what to do
	Outcome status.Outcome // OK means the outcome of Err
	Err     error          // the cause, if any
}

// Error quotes the entry, so that a hostile name cannot write control characters
// to a terminal or a log.
func (e *EntryError) Error() string {
	name := clip(e.Entry)
	switch {
	case e.Err == nil:
		return fmt.Sprintf("entry %q: %s", name, e.Reason)
	case e.Reason == "":
		return fmt.Sprintf("entry %q: %v", name, e.Err)
	}
	return fmt.Sprintf("entry %q: %s: %v", name, e.Reason, e.Err)
}

// clip cuts s after 512 bytes, for errors.
func clip(s string) string {
	const longest = 512
	if len(s) > longest {
		return s[:longest] + "…"
	}
	return s
}

// Unwrap returns the cause.
func (e *EntryError) Unwrap() error { return e.Err }

// Status returns the outcome (SPEC §3).
func (e *EntryError) Status() status.Outcome {
	if e.Outcome == status.OK {
		return status.Of(e.Err)
	}
	return e.Outcome
}

// invalidEntry returns a bad_request error for an entry that breaks the rules of
// the format.
func invalidEntry(entry, format string, args ...any) *EntryError {
	return &EntryError{Entry: entry, Reason: fmt.Sprintf(format, args...), Outcome: status.BadRequest}
}

// malformed returns a bad_request error for a node that breaks the rules of the
// format.
func malformed(format string, args ...any) error {
	return status.Errorf(status.BadRequest, "the manifest is malformed: "+format, args...)
}
