package addcache

import (
	"io/fs"
	"syscall"
)

// stampOf reads a file's stamp; ok is false for what is no regular file.
func stampOf(info fs.FileInfo) (s stamp, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() {
		return stamp{}, false
	}
	return stamp{
		device: uint64(st.Dev), inode: st.Ino, size: info.Size(), //nolint:unconvert // smaller elsewhere
		modified: info.ModTime().UnixNano(), changed: st.Ctim.Nano(),
	}, true
}
