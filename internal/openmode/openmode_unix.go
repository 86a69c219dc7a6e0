//go:build unix

package openmode

import (
	"os"

	"golang.org/x/sys/unix"
)

// Of returns the Mode of f. The error is that of the file or of fcntl.
func Of(f *os.File) (Mode, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return Mode{}, err
	}
	var flags int
	var flagsErr error
	if err := raw.Control(func(fd uintptr) { flags, flagsErr = unix.FcntlInt(fd, unix.F_GETFL, 0) }); err != nil {
		return Mode{}, err
	}
	return modeOf(flags), flagsErr
}
