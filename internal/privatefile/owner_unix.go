//go:build unix

package privatefile

import (
	"io/fs"
	"syscall"
)

// Owner returns the id of the user who owns a file. known is false if the system does not tell.
func Owner(info fs.FileInfo) (uid int, known bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}
