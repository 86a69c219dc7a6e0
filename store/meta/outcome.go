package meta

import (
	"errors"
	"fmt"
	"io"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// ErrDraining is returned once the store is told to stop.
var ErrDraining = status.Errorf(status.Draining, "the store is closing; try again when the node is back")

// ErrDamagedDirectory reports that a stored directory is damaged, so that what it
// names is unknown.
var ErrDamagedDirectory = errors.New("the directory is damaged")

// NotFound returns the error of an object that is not stored.
func NotFound(root b3.Root) error {
	return status.Errorf(status.NotFound, "%s is not stored here; fetch it from a provider or add it", root)
}

// Corrupt returns the error of an object whose stored bytes are wrong or missing.
// why must not repeat the address.
func Corrupt(root b3.Root, why string) error {
	return status.Errorf(status.Corrupt, "the stored copy of %s is damaged (%s) and is not served; "+
		"fetch it again or add the file again to replace it", root, why)
}

// Defect says what is wrong with stored bytes, as the label of a metric: digest
// (wrong bytes), missing (no file) or short (truncated file).
type Defect string

// Error implements error.
func (d Defect) Error() string { return "reason: " + string(d) }

// Status returns corrupt.
func (d Defect) Status() status.Outcome { return status.Corrupt }

// WriteError wraps the error of a failed write with an outcome. op is a verb phrase
// that says what failed. An error that has an outcome keeps it. A nil error stays
// nil.
func WriteError(op string, err error) error {
	if err == nil {
		return nil
	}
	if e := MachineError(op, err); e != nil {
		return e
	}
	if Known(err) {
		return fmt.Errorf("%s: %w", op, err)
	}
	return status.Errorf(status.NotReady,
		"%s: the disk refused the write: %w; check the disk, then restart the node", op, err)
}

// ReadError wraps the error of a failed read with an outcome. It returns io.EOF and
// io.ErrUnexpectedEOF unchanged, because package b3 handles them. An error without
// a known cause, such as EIO, becomes corrupt: the disk cannot read these bytes,
// which says nothing about other objects.
func ReadError(err error) error { return readError(err, "fetch the object again") }

// OpenError is [ReadError] for a file without which the store cannot be opened. It names no object.
func OpenError(err error) error {
	return readError(err, "start the node again; the objects may still be there")
}

func readError(err error, then string) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if e := MachineError("read the store", err); e != nil {
		return e
	}
	if Known(err) {
		return err
	}
	return status.Errorf(status.Corrupt,
		"the disk cannot be read: %w; check the disk, then %s", err, then)
}

// MachineError wraps an error whose cause is the machine and not the stored data,
// such as a full disk; see [status.System]. It returns nil for other errors, and
// for errors that already have an outcome.
func MachineError(op string, err error) error {
	if status.HasOutcome(err) {
		return nil // the inner outcome is more precise
	}
	e := status.FromSystem(op, err)
	switch {
	case e == nil:
		return nil
	case e.Outcome == status.NoSpace:
		return status.Errorf(status.NoSpace,
			"%s: the disk of the store is full: %w; free space on it, or remove objects "+
				"that are not pinned (`allium gc run --all`)", op, err)
	}
	return e
}

// Known reports whether the outcome of err says more than that a disk failed.
func Known(err error) bool {
	return status.HasOutcome(err) || !status.FromOS(err) && status.Of(err) != status.Internal
}

// NoSpace returns the no_space error of a write that would use the reserve or exceed a limit. what is a sentence that
// names the full disk or limit; have and need are in bytes. need is 0 if the size of a stream is not known.
func NoSpace(what string, have, need int64) error {
	needed := ""
	if need > 0 {
		needed = fmt.Sprintf(" and %s are needed", limits.Bytes(need).Human())
	}
	return status.Errorf(status.NoSpace, "%s: %s are left%s; free space or remove unpinned objects",
		what, limits.Bytes(have).Human(), needed)
}

// NoOwnFile returns the error of moving the file of an object that is not stored in its own file.
func NoOwnFile(root b3.Root) error {
	return status.Errorf(status.Unsupported, "%s has no file of its own", root)
}
