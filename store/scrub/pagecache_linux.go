package scrub

import (
	"errors"

	"allium/store/meta"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

// descriptor returns the file descriptor of f. ok is false when f has none.
func descriptor(f meta.File) (fd int, ok bool) {
	d, ok := f.(interface{ Fd() uintptr })
	if !ok || d.Fd() == vfs.InvalidFd {
		return 0, false
	}
	return int(d.Fd()), true
}

// noReadAhead turns off the kernel's read-ahead for f.
func noReadAhead(f meta.File) {
	if fd, ok := descriptor(f); ok {
		_ = unix.Fadvise(fd, 0, 0, unix.FADV_RANDOM) // advice
	}
}

// pageCached reports whether the byte at off is in the page cache, and true when that is
// unknown. Before Linux 6.5 only a read that must not wait can tell; it starts to load the
// page, and takes it for cached where the disk is quicker than the look.
func pageCached(f meta.File, off int64) bool {
	fd, ok := descriptor(f)
	if !ok {
		return true
	}
	var cached unix.Cachestat_t
	if unix.Cachestat(uint(fd), &unix.CachestatRange{Off: uint64(off), Len: 1}, &cached, 0) == nil {
		return cached.Cache > 0
	}
	var b [1]byte
	_, err := unix.Preadv2(fd, [][]byte{b[:]}, off, unix.RWF_NOWAIT)
	return !errors.Is(err, unix.EAGAIN)
}

// dropPages drops n bytes of f from the page cache, from offset off on.
func dropPages(f meta.File, off, n int64) {
	if fd, ok := descriptor(f); ok {
		_ = unix.Fadvise(fd, off, n, unix.FADV_DONTNEED) // advice
	}
}
