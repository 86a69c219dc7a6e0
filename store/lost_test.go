package store_test

import (
	"context"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/store"
	"allium/store/gc"
	"allium/store/storetest"
)

// TestLostBelowRemovedPin: what is missing below two pins, one of which is removed during the walk, is told of the
// other one, also if it is in a directory that both have.
func TestLostBelowRemovedPin(t *testing.T) {
	t.Parallel()
	cfg := store.DefaultConfig()
	cfg.Backend = store.BackendMemory
	s, _ := storetest.Start(t, cfg, store.Deps{})
	directory := func(entries ...manifest.Entry) (e manifest.Entry) {
		t.Helper()
		b := manifest.NewBuilder(func(_ context.Context, p []byte) (b3.Root, error) {
			return storetest.Put(t, s, p), nil
		})
		for _, e := range entries {
			if err := b.Add(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		root, size, err := b.Close(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return manifest.Entry{Kind: manifest.Directory, Root: root, Size: size}
	}
	missing := func(name string, kind manifest.EntryKind) manifest.Entry {
		return manifest.Entry{Name: name, Kind: kind, Root: b3.Sum([]byte(name)), Size: 200}
	}
	named := func(name string, e manifest.Entry) manifest.Entry {
		e.Name = name
		return e
	}
	both := directory(missing("b", manifest.File), missing("c", manifest.Directory))
	for _, name := range []string{"x", "y"} {
		top := directory(
			missing("a", manifest.File), named("both", both), missing("d", manifest.Directory), named(name, both),
		)
		if err := s.Pin(t.Context(), top.Root, store.PinOptions{Recursive: true}); err != nil {
			t.Fatal(err)
		}
	}
	lost := map[string]b3.Root{}
	removed := b3.Root{}
	err := s.Collector().FindLost(t.Context(), gc.FindLostOptions{Fast: true}, func(l gc.Lost) error {
		lost[l.Path] = l.Pin.Root
		if len(lost) > 1 {
			return nil
		}
		removed = l.Pin.Root
		return s.Unpin(t.Context(), removed, "")
	})
	if err != nil || len(lost) != 4 {
		t.Errorf("%d objects are lost (%v), want 4: %v", len(lost), err, lost)
	}
	for path, pin := range lost {
		if path != "a" && pin == removed {
			t.Errorf("%s is told of the pin that was removed", path)
		}
	}
}
