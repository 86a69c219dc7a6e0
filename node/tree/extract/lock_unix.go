//go:build unix

package extract

import (
	"os"
	"syscall"
)

// lock locks f until it is closed. It returns false, without waiting, when another open
// file has the lock.
func lock(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil //nolint:gosec // a descriptor fits
}
