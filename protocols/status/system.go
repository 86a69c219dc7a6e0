package status

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"
)

// systemRetry is when to try again after this machine ran out of descriptors or
// memory: requests end and give theirs back within about that time.
const systemRetry = time.Second

// System returns the outcome of an error that says something about this machine
// and nothing about the file, the object or the peer: busy when descriptors or
// memory ran out, no_space when the disk is full, not_ready when the system
// refuses this process its own files. ok is false for every other error.
//
// It looks at the error of the operating system alone, whatever outcome the
// errors around it carry.
func System(err error) (o Outcome, ok bool) {
	switch {
	case err == nil:
		return OK, false
	case exhausted(err) != "":
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

// exhausted names what the machine has none left of, "" when err says nothing
// of the kind.
func exhausted(err error) string {
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

// FromSystem returns err, of which [System] knows the outcome, with a sentence
// that says what to do. op is what failed, such as "open a file". nil when
// System does not know it.
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
		return Errorf(NotReady, "%s: the node may not use its own file: %w; give the file to the user that runs the node", op, err)
	}
	what, fix := "memory", "give it more"
	if NoDescriptors(err) {
		what, fix = "file descriptors", "raise the limit of open files (ulimit -n, LimitNOFILE)"
	}
	return &Error{
		Outcome: Busy, Err: err,
		Message: fmt.Sprintf("%s: this machine is out of %s: %v; try again in %s, or %s", op, what, err, systemRetry, fix),
		Limit:   &Limit{Name: exhausted(err), RetryAfter: systemRetry},
	}
}
