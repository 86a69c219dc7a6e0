//go:build unix

package extract

import (
	"os"
	"syscall"
)

// movable reports whether a file has one name, and the owner and group of the new file
// like.
func movable(info, like os.FileInfo) bool {
	a, ok := info.Sys().(*syscall.Stat_t)
	b, also := like.Sys().(*syscall.Stat_t)
	return ok && also && a.Nlink == 1 && a.Uid == b.Uid && a.Gid == b.Gid
}
