package addpaths_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"allium/node/files/addpaths"
	"allium/protocols/b3"
)

func root(i int) b3.Root { return b3.Sum([]byte(fmt.Sprint(i))) }

func note(t *testing.T, file string, added ...addpaths.Added) {
	t.Helper()
	if err := addpaths.Note(t.Context(), file, added); err != nil {
		t.Error(err)
	}
}

func paths(t *testing.T, file string) map[b3.Root]string {
	t.Helper()
	got, err := addpaths.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestNote: the last path counts, what is known is not written again, and a cut line harms no other.
func TestNote(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cache", "paths")
	if got := paths(t, file); len(got) != 0 {
		t.Errorf("without a file: %v", got)
	}
	odd := "/a b\n\"\xff"
	note(t, file, addpaths.Added{Root: root(1), Path: "/one"}, addpaths.Added{Root: root(2), Path: odd})
	note(t, file, addpaths.Added{Root: root(1), Path: "/two"})
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	note(t, file, addpaths.Added{Root: root(1), Path: "/two"}, addpaths.Added{
		Root: root(3), Path: strings.Repeat("x", 5<<10), // longer than any path
	})
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("%q became %q, %v", before, after, err)
	}
	if err := os.WriteFile(file, []byte(string(before)+"b3:12"), 0o600); err != nil {
		t.Fatal(err)
	}
	note(t, file, addpaths.Added{Root: root(4), Path: "/four"})
	got := paths(t, file)
	if len(got) != 3 || got[root(1)] != "/two" || got[root(2)] != odd || got[root(4)] != "/four" {
		t.Errorf("got %q", got)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// TestBound: a full file keeps the newer half of what it has.
func TestBound(t *testing.T) {
	file := filepath.Join(t.TempDir(), "paths")
	const many = 1500 // of 1 KiB
	long := strings.Repeat("x", 1<<10)
	for i := 0; i < many; i += 100 {
		var added []addpaths.Added
		for j := range 100 {
			added = append(added, addpaths.Added{Root: root(i + j), Path: fmt.Sprint("/", i+j, long)})
		}
		note(t, file, added...)
		if info, err := os.Stat(file); err != nil || info.Size() > 1<<20 {
			t.Fatalf("the file has %d bytes, %v", info.Size(), err)
		}
	}
	got := paths(t, file)
	if len(got) < 400 || len(got) > 1000 || got[root(many-1)] == "" || got[root(0)] != "" {
		t.Errorf("%d paths are left", len(got))
	}
}

// TestTogether: commands that note paths at the same time lose none.
func TestTogether(t *testing.T) {
	file := filepath.Join(t.TempDir(), "paths")
	const each, at = 5, 8
	var all sync.WaitGroup
	for i := range at {
		all.Go(func() {
			for j := range each {
				note(t, file, addpaths.Added{Root: root(i*each + j), Path: "/p"})
			}
		})
	}
	all.Wait()
	if got := paths(t, file); len(got) != each*at {
		t.Errorf("%d of %d paths", len(got), each*at)
	}
}
