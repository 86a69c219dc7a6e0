package extract

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"allium/protocols/manifest"
	"allium/protocols/status"
)

// targetError adds the entry to an error of a reader or of the target's file system. A
// place where the user may not write is forbidden. ([status.Of] would return not_ready,
// the outcome for a node's own files.)
func targetError(entry string, err error) *manifest.EntryError {
	e := &manifest.EntryError{Entry: entry, Err: err}
	var typed interface{ Status() status.Outcome }
	if !errors.As(err, &typed) && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)) {
		e.Outcome = status.Forbidden
	}
	return e
}

// refuse returns the error of an entry that breaks the rules of the format.
func refuse(entry, format string, args ...any) *manifest.EntryError {
	return &manifest.EntryError{Entry: entry, Reason: fmt.Sprintf(format, args...), Outcome: status.BadRequest}
}

// linkProblem returns an error if a link at path to target may not be created.
func linkProblem(path, target string) error {
	reason := manifest.LinkProblem(path, target)
	switch {
	case reason == "":
		return nil
	case manifest.LeadsOut(path, target):
		return refuse(path, "the link target %q leads out of the directory that is extracted", target)
	}
	return refuse(path, "%s", reason)
}
