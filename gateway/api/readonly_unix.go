//go:build unix

package api

import (
	"errors"
	"syscall"
)

// readOnly reports whether dir is on a read-only file system.
func readOnly(dir string) bool { return errors.Is(syscall.Access(dir, writeAccess), syscall.EROFS) }

// writeAccess is W_OK of access(2).
const writeAccess = 2
