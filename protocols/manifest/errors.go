package manifest

import (
	"fmt"

	"allium/protocols/status"
)

// ErrNotManifest says that an object lacks the magic line and so is no
// directory (SPEC §1). Test with errors.Is; its outcome is bad_request.
var ErrNotManifest error = status.Errorf(status.BadRequest, "manifest: the object is not a directory: it does not begin with the manifest line")

// EntryError names the entry that was refused, not found or not written, and
// says why.
type EntryError struct {
	Entry   string         // name, or slash-separated path from the root of the tree
	Reason  string         // what is wrong and, where it helps, what to do
	Outcome status.Outcome // OK means the outcome of Err
	Err     error          // the cause, if any
}

// Error quotes the entry, so that a hostile name cannot write control
// characters to a terminal or a log.
func (e *EntryError) Error() string {
	name := clip(e.Entry)
	switch {
	case e.Err == nil:
		return fmt.Sprintf("manifest: entry %q: %s", name, e.Reason)
	case e.Reason == "":
		return fmt.Sprintf("manifest: entry %q: %v", name, e.Err)
	}
	return fmt.Sprintf("manifest: entry %q: %s: %v", name, e.Reason, e.Err)
}

// clip bounds what an error repeats of its input.
func clip(s string) string {
	const most = 512
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// Unwrap is the cause.
func (e *EntryError) Unwrap() error { return e.Err }

// Status is the outcome (SPEC §3).
func (e *EntryError) Status() status.Outcome {
	if e.Outcome == status.OK {
		return status.Of(e.Err)
	}
	return e.Outcome
}

// refuse is an entry that breaks the rules of the format.
func refuse(entry, format string, args ...any) *EntryError {
	return &EntryError{Entry: entry, Reason: fmt.Sprintf(format, args...), Outcome: status.BadRequest}
}

// malformed is a node that breaks the rules of the format.
func malformed(format string, args ...any) error {
	return status.Errorf(status.BadRequest, "manifest: malformed: "+format, args...)
}
