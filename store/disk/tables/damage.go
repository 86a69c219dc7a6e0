package tables

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"github.com/cockroachdb/pebble/v2"

	"allium/internal/pebbledb"
)

// Damaged reports whether err means that the index is damaged and must be rebuilt. A disk
// that is full or refuses to write is not damage.
func Damaged(err error) bool {
	var errno syscall.Errno
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	case errors.Is(err, pebble.ErrDBDoesNotExist), pebble.IsCorruptionError(err),
		pebbledb.Damaged(err), errors.Is(err, ErrMalformed):
		return true
	case errors.As(err, &errno):
		return errno == syscall.EIO
	}
	return errors.Is(err, fs.ErrNotExist)
}
