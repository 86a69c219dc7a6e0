//go:build unix

package api

import (
	"errors"
	"io/fs"
	"syscall"
)

// owner is the user a file belongs to.
func owner(fi fs.FileInfo) (uid int, known bool) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}

// readOnly reports whether dir is on a file system that takes no writes.
func readOnly(dir string) bool { return errors.Is(syscall.Access(dir, writeAccess), syscall.EROFS) }

// writeAccess is W_OK of access(2).
const writeAccess = 2
