//go:build unix

package api

import (
	"errors"
	"io/fs"
	"syscall"
)

// owner returns the id of the user who owns a file.
func owner(fi fs.FileInfo) (uid int, known bool) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}

// readOnly reports whether dir is on a read-only file system.
func readOnly(dir string) bool { return errors.Is(syscall.Access(dir, writeAccess), syscall.EROFS) }

// writeAccess is W_OK of access(2).
const writeAccess = 2
