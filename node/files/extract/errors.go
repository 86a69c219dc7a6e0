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
// place where the user may not write is forbidden, and a full disk is that of the output.
// ([status.Of] would return the outcome for a node's own files.)
func targetError(entry string, err error) *manifest.EntryError {
	e := &manifest.EntryError{Entry: entry, Err: err}
	o, system := status.OfFile(err)
	if status.HasOutcome(err) || !system {
		return e
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	switch o {
	case status.Forbidden:
		e.Err = status.Errorf(o, "this user may not write there (%w); extract to another directory", err)
	case status.NoSpace:
		e.Err = status.Errorf(o, "the disk of the output is full (%w); make space on it, or extract to another disk",
			err)
	case status.BodyCap:
		e.Err = status.Errorf(o,
			"it is larger than that disk, or a limit of this user, allows (%w); raise the limit of "+
				"file sizes (ulimit -f), or extract to another disk", err)
	default:
		e.Err = status.Errorf(o, "it cannot be written (%w); check that disk, or extract to another directory", err)
	}
	return e
}

// parentError returns why dir, in which target would be, cannot be opened.
func parentError(target, dir string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return status.Errorf(status.NotFound, "cannot extract to %q: there is no directory %q; create it first: %w",
			target, dir, err)
	case errors.Is(err, syscall.ENOTDIR):
		return status.Errorf(status.Conflict, "cannot extract to %q: %q is no directory; extract to another name: %w",
			target, dir, err)
	case errors.Is(err, fs.ErrPermission):
		return status.Errorf(status.Forbidden, "cannot extract to %q: this user may not open the directory %q; "+
			"extract to another one, or change its permissions: %w", target, dir, err)
	}
	return err
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
