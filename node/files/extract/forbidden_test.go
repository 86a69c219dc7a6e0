package extract

import (
	"io/fs"
	"syscall"
	"testing"

	"allium/protocols/status"
)

// TestTargetForbidden: where the user may not write is forbidden, not a node that
// is not ready; what a reader says of its content stays.
func TestTargetForbidden(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want status.Outcome
	}{
		{&fs.PathError{Op: "mkdirat", Path: "a", Err: syscall.EACCES}, status.Forbidden},
		{&fs.PathError{Op: "openat", Path: "a", Err: syscall.EPERM}, status.Forbidden},
		{&fs.PathError{Op: "openat", Path: "a", Err: syscall.EROFS}, status.Forbidden},
		{&fs.PathError{Op: "write", Path: "a", Err: syscall.ENOSPC}, status.NoSpace},
		{&fs.PathError{Op: "openat", Path: "a", Err: syscall.EMFILE}, status.Busy},
		{status.Errorf(status.NotReady, "the node may not use its own file: %w", syscall.EACCES), status.NotReady},
	} {
		if got := status.Of((&Extractor{}).entryError("a", c.err)); got != c.want {
			t.Errorf("%v: extraction %s, want %s", c.err, got, c.want)
		}
		if got := status.Of((&Updater{}).wrap("a", c.err)); got != c.want {
			t.Errorf("%v: update %s, want %s", c.err, got, c.want)
		}
	}
}
