package status

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"
)

// systemRetry is how long to wait after this machine ran out of descriptors or memory. Within about
// that time other requests end and release theirs.
const systemRetry = time.Second

// System returns the outcome of an error that is about this machine, and not about the file, the
// object or the peer. ok is false for every other error. The outcomes are:
//
//   - busy when file descriptors or memory ran out
//   - no_space when the disk or a disk quota is full
//   - not_ready when permissions or a read-only file system keep the process from its own files
//
// System looks only for errors of the operating system in err's chain. It ignores the outcomes of
// the errors that wrap them.
func System(err error) (o Outcome, ok bool) {
	switch {
	case err == nil:
		return OK, false
	case exhaustedLimit(err) != "":
		return Busy, true
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return NoSpace, true
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return NotReady, true
	}
	return Internal, false
}

// NoDescriptors reports whether err says that this process, or the machine, has
// no file descriptor left.
func NoDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// exhaustedLimit returns the name of the limit that err says the process or the machine has reached,
// and "" for any other error.
func exhaustedLimit(err error) string {
	switch {
	case errors.Is(err, syscall.EMFILE):
		return "process.files"
	case errors.Is(err, syscall.ENFILE):
		return "system.files"
	case errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.ENOBUFS):
		return "system.memory"
	}
	return ""
}

// FromSystem returns err as an *Error whose message says what failed, why and what to do. op is the
// operation that failed, such as "open a file". It returns nil if [System] returns false for err.
func FromSystem(op string, err error) *Error {
	o, ok := System(err)
	switch {
	case !ok:
		return nil
	case o == NoSpace:
		return Errorf(NoSpace, "%s: %w; free disk space or remove unpinned objects", op, err)
	case o == NotReady && errors.Is(err, syscall.EROFS):
		return Errorf(NotReady, "%s: the file system is read-only: %w; mount it for writing", op, err)
	case o == NotReady:
		return Errorf(NotReady, "%s: the node may not use its own file: %w; give the file to the user that runs the node",
			op, err)
	}
	what, fix := "memory", "give it more"
	if NoDescriptors(err) {
		what, fix = "file descriptors", "raise the limit of open files (ulimit -n, LimitNOFILE)"
	}
	return &Error{
		Outcome: Busy, Err: err,
		Message: fmt.Sprintf("%s: this machine is out of %s: %v; try again in %s, or %s", op, what, err, systemRetry, fix),
		Limit:   &Limit{Name: exhaustedLimit(err), RetryAfter: systemRetry},
	}
}
