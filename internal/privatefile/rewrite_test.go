package privatefile_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"allium/internal/privatefile"
	"allium/protocols/status"
)

func TestRewrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name, link := filepath.Join(dir, "real", "file"), filepath.Join(dir, "link")
	err := errors.Join(os.Mkdir(filepath.Dir(name), 0o700), os.WriteFile(name, []byte("old"), 0o600),
		os.Chmod(name, 0o640), os.Symlink(name, link))
	if err != nil {
		t.Fatal(err)
	}
	if err := privatefile.Rewrite(t.Context(), link, []byte("old"), []byte("new")); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(link); err != nil || to != name {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	expect := func(want string) {
		t.Helper()
		p, err := os.ReadFile(name)
		info, statErr := os.Stat(name)
		if err != nil || statErr != nil || string(p) != want || info.Mode().Perm()&0o040 == 0 {
			t.Errorf("%q with mode %v, %v, not %q", p, info.Mode(), errors.Join(err, statErr), want)
		}
		all, err := os.ReadDir(filepath.Dir(name))
		if err != nil || len(all) != 1 {
			t.Errorf("files are left: %v, %v", all, err)
		}
	}
	expect("new")
	if err := privatefile.Rewrite(t.Context(), name, []byte("old"), []byte("x")); status.Of(err) != status.Conflict {
		t.Errorf("a file that was changed: %v", err)
	}
	expect("new")
	if err := os.Chmod(name, 0o440); err != nil {
		t.Fatal(err)
	}
	err = privatefile.Rewrite(t.Context(), name, []byte("new"), []byte("x"))
	if status.Of(err) != status.Forbidden || !strings.Contains(err.Error(), "chmod") {
		t.Errorf("a read-only file: %v", err)
	}
	expect("new")
	err = privatefile.Rewrite(t.Context(), filepath.Dir(name), nil, nil)
	if status.Of(err) != status.BadRequest {
		t.Errorf("a directory: %v", err)
	}
	if err := privatefile.Rewrite(t.Context(), filepath.Join(dir, "none"), nil, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}
