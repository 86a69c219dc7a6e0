package store_test

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
	"allium/store"
	"allium/store/storetest"
)

func compareRoots(a, b b3.Root) int { return bytes.Compare(a[:], b[:]) }

// below returns the objects below a directory, sorted, each once.
func below(t *testing.T, s *store.Store, top b3.Root) (all []b3.Root, err error) {
	t.Helper()
	for root, e := range s.Collector().Below(t.Context(), top) {
		if e != nil {
			return all, e
		}
		all = append(all, root)
	}
	slices.SortFunc(all, compareRoots)
	return slices.Compact(all), nil
}

// TestBelow: everything that a tree names is listed, stored or not. What is below a directory that is
// missing or damaged is not known, and said.
func TestBelow(t *testing.T) {
	t.Parallel()
	cfg := store.DefaultConfig()
	cfg.Dir = t.TempDir()
	s, stop := storetest.Start(t, cfg, store.Deps{})
	file := storetest.Put(t, s, []byte("a file"))
	absent := b3.Sum([]byte("a file that is not here"))
	inner := tree(t, s, map[string]b3.Root{"file": file, "absent": absent}, nil)
	top := tree(t, s, map[string]b3.Root{"same": file}, map[string]b3.Root{"inner": inner})
	want := []b3.Root{file, absent, inner}
	slices.SortFunc(want, compareRoots)
	if got, err := below(t, s, top); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if got, err := below(t, s, file); err != nil || len(got) != 0 {
		t.Errorf("below a file are %v, %v", got, err)
	}
	for range s.Collector().Below(t.Context(), top) {
		break // the caller may stop
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range s.Collector().Below(ctx, top) {
		storetest.Want(t, err, status.Canceled)
	}
	lacking := tree(t, s, nil, map[string]b3.Root{"inner": absent})
	_, err := below(t, s, lacking)
	storetest.Want(t, err, status.NotFound)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	flipAfter(t, filepath.Join(cfg.Dir, "seg"), manifest.Magic) // of inner, which was put first
	s, _ = storetest.Start(t, cfg, store.Deps{})
	_, err = below(t, s, top)
	storetest.Want(t, err, status.Corrupt)
}
