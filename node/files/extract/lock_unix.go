//go:build unix

package extract

import (
	"errors"
	"os"
	"syscall"
)

// lock locks f until it is closed. It returns false when the file system has no locks, and
// ErrTempTaken, without waiting, when another open file has the lock.
func lock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) //nolint:gosec // a descriptor fits
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, ErrTempTaken
	}
	return err == nil, nil
}
