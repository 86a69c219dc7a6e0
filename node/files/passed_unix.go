//go:build unix

package files

import (
	"os"

	"golang.org/x/sys/unix"

	"allium/protocols/status"
)

// checkReadable returns bad_request unless f is open for reading.
func checkReadable(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var flags int
	var flagsErr error
	if err := raw.Control(func(fd uintptr) { flags, flagsErr = unix.FcntlInt(fd, unix.F_GETFL, 0) }); err != nil {
		return err
	}
	switch mode := flags & unix.O_ACCMODE; {
	case flagsErr != nil:
		return status.Errorf(status.BadRequest, "the passed file cannot be examined: %w", flagsErr)
	case mode != unix.O_RDONLY && mode != unix.O_RDWR:
		return status.Errorf(status.BadRequest, "the passed file is not open for reading")
	}
	return nil
}
