//go:build unix

package extract

import (
	"os"
	"syscall"
)

// lock locks f for its open file alone, or reports that it cannot.
func lock(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil //nolint:gosec // a descriptor fits
}
