//go:build unix

package extract

import (
	"os"
	"syscall"
)

// movable reports whether a file has one name, and is on the file system of the new file
// like, with the same owner and group.
func movable(info, like os.FileInfo) bool {
	a, ok := info.Sys().(*syscall.Stat_t)
	b, also := like.Sys().(*syscall.Stat_t)
	return ok && also && a.Nlink == 1 && a.Dev == b.Dev && a.Uid == b.Uid && a.Gid == b.Gid
}
