package store

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
)

// withBackends runs a test on the backend of a store that is open, for each
// kind there is.
func withBackends(t *testing.T, test func(t *testing.T, s *Store)) {
	t.Helper()
	for _, kind := range []string{BackendEmbedded, BackendMemory} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			cfg := DefaultConfig()
			cfg.Backend, cfg.Dir, cfg.ReserveBytes = kind, "/store", 0
			test(t, openStore(t, cfg, vfs.NewMem()))
		})
	}
}

// openStore runs a store until the test ends.
func openStore(t *testing.T, cfg Config, fs vfs.FS) *Store {
	t.Helper()
	s, stop := startStore(t, cfg, fs)
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return s
}

// listAll returns every entry of s's backend, in pages of a few.
func listAll(t *testing.T, s *Store) []entry {
	t.Helper()
	var all []entry
	page := make([]entry, 0, 3)
	for root, more := (b3.Root{}), true; more; {
		es, err := s.backend.entries(root, page)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, es...)
		if more = len(es) == cap(page); more {
			root, more = next(es[len(es)-1].root)
		}
	}
	return all
}

// fillStore puts n objects, every third a large one.
func fillStore(t *testing.T, s *Store, n int) []b3.Root {
	t.Helper()
	var roots []b3.Root
	for i := range n {
		p := fmt.Appendf(nil, "object %d", i)
		if i%3 == 2 {
			p = slices.Grow(p, b3.GroupSize+i)[:b3.GroupSize+i]
		}
		info, err := s.PutBytes(t.Context(), p, PutOptions{})
		if err != nil {
			t.Fatal(err)
		}
		roots = append(roots, info.Root)
	}
	return roots
}

func TestRemoveAll(t *testing.T) {
	t.Parallel()
	withBackends(t, func(t *testing.T, s *Store) {
		roots := fillStore(t, s, 20)
		es := listAll(t, s)
		if len(es) != len(roots) {
			t.Fatalf("%d entries, want %d", len(es), len(roots))
		}
		for _, e := range es {
			if e.added == 0 || e.used != e.added {
				t.Fatalf("%+v was added at no time, or not used then", e)
			}
		}
		changed := es[3]
		changed.added--
		absent := entry{root: b3.Sum([]byte("never there")), size: 11}
		if err := s.backend.removeAll(t.Context(), append([]entry{changed, absent}, es[5:]...)); err != nil {
			t.Fatal(err)
		}
		if err := s.backend.removeAll(t.Context(), es[5:8]); err != nil { // gone already
			t.Fatal(err)
		}
		left := listAll(t, s)
		if !slices.Equal(left, es[:5]) {
			t.Fatalf("left are %v, want %v", left, es[:5])
		}
		var size int64
		for _, e := range left {
			size += e.size
		}
		if st := s.Stats(); st.Objects != 5 || st.Bytes != size {
			t.Errorf("stats say %+v, want 5 objects of %d bytes", st, size)
		}
		if err := s.backend.removeAll(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	})
}

func TestTouch(t *testing.T) {
	t.Parallel()
	withBackends(t, func(t *testing.T, s *Store) {
		fillStore(t, s, 10)
		es := listAll(t, s)
		want := map[b3.Root]second{es[0].root: es[0].added + 5, es[4].root: es[4].added + 7, es[9].root: es[9].added + 1}
		absent := b3.Sum([]byte("never there"))
		used := maps.Clone(want)
		used[absent], used[es[7].root] = 1<<31, es[7].added-1
		if err := s.backend.touch(used); err != nil {
			t.Fatal(err)
		}
		if err := s.backend.touch(map[b3.Root]second{es[4].root: es[4].added + 6}); err != nil { // earlier
			t.Fatal(err)
		}
		check := func() {
			t.Helper()
			for _, e := range listAll(t, s) {
				at, err := s.backend.usedAt(e)
				if err != nil {
					t.Fatal(err)
				}
				if last := max(e.added, want[e.root]); e.used != last || at != last {
					t.Fatalf("%s: used %d and %d, want %d", e.root, e.used, at, last)
				}
			}
		}
		check()
		// A use goes with its object.
		if err := s.backend.removeAll(t.Context(), es[4:5]); err != nil {
			t.Fatal(err)
		}
		delete(want, es[4].root)
		fillStore(t, s, 10)
		check()
	})
}
