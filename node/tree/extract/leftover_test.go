package extract

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"allium/protocols/manifest"
)

// TestSweep: an extraction removes what a process that is gone left beside it,
// and nothing that somebody writes or that has another name.
func TestSweep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	busy, err := Begin(filepath.Join(dir, "busy"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := busy.Dir(""); err != nil {
		t.Fatal(err)
	}
	other, err := Begin(filepath.Join(dir, "other"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.File("", 1, false, strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	keep := []string{
		".a.allium-short", ".a.allium-abcdefg1", "a.allium-abcdefgh", ".allium-abcdefgh", ".a.allium-ABCDEFGH",
		".a.allium-abcdefgh.txt", "photo",
	}
	for _, name := range append(slices.Clone(keep), ".a.allium-abcdefgh", ".b c.allium-234567zz") {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, ".tree.allium-abcdabcd", "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("photo", filepath.Join(dir, ".l.allium-abcdabcd")); err != nil {
		t.Fatal(err)
	}
	x, err := Begin(filepath.Join(dir, "target"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Abort(); err != nil {
		t.Fatal(err)
	}
	want := append(slices.Clone(keep), ".l.allium-abcdabcd", busy.tmp, other.tmp)
	slices.Sort(want)
	if got := namesIn(t, dir); !slices.Equal(got, want) {
		t.Errorf("there is %q, want %q", got, want)
	}
	for _, x := range []*Extractor{busy, other} {
		if err := x.Commit(); err != nil {
			t.Error(err)
		}
	}
	if got := namesIn(t, dir); !slices.Contains(got, "busy") || !slices.Contains(got, "other") {
		t.Errorf("there is %q", got)
	}
}

// TestUpdateSweeps removes what an update that was killed left, also in a
// directory below.
func TestUpdateSweeps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sub := filepath.Join(dir, "sub")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, in := range []string{dir, sub} {
		if err := os.WriteFile(filepath.Join(in, ".f.allium-abcdefgh"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	u, err := BeginUpdate(dir, UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	for _, path := range []string{"", "sub"} {
		if _, err := u.Entry(path, manifest.Entry{Name: path, Kind: manifest.Directory}); err != nil {
			t.Fatal(err)
		}
	}
	if err := u.Finish(); err != nil {
		t.Fatal(err)
	}
	if got := append(namesIn(t, dir), namesIn(t, sub)...); !slices.Equal(got, []string{"sub"}) {
		t.Errorf("there is %q", got)
	}
}

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		names = append(names, d.Name())
	}
	return names
}
