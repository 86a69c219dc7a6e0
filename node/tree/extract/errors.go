package extract

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"allium/protocols/manifest"
	"allium/protocols/status"
)

// targetError names the entry in an error of a reader, or of the file system that
// it is written to. A place where the user may not write is forbidden: it is none
// of a node's own files, of which [status.Of] says that the node is not ready.
func targetError(entry string, err error) *manifest.EntryError {
	e := &manifest.EntryError{Entry: entry, Err: err}
	var typed interface{ Status() status.Outcome }
	if !errors.As(err, &typed) && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)) {
		e.Outcome = status.Forbidden
	}
	return e
}

// refused is an entry that breaks the rules of the format.
func refuse(entry, format string, args ...any) *manifest.EntryError {
	return &manifest.EntryError{Entry: entry, Reason: fmt.Sprintf(format, args...), Outcome: status.BadRequest}
}

// linkProblem returns why a link at path cannot be made.
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
