package resolver

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/resolver/trace"
)

// providers resolves an object to its providers.
func (w *world) providers(t *testing.T, b *blob, q Query) (ids []peer.ID, err error) {
	t.Helper()
	a, err := w.Resolve(t.Context(), b.root, q)
	for _, p := range a.Providers {
		ids = append(ids, p.ID)
	}
	return ids, err
}

// A provider is asked as soon as it is found, and the search ends with its last
// user; what it found until then is remembered.
func TestProvidersAreUsedAsTheyArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		b := randomBlob(43, 10)
		w.net.peer("a", b)
		w.finder.delay = 300 * time.Millisecond
		w.has([]peer.ID{"a", "b", "c"}, b)
		begun := time.Now()
		if err := w.fetch(t, b); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begun); d != 300*time.Millisecond {
			t.Errorf("took %s", d)
		}
		synctest.Wait()
		begun = time.Now()
		if ids, err := w.providers(t, b, Query{}); err != nil || len(ids) != 1 || time.Since(begun) != 0 {
			t.Errorf("got %v, %v after %s", ids, err, time.Since(begun))
		}
	})
}

func TestNobodyHasIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		b := randomBlob(44, 10)
		err := w.fetch(t, b)
		if status.Of(err) != status.NotFound || !strings.Contains(err.Error(), "no provider found") {
			t.Errorf("got %v", err)
		}
		var e *status.Error
		if !errors.As(err, &e) || e.LookupID == "" {
			t.Error("no lookup id")
		}
	})
	t.Run("in time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil)
			b := randomBlob(45, 10)
			w.finder.hang = true
			begun := time.Now()
			if err := w.fetch(t, b); status.Of(err) != status.Timeout {
				t.Errorf("got %v", err)
			}
			if d := time.Since(begun); d != w.cfg.Load().Deadline {
				t.Errorf("gave up after %s", d)
			}
			if n := w.counter(t, "resolve_deadline_hit_total"); n != 1 {
				t.Errorf("resolve_deadline_hit_total is %v", n)
			}
		})
	})
	t.Run("because the search failed", func(t *testing.T) {
		w := newWorld(t, nil)
		b := randomBlob(46, 10)
		w.finder.err = status.Errorf(status.NoBootstrap, "no peers")
		if err := w.fetch(t, b); status.Of(err) != status.NoBootstrap {
			t.Errorf("got %v", err)
		}
		w.finder.err = nil
		if _, err := w.providers(t, b, Query{}); status.Of(err) != status.NotFound {
			t.Errorf("the failure was remembered: %v", err)
		}
	})
	t.Run("an error beside a provider", func(t *testing.T) {
		w := newWorld(t, nil)
		b := randomBlob(47, 10)
		w.net.peer("a", b)
		w.has([]peer.ID{"a"}, b)
		w.finder.err = status.Errorf(status.Timeout, "one probe was lost")
		if err := w.fetch(t, b); err != nil {
			t.Error(err)
		}
	})
}

// A search that was given up does not answer those who come after.
func TestAbandonedLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		b := randomBlob(48, 10)
		w.finder.hang, w.finder.linger = true, time.Second
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = w.Fetch(ctx, b.root, FetchOptions{}) })
		synctest.Wait()
		cancel()
		synctest.Wait()
		w.finder.mu.Lock()
		w.finder.hang = false
		w.finder.mu.Unlock()
		w.has([]peer.ID{"a"}, b)
		w.net.peer("a", b)
		if err := w.fetch(t, b); err != nil {
			t.Errorf("got %v", err)
		}
		wg.Wait()
	})
}

// TestResolveIsRecorded: an answer and an error name their lookup, which says what was
// asked.
func TestResolveIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		b := randomBlob(49, 10)
		w.has([]peer.ID{"a"}, b)
		for _, cached := range []bool{false, true} {
			a, err := w.Resolve(t.Context(), b.root, Query{})
			rec, ok := w.ring.Get(a.LookupID)
			if err != nil || !ok || rec.Outcome != status.OK {
				t.Fatalf("%+v, %v: recorded %+v", a, err, rec)
			}
			last := rec.Steps[len(rec.Steps)-1]
			if cached != (last.Source == trace.Cache && last.Verdict == trace.Hit && last.Count == 1) {
				t.Errorf("the last step is %+v", last)
			}
			if cached != (len(rec.Searches) == 0) || !cached && rec.Searches[0].Found != 1 {
				t.Errorf("the searches are %+v", rec.Searches)
			}
		}
		_, err := w.Resolve(t.Context(), randomBlob(50, 10).root, Query{})
		id, _ := status.ParseLookupID(status.LookupOf(err))
		if rec, ok := w.ring.Get(id); status.Of(err) != status.NotFound || !ok || rec.Outcome != status.NotFound {
			t.Errorf("%v: recorded %+v", err, rec)
		}
	})
}

// BenchmarkCachedResolve measures a hit through the resolver's API, record included,
// beside one of the bare LRU behind a mutex.
func BenchmarkCachedResolve(b *testing.B) {
	w := newWorld(b, nil)
	roots := make([]b3.Root, 256)
	for i := range roots {
		blob := randomBlob(uint64(1000+i), 10)
		w.has([]peer.ID{"a", "b", "c"}, blob)
		roots[i] = blob.root
		if _, err := w.Resolve(b.Context(), roots[i], Query{}); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("resolve", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, ok, err := w.Cached(0, roots[i%len(roots)], Query{}); !ok || err != nil {
				b.Fatal(ok, err)
			}
		}
	})
	b.Run("lru", func(b *testing.B) {
		bare, err := simplelru.NewLRU[b3.Root, *Answer](len(roots), nil)
		if err != nil {
			b.Fatal(err)
		}
		for _, root := range roots {
			bare.Add(root, &Answer{Target: root})
		}
		var mu sync.Mutex
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			mu.Lock()
			if _, ok := bare.Get(roots[i%len(roots)]); !ok {
				b.Fatal("gone")
			}
			mu.Unlock()
		}
	})
}

// stuckLookups is a world in which as many lookups run and wait as may, and none ends before release is
// called. results receives the error of each.
func stuckLookups(t *testing.T) (w *world, results chan error, release func()) {
	t.Helper()
	held := make(chan struct{})
	w = newWorld(t, nil)
	w.finder.mu.Lock()
	w.finder.block = held
	w.finder.mu.Unlock()
	const all = 64 + 512
	results = make(chan error, all) // bound: one of each
	for i := range all {
		go func() {
			_, err := w.Resolve(t.Context(), randomBlob(uint64(10_000+i), 10).root, Query{Fresh: true})
			results <- err
		}()
	}
	return w, results, sync.OnceFunc(func() { close(held) })
}

// TestBusyLookups: when 64 lookups run and 512 wait, 1,000 more are refused at once with the time to wait,
// and each of the 576 gets its answer.
func TestBusyLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, results, release := stuckLookups(t)
		defer release()
		synctest.Wait()
		begun := time.Now()
		for i := range 1000 {
			_, err := w.Resolve(t.Context(), randomBlob(uint64(20_000+i), 10).root, Query{Fresh: true})
			var e *status.Error
			if !errors.As(err, &e) || e.Outcome != status.Busy || e.Limit == nil ||
				e.Limit.Name != "resolver.lookups" ||
				e.Limit.RetryAfter <= 0 {
				t.Fatalf("the lookup %d beyond the bound: %v", i, err)
			}
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("the refusals took %s", took)
		}
		release()
		for range cap(results) {
			if err := <-results; status.Of(err) != status.NotFound {
				t.Errorf("one of those that waited: %v", err)
			}
		}
	})
}
