//go:build unix

package reading

import (
	"os"
	"syscall"
)

// ownedHere reports whether a file belongs to the user of this process.
func ownedHere(info os.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Geteuid()
}

// sameDevice reports whether two files are on one file system.
func sameDevice(a, b os.FileInfo) bool {
	x, ok := a.Sys().(*syscall.Stat_t)
	y, also := b.Sys().(*syscall.Stat_t)
	return ok && also && x.Dev == y.Dev
}

// alike reports whether two files have one name each, one owner and group, and one file system.
func alike(a, b os.FileInfo) bool {
	x, ok := a.Sys().(*syscall.Stat_t)
	y, also := b.Sys().(*syscall.Stat_t)
	return ok && also && x.Nlink == 1 && y.Nlink == 1 && x.Dev == y.Dev && x.Uid == y.Uid && x.Gid == y.Gid
}
