package disk

import "errors"

var (
	// ErrLocked is in the chain of Open's error when another process has the
	// directory open.
	ErrLocked = errors.New("the store is in use by another process")
	// ErrVersion is in the chain of Open's error when the directory was written
	// by a newer version.
	ErrVersion = errors.New("the store has a newer format")
)
