//go:build unix

package reading

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"allium/protocols/status"
)

// checkOpenMode returns bad_request unless f is open for writing, and not for appending, which would
// put each group at the end.
func checkOpenMode(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var flags int
	var flagsErr error
	if err := raw.Control(func(fd uintptr) { flags, flagsErr = unix.FcntlInt(fd, unix.F_GETFL, 0) }); err != nil {
		return err
	}
	mode := flags & unix.O_ACCMODE
	switch {
	case flagsErr != nil:
		return status.Errorf(status.BadRequest, "the output cannot be examined: %w", flagsErr)
	case mode != unix.O_WRONLY && mode != unix.O_RDWR:
		return status.Errorf(status.BadRequest, "the output is not open for writing")
	case flags&unix.O_APPEND != 0:
		return status.Errorf(status.BadRequest, "the output is open for appending")
	}
	return nil
}

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
