package node_test

import (
	"io/fs"
	"path/filepath"
	"testing"
)

// TestHomeIsPrivate: nobody else may look into what a node keeps, whatever the
// mode of its home directory.
func TestHomeIsPrivate(t *testing.T) {
	t.Parallel()
	n := start(t, nil)
	add(t, n, newTree(t, 3))
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	dirs := 0
	if err := filepath.WalkDir(n.home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == n.home || !d.IsDir() || filepath.Dir(path) != n.home {
			return err
		}
		dirs++
		info, err := d.Info()
		if err != nil {
			return err
		}
		if mode := info.Mode().Perm(); mode&0o077 != 0 {
			t.Errorf("%s has mode %04o", path, mode)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if dirs == 0 {
		t.Error("the node made no directory")
	}
}
