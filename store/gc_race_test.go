package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
	"allium/store"
	"allium/store/gc"
	"allium/store/storetest"
)

// pool are contents that the trees of TestGCRaces share.
func pool(i int) []byte {
	n := 200 + i
	if i%8 == 0 {
		n = b3.GroupSize + i
	}
	return storetest.Bytes(uint64(i), n)
}

const poolSize = 48

// grow makes a tree of pool contents i.., found by Keep or put, and returns its
// address and everything below it.
func grow(ctx context.Context, s *store.Store, from int) (top b3.Root, all []b3.Root, err error) {
	put := func(ctx context.Context, p []byte) (b3.Root, error) {
		root := b3.Sum(p)
		has, err := s.Touch(ctx, []b3.Root{root})
		if err == nil && has[0] != b3.Complete {
			_, err = s.PutBytes(ctx, p, store.PutOptions{Deferred: true})
		}
		all = append(all, root)
		return root, err
	}
	inner, outer := manifest.NewBuilder(put), manifest.NewBuilder(put)
	for i := range 6 {
		p := pool((from + i) % poolSize)
		root, err := put(ctx, p)
		if err != nil {
			return top, nil, err
		}
		if err := inner.Add(ctx, manifest.Entry{Name: fmt.Sprint(i), Root: root, Size: int64(len(p))}); err != nil {
			return top, nil, err
		}
	}
	root, size, err := inner.Close(ctx)
	if err != nil {
		return top, nil, err
	}
	if err := outer.Add(ctx,
		manifest.Entry{Name: "inner", Kind: manifest.Directory, Root: root, Size: size}); err != nil {
		return top, nil, err
	}
	if top, _, err = outer.Close(ctx); err == nil {
		err = s.Flush(ctx)
	}
	return top, all, err
}

// TestGCRaces collects everything in a loop while trees that share files are
// added, found, pinned and unpinned: what a pin holds is whole.
func TestGCRaces(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, cfg store.Config) {
		s, _ := storetest.Start(t, cfg, store.Deps{})
		ctx := t.Context()
		rounds := 30
		if testing.Short() {
			rounds = 15
		}
		whole := func(what string, all []b3.Root) {
			has, err := s.Has(ctx, all)
			for i, p := range has {
				if p != b3.Complete {
					t.Errorf("%s: object %d of %d is gone", what, i, len(has))
				}
			}
			if err != nil {
				t.Error(err)
			}
		}
		var workers, collector sync.WaitGroup
		var done atomic.Bool
		var removed, cycles int64
		collector.Go(func() {
			for !done.Load() {
				r, err := s.Collector().Run(ctx, gc.Options{All: true, Fast: true})
				if err != nil {
					t.Error(err)
				}
				removed += r.Classes[gc.Removed].Objects
				cycles++
			}
		})
		for w := range 3 { // who add
			workers.Go(func() {
				label := fmt.Sprint("adder ", w)
				rng := rand.New(rand.NewPCG(uint64(w), 1))
				for range rounds {
					release := s.HoldGC()
					top, all, err := grow(ctx, s, rng.IntN(poolSize))
					if err == nil {
						err = s.Pin(ctx, top, store.PinOptions{Recursive: true, Label: label})
					}
					release()
					if err != nil {
						t.Error(err)
						return
					}
					whole("after the pin", all)
					if _, err := s.Collector().Run(ctx, gc.Options{Fast: true}); err != nil {
						t.Error(err)
					}
					whole("while it is pinned", all)
					if err := s.Unpin(ctx, top, label); err != nil {
						t.Error(err)
					}
				}
			})
		}
		workers.Go(func() { // pins what others left as cache, as far as it is there
			rng := rand.New(rand.NewPCG(9, 1))
			for range 4 * rounds {
				from := rng.IntN(poolSize)
				release := s.HoldGC()
				top, all, err := grow(ctx, s, from)
				release()
				if err != nil {
					t.Error(err)
					return
				}
				switch err := s.Pin(ctx, top, store.PinOptions{Recursive: true, Label: "late"}); status.Of(err) {
				case status.OK:
				case status.NotFound:
					continue // it went first
				default:
					t.Error(err)
					return
				}
				has, err := s.Has(ctx, all)
				if err != nil {
					t.Error(err)
				}
				var there []b3.Root
				for i, p := range has {
					if p == b3.Complete {
						there = append(there, all[i])
					}
				}
				if _, err := s.Collector().Run(ctx, gc.Options{All: true, Fast: true}); err != nil {
					t.Error(err)
				}
				if has[len(all)-2] == b3.Complete { // the inner directory: what it names is known
					whole("what was there when it was pinned", there)
				}
				if err := s.Unpin(ctx, top, "late"); err != nil {
					t.Error(err)
				}
			}
		})
		workers.Go(func() { // reads
			for i := range 20 * rounds {
				if _, err := storetest.Get(t, s, b3.Sum(pool(i%poolSize))); err != nil &&
					status.Of(err) != status.NotFound {
					t.Error(err)
				}
			}
		})
		workers.Wait()
		done.Store(true)
		collector.Wait()
		gcAll(t, s)
		if n := s.Stats().Objects; n != 0 {
			t.Errorf("%d objects are left and nothing holds them", n)
		}
		t.Logf("%d collections removed %d objects", cycles, removed)
		if removed == 0 {
			t.Error("nothing was ever removed while it ran")
		}
	})
}
