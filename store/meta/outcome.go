package meta

import (
	"errors"
	"fmt"
	"io"

	"allium/internal/limits"
	"allium/protocols/status"
)

// ErrDraining is returned once the store was told to stop.
var ErrDraining = status.Errorf(status.Draining, "the store is closing; try again when the node is back")

// ErrDamagedDirectory says that a directory is here and its bytes are wrong, so that
// nobody can tell what it names.
var ErrDamagedDirectory = errors.New("the directory is damaged")

// Defect is what is wrong with stored bytes, as the label of a metric: digest
// (wrong bytes), missing (file gone) or short (file cut).
type Defect string

// Error implements error.
func (d Defect) Error() string { return "reason: " + string(d) }

// Status returns corrupt.
func (d Defect) Status() status.Outcome { return status.Corrupt }

// WriteError gives a failed write its outcome. op says what was being done. An
// error that has an outcome already keeps it.
func WriteError(op string, err error) error {
	if err == nil {
		return nil
	}
	if e := MachineError(op, err); e != nil {
		return e
	}
	if status.Of(err) != status.Internal {
		return fmt.Errorf("%s: %w", op, err)
	}
	return status.Errorf(status.NotReady, "%s: the disk refused the write: %w; check the disk, then restart the node", op, err)
}

// ReadError gives a failed read its outcome; the ends of files pass through for
// b3 to judge. Corrupt is what is left: a disk that cannot read these bytes
// (EIO), which says nothing about any other object.
func ReadError(err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if e := MachineError("read the store", err); e != nil {
		return e
	}
	if status.Of(err) != status.Internal {
		return err
	}
	return status.Errorf(status.Corrupt, "the disk cannot be read: %w; check the disk, then fetch the object again", err)
}

// MachineError is the error of an operation that failed for a reason which says
// nothing about what is stored, nil for any other: see [status.System].
func MachineError(op string, err error) error {
	var typed interface{ Status() status.Outcome }
	if errors.As(err, &typed) {
		return nil // what wrapped it knew more
	}
	if e := status.FromSystem(op, err); e != nil {
		return e
	}
	return nil
}

// NoSpace is the refusal of a write that would eat into the reserve or pass a
// cap.
func NoSpace(what string, have, need int64) error {
	needed := ""
	if need > 0 { // of a stream it is not known
		needed = fmt.Sprintf(" and %s are needed", limits.Bytes(need).Human())
	}
	return status.Errorf(status.NoSpace, "%s: %s are left%s; free space or remove unpinned objects", what, limits.Bytes(have).Human(), needed)
}
