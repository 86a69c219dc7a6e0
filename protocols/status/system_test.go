package status_test

import (
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"allium/protocols/status"
)

// TestEveryErrno: no error of the operating system is taken for a fault of the program, and the sentence about a
// file names it and says what to do.
func TestEveryErrno(t *testing.T) {
	for n := syscall.Errno(1); n < 134; n++ {
		for _, err := range []error{
			n, &fs.PathError{Op: "open", Path: "f", Err: n}, &os.LinkError{Op: "rename", Old: "e", New: "f", Err: n},
		} {
			if status.Of(err) == status.Internal {
				t.Errorf("%v (%d) is internal", err, n)
			}
			e := status.FromFile("dir/f", err)
			if e == nil || e.Outcome == status.Internal || !strings.Contains(e.Message, "dir/f") ||
				!strings.Contains(e.Message, "; ") {
				t.Errorf("%v (%d) is told as %v", err, n, e)
			}
		}
	}
	for _, err := range []error{fs.ErrClosed, &fs.PathError{Op: "read", Path: "f", Err: fs.ErrClosed}} {
		if _, ok := status.OfFile(err); ok || status.Of(err) != status.Internal {
			t.Errorf("%v is a fault of the program, and is told as %s", err, status.Of(err))
		}
	}
}

// TestOfFile has one error for each outcome.
func TestOfFile(t *testing.T) {
	for number, want := range map[syscall.Errno]status.Outcome{
		syscall.ENOENT: status.NotFound, syscall.EEXIST: status.Conflict, syscall.EPERM: status.Forbidden,
		syscall.ELOOP: status.BadRequest, syscall.ENAMETOOLONG: status.BadRequest, syscall.ENOTDIR: status.BadRequest,
		syscall.EISDIR: status.BadRequest, syscall.EINVAL: status.BadRequest, syscall.ENODEV: status.BadRequest,
		syscall.EXDEV: status.BadRequest, syscall.EFBIG: status.BodyCap, syscall.EDQUOT: status.NoSpace,
		syscall.EBUSY: status.Busy, syscall.EIO: status.NotReady, syscall.ETIMEDOUT: status.Timeout,
		syscall.ECONNREFUSED: status.TransportDown,
	} {
		if got, ok := status.OfFile(number); got != want || !ok {
			t.Errorf("%v is %s, want %s", number, got, want)
		}
	}
}
