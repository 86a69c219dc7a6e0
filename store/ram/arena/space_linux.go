package arena

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// space is one anonymous mapping of the whole cap. A page takes RAM once it is touched.
type space struct {
	all     []byte
	lockErr error // why it is not locked; nil when it is
}

func reserve(n int64) (space, error) {
	if int64(int(n)) != n {
		return space{}, fmt.Errorf("%d bytes are more than this machine can address", n)
	}
	const flags = unix.MAP_PRIVATE | unix.MAP_ANON | unix.MAP_NORESERVE
	all, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return space{}, fmt.Errorf("reserve %d bytes of RAM: %w", n, err)
	}
	if err := unix.Madvise(all, unix.MADV_DONTDUMP); err != nil {
		return space{}, errors.Join(fmt.Errorf("keep the memory out of core dumps: %w", err), unix.Munmap(all))
	}
	return space{all: all, lockErr: lock(all)}, nil
}

// lock keeps p out of swap as its pages are touched. A kernel before 4.4 can only lock, and
// thereby touch, all of p at once.
func lock(p []byte) error {
	_, _, errno := unix.Syscall(unix.SYS_MLOCK2,
		uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), unix.MLOCK_ONFAULT)
	switch errno {
	case 0:
		return nil
	case unix.ENOSYS:
		if err := unix.Mlock(p); err != nil {
			return fmt.Errorf("mlock: %w", err)
		}
		return nil
	}
	return fmt.Errorf("mlock2: %w", errno)
}

func (s space) lockError() error { return s.lockErr }

// region returns n bytes from off on, which are zero.
func (s space) region(off int64, n int) []byte { return s.all[off : off+int64(n) : off+int64(n)] }

// drop gives the pages of p, which are zero, back to the system. If the system refuses,
// they stay.
func (s space) drop(p []byte) {
	if s.lockErr == nil && unix.Madvise(p, unix.MADV_DONTNEED_LOCKED) == nil { // since Linux 5.18
		return
	}
	_ = unix.Madvise(p, unix.MADV_DONTNEED)
}

func (s space) close() { _ = unix.Munmap(s.all) }
