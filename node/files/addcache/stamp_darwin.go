package addcache

import (
	"io/fs"
	"syscall"
)

// StampOf returns the stamp of a file; ok is false unless it is a regular file.
func StampOf(info fs.FileInfo) (s Stamp, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() {
		return Stamp{}, false
	}
	return Stamp{
		device: uint64(st.Dev), inode: st.Ino, size: info.Size(),
		modified: info.ModTime().UnixNano(), changed: st.Ctimespec.Nano(),
	}, true
}
