package extract

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"allium/protocols/manifest"
)

// writeOld writes a file of an hour ago.
func writeOld(t *testing.T, name string) {
	t.Helper()
	if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	then := time.Now().Add(-time.Hour)
	if err := os.Chtimes(name, then, then); err != nil {
		t.Fatal(err)
	}
}

// TestTempTaken: a temporary file or directory that a sweep takes before it is locked is created again.
func TestTempTaken(t *testing.T) {
	t.Parallel()
	for what, take := range map[string]func(t *testing.T, in *os.Root, name string){
		"removed": func(t *testing.T, in *os.Root, name string) {
			t.Helper()
			if !sweepOne(in, name) {
				t.Fatal("the sweep left it")
			}
		},
		"locked": func(t *testing.T, in *os.Root, name string) {
			t.Helper()
			f, err := LockTemp(in, name)
			if err != nil || f == nil {
				t.Skipf("no locks here: %v", err)
			}
			t.Cleanup(func() { _ = f.Close() })
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			in, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			var made []string
			mkdir := func(taken int) func(string) (*os.File, error) {
				return func(name string) (*os.File, error) {
					if made = append(made, name); in.Mkdir(name, 0o755) != nil {
						t.Errorf("%s is there already", name)
					}
					if len(made) <= taken {
						take(t, in, name)
					}
					return nil, nil
				}
			}
			got, err := createTemp(in, "out", mkdir(2))
			if err != nil || len(made) != 3 || got.name != made[2] {
				t.Fatalf("%q of %q, %v", got.name, made, err)
			}
			defer got.lock.Close()
			if names := namesIn(t, dir); !slices.Equal(names, []string{got.name}) {
				t.Errorf("there is %q", names)
			}
			made = nil
			if _, err := createTemp(in, "out", mkdir(tempTries)); !errors.Is(err, ErrTempTaken) ||
				len(made) != tempTries {
				t.Errorf("%d tries, %v", len(made), err)
			}
		})
	}
}

// TestSiblings: extractions into one directory at once take nothing from each other.
func TestSiblings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 50 {
				x, err := Begin(filepath.Join(dir, fmt.Sprintf("%d-%d", i, j)), Options{})
				if err != nil {
					t.Error(err)
					return
				}
				if j%2 == 0 {
					err = x.File("", 1, false, strings.NewReader("x"))
				} else if err = x.Dir(""); err == nil {
					err = x.File("f", 1, false, strings.NewReader("x"))
				}
				if err == nil {
					err = x.Commit()
				}
				if err = errors.Join(err, x.Abort()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := namesIn(t, dir); len(got) != 4*50 {
		t.Errorf("there are %d names, want %d", len(got), 4*50)
	}
}

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
		writeOld(t, filepath.Join(dir, name))
	}
	if err := os.WriteFile(filepath.Join(dir, ".young.allium-abcdefgh"), nil, 0o600); err != nil {
		t.Fatal(err)
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
	want := append(slices.Clone(keep), ".l.allium-abcdabcd", ".young.allium-abcdefgh", busy.tmp, other.tmp)
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
		writeOld(t, filepath.Join(in, ".f.allium-abcdefgh"))
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
