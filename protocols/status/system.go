package status

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"
)

// systemRetry is the time to wait after this machine ran out of descriptors or memory. Within about that time other
// requests end and release theirs.
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

// FromOS reports whether the operating system returned err, such as for a file that cannot be read. A
// file that the program closed itself is a fault of the program.
func FromOS(err error) bool {
	if err == nil || errors.Is(err, fs.ErrClosed) {
		return false
	}
	var (
		number syscall.Errno
		path   *fs.PathError
		link   *os.LinkError
		call   *os.SyscallError
	)
	return errors.As(err, &number) || errors.As(err, &path) || errors.As(err, &link) || errors.As(err, &call)
}

// ofOS returns the outcome of an error for which [System] has none: transport_down for one of the network, and
// not_ready for any other that the operating system returned about the node's own files.
func ofOS(err error) Outcome {
	switch {
	case !FromOS(err):
		return Internal
	case is(err, network):
		return TransportDown
	}
	return NotReady
}

// network are the errors that say that a peer or a network cannot be reached.
var network = []syscall.Errno{
	syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.ENETUNREACH, syscall.ENETDOWN,
	syscall.ENETRESET, syscall.EHOSTUNREACH, syscall.EHOSTDOWN, syscall.EPIPE, syscall.ENOTCONN, syscall.ESHUTDOWN,
	syscall.EADDRNOTAVAIL, syscall.EADDRINUSE,
}

// OfFile returns the outcome of an error about a file or directory that a person named: the argument of a
// command, its output, standard input. ok is false unless the operating system returned err. The outcomes are:
//
//   - not_found if it does not exist
//   - conflict if the name exists already
//   - forbidden if the user may not open, change or create it
//   - bad_request if the path names what the operation does not work on
//   - body_cap if it would become too large
//   - busy if another program has it, or file descriptors or memory ran out
//   - no_space when its disk or the user's quota there is full
//   - not_ready for any other, such as a disk with an error
//
// OfFile ignores the outcomes of the errors that wrap err.
func OfFile(err error) (o Outcome, ok bool) {
	if !FromOS(err) {
		return Internal, false
	}
	switch o, _ := System(err); {
	case o == NotReady:
		return Forbidden, true
	case o != Internal:
		return o, true
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return NotFound, true
	case errors.Is(err, fs.ErrExist): // also a directory that is not empty
		return Conflict, true
	case is(err, misnamed):
		return BadRequest, true
	case errors.Is(err, syscall.EFBIG):
		return BodyCap, true
	case errors.Is(err, syscall.EBUSY), errors.Is(err, syscall.ETXTBSY):
		return Busy, true
	case timedOut(err):
		return Timeout, true
	}
	return ofOS(err), true
}

// Hidden reports whether the message of err is for the operator of the node alone: err is internal, or the operating
// system returned it and no package has said what it means. Such a message may name files of this machine.
func Hidden(err error) bool {
	return Of(err) == Internal || FromOS(err) && !HasOutcome(err)
}

// misnamed are the errors that say that a path is not one on which the operation works.
var misnamed = []syscall.Errno{
	syscall.ENOTDIR, syscall.EISDIR, syscall.ELOOP, syscall.ENAMETOOLONG, syscall.EINVAL, syscall.ENODEV, syscall.ENXIO,
	syscall.EXDEV, syscall.EMLINK, syscall.EILSEQ, syscall.ESPIPE, syscall.ENOTSUP,
}

// fileAdvice has what a person reads about a file on which an operation failed, and what helps.
var fileAdvice = []struct {
	number  syscall.Errno
	why, do string
}{
	{syscall.ENOENT, "there is no %s", "check the name"},
	{syscall.EACCES, "this user may not open %s", "change its permissions, or run the command as its owner"},
	{syscall.EPERM, "this user may not change %s", "change its permissions, or run the command as its owner"},
	{syscall.EEXIST, "%s exists", "remove it, or choose another name"},
	{syscall.ENOTEMPTY, "the directory %s is not empty", "empty it, or choose another name"},
	{syscall.ENOTDIR, "a part of the path %s is no directory", "check the name"},
	{syscall.EISDIR, "%s is a directory", "name a file"},
	{syscall.ELOOP, "the links in the path %s lead in a circle", "name what they should point to"},
	{syscall.ENAMETOOLONG, "the name %s is too long for this disk", "choose a shorter one"},
	{syscall.EILSEQ, "the disk of %s does not allow that name", "choose another one"},
	{syscall.EINVAL, "%s cannot be used like this", "name a regular file, on a disk that allows its name"},
	{syscall.ENODEV, "the device of %s does not allow this", "name a regular file"},
	{syscall.ENXIO, "the device of %s is not there", "name a regular file"},
	{syscall.ESPIPE, "%s can only be read once, from its begin", "copy it to a regular file first"},
	{syscall.ENOTSUP, "the disk of %s does not support this", "choose a place on another disk"},
	{syscall.EXDEV, "%s is on another disk", "choose a place on the same one"},
	{syscall.EMLINK, "%s has as many links as its disk allows", "choose a place in another directory"},
	{syscall.EFBIG, "%s would become larger than its disk, or a limit of this user, allows",
		"raise the limit of file sizes (ulimit -f), or choose another disk"},
	{syscall.ENOSPC, "the disk of %s is full", "make space on it, or choose another disk"},
	{syscall.EDQUOT, "this user's quota on the disk of %s is used up", "make space there, or choose another disk"},
	{syscall.EROFS, "%s is on a read-only disk", "choose another place"},
	{syscall.EIO, "the disk of %s has an error", "check the disk (dmesg)"},
	{syscall.ESTALE, "%s is gone from its network disk", "check that it is mounted, and try again"},
	{syscall.EBUSY, "another program uses %s", "try again when that has ended"},
	{syscall.ETXTBSY, "%s is a program that runs", "end it, or choose another name"},
	{syscall.EMFILE, "this process has too many open files for %s", "raise the limit of open files (ulimit -n)"},
}

// FromFile returns an error of the operating system about a file that a person named, with the outcome of
// [OfFile] and a message that names the file and says what helps. It returns nil for every other error.
func FromFile(file string, err error) *Error {
	o, ok := OfFile(err)
	if !ok {
		return nil
	}
	for _, known := range fileAdvice {
		if errors.Is(err, known.number) {
			return &Error{Outcome: o, Message: fmt.Sprintf(known.why, file) + "; " + known.do, Err: err}
		}
	}
	var (
		path *fs.PathError
		link *os.LinkError
		do   = "check the disk"
		why  = err
	)
	switch {
	case errors.As(err, &path):
		why = path.Err
	case errors.As(err, &link):
		why = link.Err
	}
	if o == BadRequest {
		do = "name another file"
	}
	return &Error{Outcome: o, Message: fmt.Sprintf("%s: %v; %s", file, why, do), Err: err}
}

// is reports whether err's chain has one of the numbers.
func is(err error, numbers []syscall.Errno) bool {
	return slices.ContainsFunc(numbers, func(n syscall.Errno) bool { return errors.Is(err, n) })
}

// FromSystem returns err as an *Error whose message says what failed, why and what to do. op is the
// operation that failed, such as "open a file". It returns nil if [System] returns false for err.
func FromSystem(op string, err error) *Error {
	o, ok := System(err)
	switch {
	case !ok:
		return nil
	case o == NoSpace:
		return Errorf(NoSpace, "%s: the disk is full: %w; free space on it", op, err)
	case o == NotReady && errors.Is(err, syscall.EROFS):
		return Errorf(NotReady, "%s: the file system is read-only: %w; mount it for writing", op, err)
	case o == NotReady:
		return Errorf(NotReady,
			"%s: the node may not use its own file: %w; give the file to the user that runs the node",
			op, err)
	}
	what, fix := "memory", "give it more"
	if NoDescriptors(err) {
		what, fix = "file descriptors", "raise the limit of open files (ulimit -n, LimitNOFILE)"
	}
	return &Error{
		Outcome: Busy, Err: err,
		Message: fmt.Sprintf("%s: this machine is out of %s: %v; try again in %s, or %s", op,
			what, err, systemRetry, fix),
		Limit: &Limit{Name: exhaustedLimit(err), RetryAfter: systemRetry},
	}
}
