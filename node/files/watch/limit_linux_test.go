package watch

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"allium/internal/testkit"
)

// TestNoWatchesLeft: where the kernel has too few watches for the tree, it is looked at instead, below
// directories that are not watched, too. The test runs again in a user namespace that has a limit of its
// own.
func TestNoWatchesLeft(t *testing.T) {
	t.Parallel()
	if !testkit.InNamespaces(t) {
		return
	}
	if err := os.WriteFile("/proc/sys/user/max_inotify_watches", []byte("2"), 0o600); err != nil {
		t.Skipf("the limit of the namespace cannot be set: %v", err)
	}
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c/d"} {
		must(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	var told atomic.Int32
	r, _ := beginWith(t, dir, func(err error) {
		if told.Add(1); !errors.Is(err, syscall.ENOSPC) {
			t.Error(err)
		}
	})
	for _, name := range []string{"a/x", "c/d/x"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
		r.await(t, dir)
	}
	if told.Load() != 1 {
		t.Errorf("told %d times", told.Load())
	}
}
