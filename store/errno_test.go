package store_test

import (
	"bytes"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"allium/protocols/status"
	"allium/store"
	"allium/store/storetest"
)

// TestEveryErrno: whatever error the disk of a store has, a put and a start end with an
// outcome, and none says that the program has a fault.
func TestEveryErrno(t *testing.T) {
	t.Parallel()
	numbers := []syscall.Errno{
		syscall.EPERM, syscall.ENOENT, syscall.EINTR, syscall.EIO, syscall.ENXIO, syscall.EBADF, syscall.EAGAIN,
		syscall.ENOMEM,
		syscall.EACCES, syscall.EBUSY, syscall.EEXIST, syscall.EXDEV, syscall.ENODEV, syscall.ENOTDIR, syscall.EISDIR,
		syscall.EINVAL, syscall.ENFILE, syscall.EMFILE, syscall.EFBIG, syscall.ENOSPC, syscall.ESPIPE, syscall.EROFS,
		syscall.EMLINK, syscall.ENAMETOOLONG, syscall.ENOSYS, syscall.ELOOP, syscall.ENOTSUP,
		syscall.ESTALE, syscall.EDQUOT,
		syscall.ETIMEDOUT, syscall.ENOTCONN,
	}
	all := []errorfs.OpKind{
		errorfs.OpCreate, errorfs.OpOpen, errorfs.OpFileWrite, errorfs.OpFileWriteAt,
		errorfs.OpFileRead, errorfs.OpFileReadAt, errorfs.OpRename,
	}
	told := func(t *testing.T, what string, n syscall.Errno, err error) {
		t.Helper()
		if status.Of(err) == status.Internal {
			t.Errorf("%s with %q: %v", what, n.Error(), err)
		}
	}
	for _, n := range numbers {
		f := &fault{err: n, kinds: all, path: "/tmp/"}
		s, stop, disk, _ := faulty(t, f)
		f.on.Store(true)
		_, err := s.Put(t.Context(), bytes.NewReader(largePut), store.PutOptions{})
		told(t, "a large put", n, err)
		if err == nil {
			t.Errorf("a put with %q succeeds", n.Error())
		}
		f.on.Store(false)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		start := &fault{err: n, kinds: all, path: "FORMAT"}
		start.on.Store(true)
		_, _, err = storetest.Try(t, tiny(), store.Deps{FS: errorfs.Wrap(disk, start)})
		told(t, "a start", n, err)
		if start.hits.Load() == 0 {
			t.Error("the fault was not met")
		}
	}
}
