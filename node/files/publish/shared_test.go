package publish

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"allium/gateway/policy"
	"allium/internal/env"
	"allium/protocols/b3"
	"allium/protocols/dht"
	"allium/store"
	"allium/store/meta"
	"allium/store/storetest"
)

// running returns a publisher that runs, and its store.
func running(t *testing.T) (*Publisher, *store.Store) {
	t.Helper()
	cfg := store.DefaultConfig()
	cfg.Dir = t.TempDir()
	s, _ := storetest.Start(t, cfg, store.Deps{})
	b := New(Deps{
		Env:   env.Env{Log: slog.New(slog.DiscardHandler)},
		Store: s, Filter: policy.AllowAll{}, Policy: dht.AnnouncePinned,
		Coded: func(func(b3.Root) bool) {}, Held: func(b3.Root) bool { return false },
	})
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- b.Run(ctx, func() { close(ready) }) }()
	<-ready
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return b, s
}

func pin(t *testing.T, b *Publisher, s *store.Store, root b3.Root, label string, recursive bool) {
	t.Helper()
	if err := s.Pin(t.Context(), root, store.PinOptions{Label: label, Recursive: recursive}); err != nil {
		t.Fatal(err)
	}
	b.PinChanged(label, recursive)
}

// TestSharedKnot: a node answers for what it holds beside a shared tree with more paths than anybody can walk, tells
// nobody of the tree, and walks it once.
func TestSharedKnot(t *testing.T) {
	t.Parallel()
	const levels = 100
	b, s := running(t)
	roots := storetest.Knot(t, func(p []byte) b3.Root { return storetest.Put(t, s, p) }, levels)
	top := roots[len(roots)-1]
	pin(t, b, s, top, meta.SharedLabel, true)
	other := storetest.Put(t, s, []byte("an object without a pin"))
	has := func(what string, root b3.Root, want bool) {
		t.Helper()
		if got := b.Has(t.Context(), root); got != want {
			t.Errorf("%s: the node says %t", what, got)
		}
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { has("another object", other, true) })
	}
	wg.Wait()
	for _, root := range roots {
		has("a shared object", root, false)
	}
	walked := b.shared.as
	pin(t, b, s, other, "", false)
	has("another object, pinned", other, true)
	if b.shared.as != walked {
		t.Error("the shared tree was walked again after the change of another pin")
	}
	pin(t, b, s, roots[3], "site", false)
	has("a shared object with another pin", roots[3], true)
	has("what is below it", roots[2], false)
	pin(t, b, s, roots[3], "site", true)
	has("what is below another recursive pin", roots[2], true)
	has("what is above it", roots[4], false)
	n := 0
	for range b.Roots(t.Context())() {
		n++
	}
	if want := 5; n != want { // roots[:4] and other
		t.Errorf("%d objects are announced, want %d", n, want)
	}
	if err := s.Unpin(t.Context(), roots[3], "site"); err != nil {
		t.Fatal(err)
	}
	b.PinChanged("site", true)
	has("what is only shared again", roots[2], false)
	if err := s.Unpin(t.Context(), top, meta.SharedLabel); err != nil {
		t.Fatal(err)
	}
	b.PinChanged(meta.SharedLabel, true)
	has("what is not shared any more", roots[2], true)
}

// TestUnreadableShare: while what is shared is not known, the node tells of pinned objects alone.
func TestUnreadableShare(t *testing.T) {
	t.Parallel()
	b, s := running(t)
	put := func(p []byte) b3.Root { return storetest.Put(t, s, p) }
	last := storetest.Knot(t, b3.Sum, 0)[1]
	roots := storetest.Knot(t, func(p []byte) b3.Root {
		if b3.Sum(p) == last {
			return last // is not stored
		}
		return put(p)
	}, 3)
	pin(t, b, s, roots[len(roots)-1], meta.SharedLabel, true)
	pinned, cached := put([]byte("pinned")), put([]byte("not pinned"))
	pin(t, b, s, pinned, "", false)
	for root, want := range map[b3.Root]bool{pinned: true, cached: false, roots[0]: false} {
		if got := b.Has(t.Context(), root); got != want {
			t.Errorf("%s: the node says %t, want %t", root, got, want)
		}
	}
}

// TestKept: one result serves all who wait for it, outlives those who gave up, and is made again after a change, at
// most half of the time. One that is not complete holds for a minute.
func TestKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const took = time.Second
		k := newKept[int]()
		made := 0
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			k.run(ctx, func(ctx context.Context) (int, bool) {
				time.Sleep(took)
				made++
				return made, made != 2
			})
		})
		short, stop := context.WithTimeout(t.Context(), took/2)
		defer stop()
		if _, err := k.get(short); err == nil {
			t.Error("a result came before it was made")
		}
		ask := func(want int) {
			var asking sync.WaitGroup
			for range 50 {
				asking.Go(func() {
					if v, err := k.get(t.Context()); v != want || err != nil {
						t.Errorf("the result is %d, %v; want %d", v, err, want)
					}
				})
			}
			asking.Wait()
		}
		begun := time.Now()
		ask(1)
		if waited := time.Since(begun); waited != took/2 {
			t.Errorf("the result came after %v: the one that was begun is not used", waited)
		}
		ask(1)
		k.changed()
		begun = time.Now()
		ask(2)
		if waited := time.Since(begun); waited != 2*took {
			t.Errorf("the next result came after %v, want the rest and the work", waited)
		}
		time.Sleep(keptIfFailed - time.Second)
		ask(2)
		time.Sleep(2 * time.Second)
		ask(3) // as the second one is not complete
		time.Sleep(2 * keptIfFailed)
		ask(3)
		cancel()
		wg.Wait()
		k.changed()
		if _, err := k.get(ctx); err == nil {
			t.Error("there is a result after the end")
		}
	})
}
