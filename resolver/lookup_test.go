package resolver

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"allium/protocols/status"
)

// providers collects what Providers yields.
func (w *world) providers(t *testing.T, b *blob, opt ProvidersOptions) (ids []peer.ID, err error) {
	t.Helper()
	for p, e := range w.Providers(t.Context(), b.root, opt) {
		if e != nil {
			return ids, e
		}
		ids = append(ids, p.Addr.ID)
	}
	return ids, nil
}

func TestLookupsAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		known, unknown := randomBlob(40, 10), randomBlob(41, 10)
		w.has([]peer.ID{"a", "b"}, known)
		look := func(b *blob, opt ProvidersOptions, found, calls int) {
			t.Helper()
			ids, err := w.providers(t, b, opt)
			if err != nil || len(ids) != found {
				t.Errorf("found %v, %v", ids, err)
			}
			if n := w.finder.count(); n != calls {
				t.Errorf("%d lookups so far, want %d", n, calls)
			}
		}
		look(known, ProvidersOptions{}, 2, 1)
		look(known, ProvidersOptions{Limit: 1}, 1, 1)
		look(unknown, ProvidersOptions{}, 0, 2)
		look(unknown, ProvidersOptions{}, 0, 2)
		time.Sleep(w.cfg.NegativeTTL)
		look(unknown, ProvidersOptions{}, 0, 3)
		look(known, ProvidersOptions{}, 2, 3)
		look(known, ProvidersOptions{Fresh: true}, 2, 4)
		time.Sleep(w.cfg.PositiveTTL)
		look(known, ProvidersOptions{}, 2, 5)
		if h, m := testutil.ToFloat64(w.m.hits), testutil.ToFloat64(w.m.misses); h != 3 || m != 5 {
			t.Errorf("%v hits, %v misses; want 3 and 5", h, m)
		}
		time.Sleep(3 * w.cfg.PositiveTTL)
		synctest.Wait()
		w.lookups.mu.Lock()
		defer w.lookups.mu.Unlock()
		if n := w.lookups.cache.Len(); n != 0 {
			t.Errorf("%d expired lookups are still held", n)
		}
	})
}

func TestLookupsAreBounded(t *testing.T) {
	w := newWorld(t, func(c *Config, _ *Deps) { c.CacheEntries = 5 })
	for i := range uint64(50) {
		if _, err := w.providers(t, randomBlob(i, 10), ProvidersOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.lookups.cache.Len(); n != 5 {
		t.Errorf("%d lookups are held, want 5", n)
	}
	many := randomBlob(1, 20)
	for i := range 100 {
		w.finder.who[many.root] = append(w.finder.who[many.root], peer.ID(rune('A'+i)))
	}
	if ids, err := w.providers(t, many, ProvidersOptions{Limit: 1000}); err != nil || len(ids) != maxProviders {
		t.Errorf("%d providers, %v", len(ids), err)
	}
}

func TestOneLookupForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		b := randomBlob(42, 10)
		w.finder.delay = 100 * time.Millisecond
		w.has([]peer.ID{"a", "b", "c"}, b)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if ids, err := w.providers(t, b, ProvidersOptions{}); err != nil || len(ids) != 3 {
					t.Errorf("%v, %v", ids, err)
				}
			})
		}
		wg.Wait()
		if n := w.finder.count(); n != 1 {
			t.Errorf("%d lookups", n)
		}
	})
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
		if ids, err := w.providers(t, b, ProvidersOptions{}); err != nil || len(ids) != 1 || time.Since(begun) != 0 {
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
			if d := time.Since(begun); d != w.cfg.Deadline {
				t.Errorf("gave up after %s", d)
			}
			if n := testutil.ToFloat64(w.m.deadlineHits); n != 1 {
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
		if _, err := w.providers(t, b, ProvidersOptions{}); err != nil {
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

func TestTooManyLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *Config, _ *Deps) { c.Lookups = 1 })
		w.finder.hang = true
		var wg sync.WaitGroup
		outcomes := make([]status.Outcome, 520)
		for i := range outcomes {
			wg.Go(func() {
				_, err := w.providers(t, randomBlob(uint64(i), 32), ProvidersOptions{})
				outcomes[i] = status.Of(err)
			})
		}
		wg.Wait()
		n := map[status.Outcome]int{}
		for _, o := range outcomes {
			n[o]++
		}
		if n[status.Busy] != 520-513 || n[status.Timeout] != 513 {
			t.Errorf("got %v", n)
		}
	})
}
