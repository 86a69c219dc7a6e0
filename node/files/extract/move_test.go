//go:build unix

package extract

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"allium/protocols/status"
)

// stored writes a file as a store beside a target has it, a long time ago, and returns its path.
func stored(t *testing.T, dir, content string) string {
	t.Helper()
	path := filepath.Join(dir, ".part", "obj", "file")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-48 * time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	return path
}

func inode(t *testing.T, path string) os.FileInfo {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// TestMove: the target is the store's own file, with the mode and the time that a written one has.
func TestMove(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opts       Options
		executable bool
		before     fs.FileMode // of a file that is replaced; 0: there is none
		like       fs.FileMode // of a file that is created so; the target has its mode
	}{
		"new":            {like: 0o644},
		"executable":     {executable: true, like: 0o755},
		"synced":         {opts: Options{Sync: true}, like: 0o644},
		"replaced":       {opts: Options{Overwrite: true}, before: 0o600, like: 0o644},
		"replaced, mode": {opts: Options{Overwrite: true, KeepMode: true}, before: 0o640, like: 0o640},
		"new, mode":      {opts: Options{Overwrite: true, KeepMode: true}, like: 0o644},
		"replaced, exec": {opts: Options{Overwrite: true, KeepMode: true}, executable: true,
			before: 0o640, like: 0o750},
		"overwrite, fresh": {opts: Options{Overwrite: true}, like: 0o644},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			target := filepath.Join(dir, "target")
			if c.before != 0 {
				if err := os.WriteFile(target, []byte("before"), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(target, c.before); err != nil {
					t.Fatal(err)
				}
			}
			path := stored(t, dir, "content")
			was := inode(t, path)
			begun := time.Now().Add(-time.Minute) // the clock of a file system may be coarse
			x := begin(t, target, c.opts)
			if moved, err := x.Move(path, 7, c.executable); !moved || err != nil {
				t.Fatalf("moved: %t, %v", moved, err)
			}
			if c.before == 0 {
				if _, err := os.Lstat(target); err == nil {
					t.Error("the target is there before Commit")
				}
			}
			if err := x.Commit(); err != nil {
				t.Fatal(err)
			}
			got := inode(t, target)
			like, err := os.OpenFile(filepath.Join(dir, "like"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, c.like)
			if err != nil {
				t.Fatal(err)
			}
			_ = like.Close()
			want := inode(t, like.Name()).Mode()
			if c.before != 0 && c.opts.KeepMode {
				want = c.like
			}
			if !os.SameFile(was, got) || got.Mode() != want || got.ModTime().Before(begun) {
				t.Errorf("the target is %v of %s, want the mode %v and the store's own file",
					got.Mode(), got.ModTime(), want)
			}
			if names := namesIn(t, dir); !slices.Equal(names, []string{".part", "like", "target"}) {
				t.Errorf("there is %q", names)
			}
			if names := namesIn(t, filepath.Dir(path)); len(names) != 0 {
				t.Errorf("the store has %q", names)
			}
		})
	}
}

// TestMoveDeclined: a file that cannot become the target stays, and the extractor can write one.
func TestMoveDeclined(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, dir, path string) string{
		"missing":    func(_ *testing.T, dir, _ string) string { return filepath.Join(dir, "missing") },
		"short":      func(_ *testing.T, _, path string) string { _ = os.Truncate(path, 6); return path },
		"long":       func(_ *testing.T, _, path string) string { _ = os.Truncate(path, 8); return path },
		"elsewhere":  func(t *testing.T, _, _ string) string { t.Helper(); return stored(t, t.TempDir(), "content") },
		"a symlink":  func(_ *testing.T, dir, path string) string { _ = os.Symlink(path, dir+"/l"); return dir + "/l" },
		"linked":     func(_ *testing.T, dir, path string) string { _ = os.Link(path, dir+"/l"); return path },
		"a folder":   func(_ *testing.T, _, path string) string { return filepath.Dir(path) },
		"the parent": func(_ *testing.T, dir, _ string) string { return dir },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := spoil(t, dir, stored(t, dir, "content"))
			target := filepath.Join(dir, "target")
			x := begin(t, target, Options{})
			if moved, err := x.Move(path, 7, false); moved || err != nil {
				t.Fatalf("moved: %t, %v", moved, err)
			}
			if err := x.File("", 7, false, strings.NewReader("written")); err != nil {
				t.Fatal(err)
			}
			if err := x.Commit(); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(target); err != nil || string(got) != "written" {
				t.Errorf("the target has %q: %v", got, err)
			}
			if _, err := os.Lstat(path); err != nil && name != "missing" {
				t.Error(err)
			}
		})
	}
}

// TestMoveConflict: a file that cannot get the name of the target, because another process has created
// it, stays where it was.
func TestMoveConflict(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := stored(t, dir, "content")
	was := inode(t, path)
	target := filepath.Join(dir, "target")
	x := begin(t, target, Options{})
	if moved, err := x.Move(path, 7, false); !moved || err != nil {
		t.Fatalf("moved: %t, %v", moved, err)
	}
	sweep(x.parent) // of another get
	if err := os.WriteFile(target, []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := x.Commit(); status.Of(err) != status.Conflict {
		t.Errorf("got %v", err)
	}
	if err := x.Abort(); err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(was, inode(t, path)) {
		t.Error("it is another file")
	}
	if got, err := os.ReadFile(target); err != nil || string(got) != "other" {
		t.Errorf("the other file has %q: %v", got, err)
	}
	if names := namesIn(t, dir); !slices.Equal(names, []string{".part", "target"}) {
		t.Errorf("there is %q", names)
	}
}
