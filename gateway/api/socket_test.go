package api

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"allium/protocols/status"
)

// TestSocketPaths: a home with a short path has its socket below it, one with a
// long path in the temporary directory, where a node and its clients agree.
func TestSocketPaths(t *testing.T) {
	short := t.TempDir()
	if len(short) > 80 {
		t.Skip("the temporary directory's path is long")
	}
	for _, f := range []func(string) (string, error){SocketPath, ListenPath} {
		p, err := f(short)
		if err != nil || p != filepath.Join(short, "run", "api.sock") {
			t.Errorf("%s, %v", p, err)
		}
	}
	long := filepath.Join(short, strings.Repeat("x", 120))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	a, err := SocketPath(long)
	b, err2 := ListenPath(long)
	if err != nil || err2 != nil || a != b || len(a) > maxSocketPath || strings.HasPrefix(a, long) {
		t.Errorf("%s and %s, %v, %v", a, b, err, err2)
	}
}

func TestSocketPath(t *testing.T) {
	t.Parallel()
	short, err := SocketPath("/home/u/.allium")
	if err != nil || short != "/home/u/.allium/run/api.sock" {
		t.Errorf("%s, %v", short, err)
	}
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	relative, err := SocketPath("x")
	if err != nil || relative != filepath.Join(wd, "x", "run", "api.sock") {
		t.Errorf("%s, %v", relative, err)
	}
	seen := map[string]bool{}
	for i := 80; i < 300; i++ {
		home := "/" + strings.Repeat("h", i)
		p, err := SocketPath(home)
		if err != nil || len(p) > maxSocketPath || seen[p] {
			t.Errorf("%d bytes: %s, %v", i, p, err)
		}
		seen[p] = true
		if again, _ := SocketPath(home); again != p {
			t.Errorf("%s and then %s", p, again)
		}
		if i > maxSocketPath && !strings.HasPrefix(p, os.TempDir()) {
			t.Errorf("%d bytes: %s", i, p)
		}
	}
}

func TestSocketPathInALongTempDir(t *testing.T) {
	t.Setenv("TMPDIR", "/"+strings.Repeat("t", 200))
	p, err := SocketPath("/" + strings.Repeat("h", 200))
	if err != nil || !strings.HasPrefix(p, "/tmp/allium-") {
		t.Errorf("%s, %v", p, err)
	}
}

func TestCheckSocketDir(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	if err := CheckSocketDir(filepath.Join(tmp, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	dir, link, file := filepath.Join(tmp, "dir"), filepath.Join(tmp, "link"), filepath.Join(tmp, "file")
	for _, err := range []error{os.Mkdir(dir, 0o700), os.Symlink(dir, link), os.WriteFile(file, nil, 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]status.Outcome{dir: status.OK, link: status.Forbidden, file: status.Forbidden} {
		if err := CheckSocketDir(path); status.Of(err) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, mode := range []os.FileMode{0o755, 0o770, 0o701} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if err := CheckSocketDir(dir); status.Of(err) != status.Forbidden ||
			!strings.Contains(err.Error(), "chmod 700") {
			t.Errorf("%o: %v", mode, err)
		}
	}
	if os.Geteuid() == 0 {
		if err := errors.Join(os.Chmod(dir, 0o700), os.Chown(dir, 12345, 12345)); err != nil {
			t.Fatal(err)
		}
		if err := CheckSocketDir(dir); status.Of(err) != status.Forbidden || !strings.Contains(err.Error(), "12345") {
			t.Errorf("somebody else's: %v", err)
		}
	}
}
