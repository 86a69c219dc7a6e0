package sdnotify

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic returns the time of CLOCK_MONOTONIC, which systemd compares with its own.
func monotonic() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
