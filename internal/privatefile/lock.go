package privatefile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"allium/internal/limits"
	"allium/protocols/status"
)

// lockWait is the longest time that a command waits while another changes the files of a directory.
const lockWait = 5 * time.Second

// Locked runs f while no other process is in Locked with the same directory, which it makes
// (mode 0700) if there is none. It locks the directory itself, so there is no lock file. If
// another process holds the lock for 5 s, the error is timeout.
func Locked(ctx context.Context, dir string, f func() error) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("the home directory: %w", err)
	}
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("the home directory: %w", err)
	}
	defer d.Close() // and with it the lock
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	for {
		err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f()
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("lock %s: %w", dir, err)
		}
		if err := limits.Sleep(ctx, 10*time.Millisecond); err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				return status.Errorf(status.Timeout,
					"another command has been changing the files of %s for %s; end it, or try again", dir, lockWait)
			}
			return err
		}
	}
}
