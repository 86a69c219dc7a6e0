package disk

import "errors"

var (
	// ErrLocked is in the chain of Open's error if another process has the directory
	// open.
	ErrLocked = errors.New("the store is in use by another process")
	// ErrVersion is in the chain of Open's error if a newer version of the program
	// wrote the directory.
	ErrVersion = errors.New("the store has a newer format")
)
