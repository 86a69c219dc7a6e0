package store_test

import (
	"slices"
	"testing"

	"allium/protocols/b3"
	"allium/store"
	"allium/store/gc"
	"allium/store/meta"
	"allium/store/storetest"
)

// TestKnot: directories that name each other in many ways are read once, by whatever walks them, also when one of them
// is missing.
func TestKnot(t *testing.T) {
	t.Parallel()
	const levels = 60 // 2^60 paths
	cfg := store.DefaultConfig()
	cfg.Dir = t.TempDir()
	s, _ := storetest.Start(t, cfg, store.Deps{})
	put := func(p []byte) b3.Root { return storetest.Put(t, s, p) }
	roots := storetest.Knot(t, put, levels)
	dirs := levels + 1
	gap := tree(t, s, nil, map[string]b3.Root{"absent": b3.Sum([]byte("a directory that is not here"))})
	for range levels {
		gap = tree(t, s, nil, map[string]b3.Root{"a": gap, "b": gap})
	}
	top := roots[len(roots)-1]
	for _, root := range []b3.Root{top, gap} {
		if err := s.Pin(t.Context(), root, store.PinOptions{Recursive: true}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := s.Collector().Run(t.Context(), gc.Options{Dry: true, All: true, Fast: true})
	if most := int64(2*dirs + 1); err != nil || r.Nodes > most {
		t.Errorf("a collection read %d directories (%v), the most are %d", r.Nodes, err, most)
	}
	if n := r.Classes[gc.Removed].Objects; n != 0 {
		t.Errorf("%d pinned objects would be removed", n)
	}
	lost := 0
	if err := s.Collector().FindLost(t.Context(), gc.FindLostOptions{Fast: true}, func(gc.Lost) error {
		lost++
		return nil
	}); err != nil || lost != 1 {
		t.Errorf("%d objects are lost (%v), want the directory that is missing", lost, err)
	}
	var below []b3.Root
	for root, err := range s.Collector().Below(t.Context(), top) {
		if err != nil {
			t.Fatal(err)
		}
		if below = append(below, root); len(below) > dirs {
			t.Fatal("an object is listed twice")
		}
	}
	want := slices.Clone(roots[:len(roots)-1])
	slices.SortFunc(want, compareRoots)
	slices.SortFunc(below, compareRoots)
	if !slices.Equal(below, want) {
		t.Errorf("%d objects are below the top, want %d", len(below), len(want))
	}
	kept, failed := 0, 0
	for _, err := range s.Collector().Kept(t.Context(), func(meta.Pin) bool { return true }) {
		if err != nil {
			failed++
			continue
		}
		kept++
	}
	if want := len(roots) + levels + 2; kept != want || failed != 1 {
		t.Errorf("pins lead to %d objects with %d errors, want %d and 1", kept, failed, want)
	}
}
