//go:build unix

package descriptors

import (
	"math"

	"golang.org/x/sys/unix"
)

// Limit returns how many descriptors this process may have open, or 0 if the
// system does not tell. The Go runtime has raised the soft limit to the hard one.
func Limit() int64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int64(min(uint64(limit.Cur), math.MaxInt64)) //nolint:unconvert // it is signed on some systems
}
