package extract

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/manifest"
)

// TestUpdateKeepsModes: of the permissions of a file only the executable bit is
// the directory's, whether its content changes or not; a file that is new has
// the usual ones.
func TestUpdateKeepsModes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		was        fs.FileMode
		executable bool
		want       fs.FileMode
	}{
		{0o600, false, 0o600}, {0o640, true, 0o750}, {0o700, false, 0o600}, {0o755, true, 0o755}, {0o711, true, 0o711},
		{0o444, false, 0o444}, {0o666, false, 0o666}, {0o664, true, 0o775},
	} {
		for _, old := range []string{"x", "another"} {
			dir := t.TempDir()
			name := filepath.Join(dir, "f")
			if err := os.WriteFile(name, []byte(old), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(name, c.was); err != nil {
				t.Fatal(err)
			}
			u, err := BeginUpdate(dir, UpdateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := u.Entry("", manifest.Entry{Kind: manifest.Directory}); err != nil {
				t.Fatal(err)
			}
			e := manifest.Entry{Name: "f", Root: b3.Sum([]byte("x")), Size: 1, Executable: c.executable}
			need, err := u.Entry("f", e)
			if err == nil && need {
				err = u.File("f", e, strings.NewReader("x"))
			}
			if err == nil {
				err = u.Finish()
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := u.Close(); err != nil {
				t.Fatal(err)
			}
			wantFile(t, name, "x", c.want)

			x, err := Begin(name, Options{Overwrite: true, KeepMode: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := x.File("", 2, !c.executable, strings.NewReader("yy")); err != nil {
				t.Fatal(err)
			}
			if err := x.Commit(); err != nil {
				t.Fatal(err)
			}
			wantFile(t, name, "yy", KeptMode(c.want, !c.executable))
		}
	}
}

func wantFile(t *testing.T, name, data string, mode fs.FileMode) {
	t.Helper()
	got, err := os.ReadFile(name)
	if err != nil || string(got) != data {
		t.Errorf("%s has %q, %v, want %q", name, got, err, data)
	}
	if info, err := os.Lstat(name); err != nil || info.Mode() != mode {
		t.Errorf("%s has %v, %v, want %v", name, info.Mode(), err, mode)
	}
}
