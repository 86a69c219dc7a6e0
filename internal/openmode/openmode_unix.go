//go:build unix

package openmode

import (
	"os"
	"runtime"

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
	if runtime.GOOS == "linux" && flags&oPath != 0 {
		return Mode{}, flagsErr
	}
	return modeOf(flags), flagsErr
}

// oPath is Linux's flag of a descriptor that names a file and can do nothing with its bytes (open(2), O_PATH).
const oPath = 0o10_000_000
