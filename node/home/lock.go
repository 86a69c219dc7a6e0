package home

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"allium/protocols/status"
)

// lockFile is locked by the process that uses a home directory: a node that
// runs, or a command that works on the store while none does. The commands that
// change the files of capabilities need no such lock, as they replace a file
// whole and one at a time, also beside a running node.
const lockFile = "LOCK"

// Lock keeps other processes out of the home directory until unlock. It
// comes before anything there is written or opened for writing, and is busy when
// somebody else has it. The lock ends with the process in any case.
//
// On a disk that takes no writes it locks what is there: the file of an earlier
// lock, or the directory.
func Lock(home string) (unlock func(), err error) {
	f, err := openLock(home)
	if err != nil {
		return nil, fmt.Errorf("lock the home directory %s: %w", home, err)
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	switch {
	case err == nil, errors.Is(err, syscall.ENOLCK), errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOSYS): // a file system without locks
		return sync.OnceFunc(func() { _ = f.Close() }), nil // and with it the lock
	case errors.Is(err, syscall.EWOULDBLOCK):
		_ = f.Close() // it was only read
		return nil, status.Errorf(status.Busy, "the home directory %s is in use by another allium process; stop that node, or let it do the work: commands find it by its socket. A second node needs a home directory of its own (--home)", home)
	}
	_ = f.Close() // err says more
	return nil, fmt.Errorf("lock the home directory %s: %w", home, err)
}

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
