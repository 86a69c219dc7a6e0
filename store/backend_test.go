package store

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/store/meta"
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
func listAll(t *testing.T, s *Store) []meta.Entry {
	t.Helper()
	var all []meta.Entry
	page := make([]meta.Entry, 0, 3)
	for root, more := (b3.Root{}), true; more; {
		es, err := s.backend.Entries(root, page)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, es...)
		if more = len(es) == cap(page); more {
			root, more = meta.NextRoot(es[len(es)-1].Root)
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
			if e.Added == 0 || e.Used != e.Added {
				t.Fatalf("%+v was added at no time, or not used then", e)
			}
		}
		changed := es[3]
		changed.Added--
		absent := meta.Entry{Root: b3.Sum([]byte("never there")), Size: 11}
		if err := s.backend.RemoveAll(t.Context(), append([]meta.Entry{changed, absent}, es[5:]...)); err != nil {
			t.Fatal(err)
		}
		if err := s.backend.RemoveAll(t.Context(), es[5:8]); err != nil { // gone already
			t.Fatal(err)
		}
		left := listAll(t, s)
		if !slices.Equal(left, es[:5]) {
			t.Fatalf("left are %v, want %v", left, es[:5])
		}
		var size int64
		for _, e := range left {
			size += e.Size
		}
		if st := s.Stats(); st.Objects != 5 || st.Bytes != size {
			t.Errorf("stats say %+v, want 5 objects of %d bytes", st, size)
		}
		if err := s.backend.RemoveAll(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	})
}

func TestTouch(t *testing.T) {
	t.Parallel()
	withBackends(t, func(t *testing.T, s *Store) {
		fillStore(t, s, 10)
		es := listAll(t, s)
		want := map[b3.Root]meta.Second{es[0].Root: es[0].Added + 5, es[4].Root: es[4].Added + 7,
			es[9].Root: es[9].Added + 1}
		absent := b3.Sum([]byte("never there"))
		used := maps.Clone(want)
		used[absent], used[es[7].Root] = 1<<31, es[7].Added-1
		if err := s.backend.Touch(used, 1); err != nil {
			t.Fatal(err)
		}
		if err := s.backend.Touch(map[b3.Root]meta.Second{es[4].Root: es[4].Added + 6}, 1); err != nil { // earlier
			t.Fatal(err)
		}
		check := func() {
			t.Helper()
			for _, e := range listAll(t, s) {
				at, err := s.backend.UsedAt(e)
				if err != nil {
					t.Fatal(err)
				}
				if last := max(e.Added, want[e.Root]); e.Used != last || at != last {
					t.Fatalf("%s: used %d and %d, want %d", e.Root, e.Used, at, last)
				}
			}
		}
		check()
		// A use goes with its object.
		if err := s.backend.RemoveAll(t.Context(), es[4:5]); err != nil {
			t.Fatal(err)
		}
		delete(want, es[4].Root)
		fillStore(t, s, 10)
		check()
	})
}
