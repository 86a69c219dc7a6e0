//go:build unix

package localapi

import (
	"os"

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
