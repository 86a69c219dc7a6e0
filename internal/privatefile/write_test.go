package privatefile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"allium/internal/privatefile"
)

func TestCreateAndReplace(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	name := filepath.Join(dir, "key")
	if err := privatefile.Create(name, []byte("first")); err != nil {
		t.Fatal(err)
	}
	if err := privatefile.Create(name, []byte("second")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("created twice: %v", err)
	}
	expect := func(want string) {
		t.Helper()
		p, err := os.ReadFile(name)
		if err != nil || string(p) != want {
			t.Errorf("%q, %v, not %q", p, err, want)
		}
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		all, err := os.ReadDir(dir)
		if err != nil || len(all) != 1 {
			t.Errorf("files are left: %v, %v", all, err)
		}
	}
	expect("first")
	if err := errors.Join(os.Chmod(name, 0o644), privatefile.Replace(name, []byte("third"))); err != nil {
		t.Fatal(err)
	}
	expect("third")
	if err := privatefile.Replace(filepath.Join(dir, "none", "key"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	for range 2 {
		if err := privatefile.Remove(name); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed: %v", err)
	}
}
