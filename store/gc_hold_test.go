package store

import (
	"testing"

	"allium/protocols/b3"
	"allium/store/gc"
)

// TestHoldWritesNothing: a hold keeps what it was shown without a use of it being
// written, and only as long as it lasts.
func TestHoldWritesNothing(t *testing.T) {
	t.Parallel()
	withBackends(t, func(t *testing.T, s *Store) {
		fillStore(t, s, 40)
		es := listAll(t, s)
		collect := func(want int) {
			t.Helper()
			if _, err := s.Collector().Run(t.Context(), gc.Options{All: true, Fast: true}); err != nil {
				t.Fatal(err)
			}
			if left := listAll(t, s); len(left) != want {
				t.Fatalf("%d objects are left, want %d", len(left), want)
			}
		}
		release := s.HoldGC()
		var shown []b3.Root
		for i, e := range es[:30] {
			switch i % 3 {
			case 0: // found
				shown = append(shown, e.Root)
			case 1: // opened
				o, err := s.Open(t.Context(), e.Root)
				if err != nil {
					t.Fatal(err)
				}
				o.Close()
			default: // kept
				if _, err := s.Touch(t.Context(), []b3.Root{e.Root}); err != nil {
					t.Fatal(err)
				}
			}
		}
		found, err := s.Find(t.Context(), append(shown, b3.Sum([]byte("absent"))))
		if err != nil || len(found) != len(shown)+1 || !found[len(shown)].Root.IsZero() {
			t.Fatal(found, err)
		}
		for i, root := range shown {
			if found[i].Root != root || found[i].Size != es[3*i].Size {
				t.Fatalf("found is %+v, want %+v", found[i], es[3*i])
			}
		}
		collect(30)
		for _, e := range es[:30] {
			if at, err := s.backend.UsedAt(e); err != nil || at != e.Added {
				t.Fatalf("a use of %s at %d was written, it came at %d: %v", e.Root, at, e.Added, err)
			}
		}
		release()
		collect(0)
	})
}
