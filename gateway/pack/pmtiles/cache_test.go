package pmtiles_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"allium/gateway/pack/packtest"
	"allium/gateway/pack/pmtiles"
	"allium/gateway/pack/tile"
	"allium/protocols/status"
)

// leafy returns an archive with leaves whose second half lies beyond the first 16 KiB, and a tile of
// a leaf in the middle.
func leafy() ([]byte, packtest.Tiles, tile.Coord) {
	tiles := packtest.Pyramid(0, 7, checkers, packtest.Named(tile.PNG, 0))
	return packtest.PMTiles(tiles, packtest.Options{Type: tile.PNG, Leaf: 512}), tiles, tile.Coord{Z: 7, X: 64, Y: 70}
}

// TestOneLoad: a leaf that many need at once is read once, also if the first of them gives up.
func TestOneLoad(t *testing.T) {
	t.Parallel()
	p, tiles, c := leafy()
	synctest.Test(t, func(t *testing.T) {
		src := &source{p: p}
		a, err := pmtiles.Open(t.Context(), src, pmtiles.NewCache(budget))
		if err != nil {
			t.Fatal(err)
		}
		reading, failing := make(chan struct{}), atomic.Bool{}
		src.before = func(ctx context.Context, off int64) error {
			select {
			case <-reading:
			case <-ctx.Done():
				return ctx.Err()
			}
			if failing.Load() {
				return status.Errorf(status.TransportDown, "gone")
			}
			return nil
		}
		src.reads.Store(0)
		first, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := a.Find(first, c); status.Of(err) != status.Canceled {
				t.Errorf("the first: %v", err)
			}
		})
		synctest.Wait()
		find := func(want status.Outcome) func() {
			return func() {
				at, err := a.Find(t.Context(), c)
				if status.Of(err) != want || err == nil && at.Length != int64(len(tiles[c])) {
					t.Errorf("%+v, %v", at, err)
				}
			}
		}
		for range 50 {
			wg.Go(find(status.OK))
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(reading)
		wg.Wait()
		if n := src.reads.Load(); n != 1 {
			t.Errorf("%d reads", n)
		}

		// A failure is that of all who wait, and not remembered.
		failing.Store(true)
		c = tile.Coord{Z: 7, X: 100, Y: 10}
		reading = make(chan struct{})
		src.reads.Store(0)
		for range 10 {
			wg.Go(find(status.TransportDown))
		}
		synctest.Wait()
		close(reading)
		wg.Wait()
		if n := src.reads.Load(); n != 1 {
			t.Errorf("%d failed reads", n)
		}
		failing.Store(false)
		find(status.OK)()

		// A read that all have given up is canceled, and Close waits for it.
		c = tile.Coord{Z: 7, X: 10, Y: 10}
		reading = make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		canceled := errors.New("not canceled")
		src.before = func(ctx context.Context, _ int64) error {
			<-ctx.Done()
			<-reading
			canceled = ctx.Err()
			return canceled
		}
		for range 3 {
			wg.Go(func() {
				if _, err := a.Find(ctx, c); status.Of(err) != status.Canceled {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		cancel()
		wg.Wait()
		closed := false
		wg.Go(func() { a.Close(); closed = true })
		synctest.Wait()
		if closed {
			t.Error("Close did not wait")
		}
		close(reading)
		wg.Wait()
		if !errors.Is(canceled, context.Canceled) {
			t.Error(canceled)
		}
	})
}

// TestPanic: a source that panics fails those who wait.
func TestPanic(t *testing.T) {
	t.Parallel()
	p, _, c := leafy()
	a, src := open(t, p)
	src.before = func(context.Context, int64) error { panic("broken") }
	if _, err := a.Find(t.Context(), c); status.Of(err) != status.Internal {
		t.Error(err)
	}
	src.before = nil
	if _, err := a.Find(t.Context(), c); err != nil {
		t.Error(err)
	}
}

// TestBudget: the cache never exceeds its budget, the archives answer all the same, and Close frees.
func TestBudget(t *testing.T) {
	t.Parallel()
	p, tiles, _ := leafy()
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.Int64Range(0, 200_000).Draw(rt, "budget")
		c := pmtiles.NewCache(size)
		var archives []*pmtiles.Archive
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch n := len(archives); {
			case n == 0 || n < 3 && rapid.IntRange(0, 9).Draw(rt, "open") == 0:
				a, err := pmtiles.Open(t.Context(), &source{p: p}, c)
				if err != nil {
					rt.Fatal(err)
				}
				archives = append(archives, a)
			case rapid.IntRange(0, 19).Draw(rt, "close") == 0:
				archives[n-1].Close()
				archives = archives[:n-1]
			default:
				a := archives[rapid.IntRange(0, n-1).Draw(rt, "archive")]
				at := tile.Coord{Z: 7, X: rapid.Uint32Range(0, 127).Draw(rt, "x"), Y: rapid.Uint32Range(0, 127).Draw(rt, "y")}
				got, err := read(t.Context(), a, at)
				if string(got) != string(tiles[at]) || err != nil && tiles[at] != nil {
					rt.Fatalf("tile %s is %q, %v", at, got, err)
				}
			}
			if c.Used() > size {
				rt.Fatalf("%d bytes of %d", c.Used(), size)
			}
		}
		for _, a := range archives {
			a.Close()
		}
		if c.Used() != 0 {
			rt.Fatalf("%d bytes are left", c.Used())
		}
	})
}

// TestRecent: the least recently used directory is dropped.
func TestRecent(t *testing.T) {
	t.Parallel()
	p, _, _ := leafy()
	src := &source{p: p}
	a, err := pmtiles.Open(t.Context(), src, pmtiles.NewCache(45_000)) // the root and three leaves of 12 KiB
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for _, step := range []struct {
		id    uint64 // of the first tiles of zoom 7, each in a leaf of its own
		reads int64
	}{{0, 1}, {2048, 1}, {4096, 1}, {0, 0}, {6144, 1}, {0, 0}, {4096, 0}, {6144, 0}, {2048, 1}} {
		src.reads.Store(0)
		c := pmtiles.CoordOf(5461 + step.id)
		if _, err := a.Find(t.Context(), c); src.reads.Load() != step.reads {
			t.Errorf("tile %s: %d reads, want %d: %v", c, src.reads.Load(), step.reads, err)
		}
	}
}

// TestConcurrently reads from two archives through a cache that is too small.
func TestConcurrently(t *testing.T) {
	t.Parallel()
	p, tiles, _ := leafy()
	c := pmtiles.NewCache(40_000)
	var wg sync.WaitGroup
	for range 2 {
		a, err := pmtiles.Open(t.Context(), &source{p: p}, c)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		for range 4 {
			wg.Go(func() {
				n := 0
				for at, want := range tiles { // in a random order
					if got, err := read(t.Context(), a, at); string(got) != string(want) {
						t.Errorf("tile %s is %q, %v", at, got, err)
					}
					if n++; n == 500 {
						return
					}
				}
			})
		}
	}
	wg.Wait()
	if c.Used() > 40_000 {
		t.Errorf("%d bytes", c.Used())
	}
}

// TestMounted: an open archive takes at most 64 KiB, and the directories of all no more than the cache.
func TestMounted(t *testing.T) {
	const packs, cache = 300, 1 << 20
	tiles := packtest.Pyramid(0, 6, checkers, packtest.Named(tile.PNG, 0))
	src := &source{p: packtest.PMTiles(tiles, packtest.Options{Type: tile.PNG, Gzip: true})} // all in the root
	c := pmtiles.NewCache(cache)
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // what pools still hold
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	archives := make([]*pmtiles.Archive, packs)
	for i := range archives {
		var err error
		if archives[i], err = pmtiles.Open(t.Context(), src, c); err != nil {
			t.Fatal(err)
		}
	}
	n := heap() - before
	if n > cache+cache/4+packs*4<<10 {
		t.Errorf("%d archives take %d bytes", packs, n)
	}
	if c.Used() < cache/2 {
		t.Errorf("the cache has %d bytes: the test proves nothing", c.Used())
	}
	runtime.KeepAlive(archives)
}
