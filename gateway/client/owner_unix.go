//go:build unix

package client

import (
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
