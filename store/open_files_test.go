package store

import (
	"bytes"
	"math/rand/v2"
	"path"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// inMemory configures a store on disk whose disk is a map.
func inMemory() Config {
	cfg := DefaultConfig()
	cfg.Dir, cfg.ReserveBytes = "/store", 0
	return cfg
}

// largeObjects puts n objects of six groups each.
func largeObjects(t *testing.T, s *Store, n int) (roots []b3.Root, data [][]byte) {
	t.Helper()
	src := rand.NewChaCha8([32]byte{7})
	for range n {
		p := make([]byte, 5*b3.GroupSize+1)
		_, _ = src.Read(p)
		info, err := s.PutBytes(t.Context(), p, PutOptions{})
		if err != nil {
			t.Fatal(err)
		}
		roots, data = append(roots, info.Root), append(data, p)
	}
	return roots, data
}

// TestKeptOpen: objects stay open up to a bound, a second reader shares the
// files, and who is pushed out while it is read can be read on.
func TestKeptOpen(t *testing.T) {
	t.Parallel()
	cfg := inMemory()
	cfg.Dir = t.TempDir()
	s := openStore(t, cfg, vfs.Default) // whose closed files say so
	roots, data := largeObjects(t, s, defaultOpenFiles.objects+2)
	first, err := s.Open(t.Context(), roots[0])
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Open(t.Context(), roots[0])
	if err != nil {
		t.Fatal(err)
	}
	if first.Source() != again.Source() {
		t.Error("the second reader opened the files again")
	}
	for _, root := range roots[1:] {
		o, err := s.Open(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		o.Close()
	}
	if n := s.openFiles.Len(); n != defaultOpenFiles.objects {
		t.Errorf("%d are kept, want %d", n, defaultOpenFiles.objects)
	}
	if o := s.openFiles.Get(roots[0]); o != nil {
		t.Error("the least recently used is still held")
		s.openFiles.Release(o)
	}
	again.Close()
	got := make([]byte, 100)
	if _, err := first.Reader().ReadAt(got, 3*b3.GroupSize); err != nil ||
		!bytes.Equal(got, data[0][3*b3.GroupSize:][:100]) {
		t.Errorf("the one that was pushed out: %v", err)
	}
	first.Close()
	if _, err := first.Source().(meta.PairSource).Pair.Data.ReadAt(got, 0); err == nil {
		t.Error("its files are still open")
	}
}

// TestKeptAreDropped: what is deleted or damaged is not read from files that
// stayed open, and what is put again is read from the new ones.
func TestKeptAreDropped(t *testing.T) {
	t.Parallel()
	cfg, fs := inMemory(), vfs.NewMem()
	s := openStore(t, cfg, fs)
	roots, data := largeObjects(t, s, 2)
	touch := func(root b3.Root) error {
		o, err := s.Open(t.Context(), root)
		if err != nil {
			return err
		}
		defer o.Close()
		_, err = o.Reader().ReadAt(make([]byte, 10), 2*b3.GroupSize)
		return o.Failed(err)
	}
	wantCached := func(when string, root b3.Root, want bool) {
		t.Helper()
		if got := s.Cached(root); got != want {
			t.Errorf("%s: Cached = %t", when, got)
		}
	}
	for _, root := range roots {
		wantCached("before it was opened", root, false)
		if err := touch(root); err != nil {
			t.Fatal(err)
		}
		wantCached("opened", root, true)
	}
	if err := s.Delete(t.Context(), roots[0]); err != nil {
		t.Fatal(err)
	}
	wantCached("deleted", roots[0], false)
	if err := touch(roots[0]); status.Of(err) != status.NotFound {
		t.Errorf("deleted: %v", err)
	}
	hex := roots[1].Hex()
	f, err := fs.OpenReadWrite(path.Join(cfg.Dir, "obj", hex[:2], hex), vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{^data[1][2*b3.GroupSize+5]}, 2*b3.GroupSize+5); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := touch(roots[1]); status.Of(err) != status.Corrupt {
			t.Errorf("damaged: %v", err)
		}
	}
	wantCached("damaged", roots[1], false)
	if s.openFiles.Len() != 0 {
		t.Errorf("%d are kept", s.openFiles.Len())
	}
	if _, err := s.PutBytes(t.Context(), data[1], PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := touch(roots[1]); err != nil {
		t.Errorf("put again: %v", err)
	}
}
