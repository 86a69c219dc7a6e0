package home

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"allium/internal/limits"
	"allium/protocols/status"
)

// lockFile is the file that a process locks while it uses a home directory: a running
// node, or a command that works on the store while no node runs. Commands that change the
// files of capabilities do not take this lock and may run beside a node: they replace each
// file as a whole, one command at a time.
const lockFile = "LOCK"

// lockWait is the longest time that LockSoon waits for another process to unlock a home directory.
const lockWait = 2 * time.Second

// poll is the time between two looks at a lock.
const poll = 20 * time.Millisecond

// LockSoon is Lock that waits for another process to unlock, until ctx ends and at most for 2 s: two commands on one
// home, or a command and the start of the node, come one after the other.
func LockSoon(ctx context.Context, home string) (unlock func(), err error) {
	for begun := time.Now(); ; {
		unlock, err = Lock(home)
		if status.Of(err) != status.Busy || time.Since(begun) >= lockWait || limits.Sleep(ctx, poll) != nil {
			return unlock, err
		}
	}
}

// InUse reports whether another process has locked the home directory now. A caller of Lock may find it locked
// meanwhile; LockSoon waits that out.
func InUse(home string) bool {
	f, err := os.Open(filepath.Join(home, lockFile))
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(flock(f, syscall.LOCK_SH), syscall.EWOULDBLOCK)
}

// Lock keeps other processes out of the home directory until unlock is called or the
// process ends. The caller locks before it writes there or opens a file for writing. If
// another process has the lock, Lock returns status.Busy at once.
//
// On a read-only disk, Lock locks what exists: the file of an earlier lock, or else the
// directory. On a file system without locks it succeeds and locks nothing.
func Lock(home string) (unlock func(), err error) {
	f, err := openLock(home)
	if err != nil {
		return nil, fmt.Errorf("lock the home directory %s: %w", home, err)
	}
	err = flock(f, syscall.LOCK_EX)
	if err == nil && isGone(f) { // with the directory, by the process that had it locked
		_ = f.Close()
		return Lock(home)
	}
	switch {
	// locked, or a file system without locks
	case err == nil, errors.Is(err, syscall.ENOLCK), errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOSYS):
		return sync.OnceFunc(func() {
			// A process that is being started has the descriptor too until it runs its own program, so
			// closing the file does not end the lock at once.
			_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
			_ = f.Close()
		}), nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		_ = f.Close() // it was only read
		return nil, status.Errorf(status.Busy,
			"the home directory %s is in use by another allium process; stop that node, or let it do the work: "+
				"commands find it by its socket. A second node needs a home directory of its own (--home)", home)
	}
	_ = f.Close() // err is the error that matters
	return nil, fmt.Errorf("lock the home directory %s: %w", home, err)
}

// flock locks f as how says, and does not wait.
func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB) //nolint:gosec // a descriptor fits
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// isGone reports whether the file f has no name any more, or another file has it.
func isGone(f *os.File) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(f.Name())
	return errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(opened, now)
}

// openLock opens the lock file, which it makes if it can.
func openLock(home string) (*os.File, error) {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, err
	}
	name := filepath.Join(home, lockFile)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		return f, nil
	}
	for _, other := range []string{name, home} {
		if f, rerr := os.Open(other); rerr == nil {
			return f, nil
		}
	}
	return nil, err
}
