package files

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"allium/gateway/api"
	"allium/internal/testkit"
	"allium/node/homefiles"
	"allium/protocols/status"
)

// TestBoundHome: a bind mount of a home, or of a part of it, is not added.
func TestBoundHome(t *testing.T) {
	t.Parallel()
	if !testkit.InNamespaces(t) {
		return
	}
	dir := t.TempDir()
	home, bound := filepath.Join(dir, "home"), filepath.Join(dir, "tree", "bound")
	err := errors.Join(os.MkdirAll(filepath.Join(home, "acme"), 0o700), os.MkdirAll(bound, 0o700),
		os.WriteFile(filepath.Join(home, "acme", "account"), []byte("x"), 0o600),
		os.WriteFile(filepath.Join(dir, "tree", "file"), nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for source, target := range map[string]string{
		home: bound, filepath.Join(home, "acme"): bound,
		filepath.Join(home, "acme", "account"): filepath.Join(dir, "tree", "file"),
	} {
		if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{filepath.Join(dir, "tree"), target} {
			disk := NewDisk([]string{path}, api.RefuseBadEntries, homefiles.Of(home))
			if _, err := disk.Check(t.Context()); status.Of(err) != status.BadRequest ||
				!strings.Contains(err.Error(), target+": it is a part of this node's home directory") {
				t.Errorf("%s at %s: %v", source, path, err)
			}
			for item, err := range NewDisk([]string{path}, api.SkipBadEntries, homefiles.Of(home)).Items() {
				if err == nil && strings.HasPrefix(item.Path, "tree/"+filepath.Base(target)) {
					t.Errorf("%s: the tree has %s", source, item.Path)
				}
			}
		}
		if err := unix.Unmount(target, 0); err != nil {
			t.Fatal(err)
		}
	}
}
