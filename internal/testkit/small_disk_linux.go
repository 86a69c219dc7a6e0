package testkit

import (
	"syscall"
	"testing"
)

// SmallDisk returns a directory on a file system in RAM of a size such as "64k", until the test ends. It skips a test
// that may not mount one; within [InNamespaces] most may.
func SmallDisk(t *testing.T, size string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}
