package store

import (
	"errors"
	"fmt"
	"io"
	"syscall"

	"allium/protocols/admission"
	"allium/protocols/b3"
	"allium/protocols/status"
)

var (
	// ErrNotReady is returned before Run has opened the store.
	ErrNotReady = status.Errorf(status.NotReady, "the store is not open yet; try again when the node is ready")
	// ErrDraining is returned once Run was told to stop.
	ErrDraining = status.Errorf(status.Draining, "the store is closing; try again when the node is back")
	// ErrLocked is in the chain of Run's error when another process has the
	// directory open.
	ErrLocked = errors.New("the store is in use by another process")
	// ErrVersion is in the chain of Run's error when the directory was written
	// by a newer version.
	ErrVersion = errors.New("the store has a newer format")
)

func notFound(root b3.Root) error {
	return status.Errorf(status.NotFound, "store: %s is not here; fetch it from a provider or add it", root)
}

// corrupt is the error of an object whose stored bytes are wrong or missing.
// why must not repeat the address.
func corrupt(root b3.Root, why string) error {
	return status.Errorf(status.Corrupt, "store: the stored copy of %s is damaged (%s) and is not served; fetch it again or add the file again to replace it", root, why)
}

func badDigest(want, got b3.Root) error {
	return status.Errorf(status.BadDigest, "store: the bytes hash to %s, not to %s; nothing was stored", got, want)
}

// writeError gives a failed write its outcome. op says what was being done.
func writeError(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return status.Errorf(status.NoSpace, "%s: %w; free disk space or remove unpinned objects", op, err)
	case status.Of(err) != status.Internal:
		return fmt.Errorf("%s: %w", op, err)
	}
	return status.Errorf(status.NotReady, "%s: the disk refused the write: %w; check the disk, then restart the node", op, err)
}

// readError gives a failed read its outcome; the ends of files pass through for
// b3 to judge.
func readError(err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || status.Of(err) != status.Internal {
		return err
	}
	return status.Errorf(status.Corrupt, "the disk cannot be read: %w; check the disk, then fetch the object again", err)
}

// noSpace is the refusal of a write that would eat into the reserve or pass a
// cap.
func noSpace(what string, have, need int64) error {
	needed := ""
	if need > 0 { // of a stream it is not known
		needed = fmt.Sprintf(" and %s are needed", admission.Bytes(need).Human())
	}
	return status.Errorf(status.NoSpace, "%s: %s are left%s; free space or remove unpinned objects", what, admission.Bytes(have).Human(), needed)
}
