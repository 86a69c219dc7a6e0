package providers

import (
	"context"
	"encoding/binary"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"allium/protocols/answer"
	"allium/protocols/b3"
	"allium/protocols/record"
	"allium/protocols/status"
)

// rootOf is the root of some object.
func rootOf(i uint64) b3.Root { return b3.Sum(binary.BigEndian.AppendUint64(nil, i)) }

// fakeFinder knows who has what.
type fakeFinder struct {
	mu    sync.Mutex
	who   map[b3.Root][]peer.ID
	delay time.Duration // before each
	hang  bool          // never ends by itself
	calls int
}

func (f *fakeFinder) FindProviders(ctx context.Context, root b3.Root, _ FindOptions) iter.Seq2[record.Provider, error] {
	return func(yield func(record.Provider, error) bool) {
		f.mu.Lock()
		f.calls++
		who, delay := slices.Clone(f.who[root]), f.delay
		f.mu.Unlock()
		for _, p := range who {
			time.Sleep(delay)
			if !yield(record.Provider{AddrInfo: peer.AddrInfo{ID: p}}, nil) {
				return
			}
		}
		if f.hang {
			<-ctx.Done()
		}
	}
}

func (f *fakeFinder) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// testTasks lets goroutines start until the test ends.
type testTasks struct {
	ctx   context.Context
	wg    sync.WaitGroup
	begun atomic.Int64
}

func (t *testTasks) Context() context.Context { return t.ctx }

func (t *testTasks) Go(f func()) bool {
	t.begun.Add(1)
	t.wg.Go(f)
	return true
}

// fixture is a pool with a finder that knows who has what.
type fixture struct {
	*Pool
	finder *fakeFinder
	tasks  *testTasks
}

// newFixture makes one; change may be nil.
func newFixture(t *testing.T, change func(*Config)) *fixture {
	t.Helper()
	cfg := testConfig()
	if change != nil {
		change(&cfg)
	}
	w := &fixture{finder: &fakeFinder{who: map[b3.Root][]peer.ID{}}}
	var err error
	if w.Pool, err = New(cfg, Deps{Finder: w.finder}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.tasks = &testTasks{ctx: ctx}
	t.Cleanup(func() {
		cancel()
		w.tasks.wg.Wait()
		if n := len(w.lookups.active); n > 0 {
			t.Errorf("%d lookups are left", n)
		}
	})
	return w
}

// find resolves root to all providers that a query allows; none is no error.
func (w *fixture) find(t *testing.T, root b3.Root, q Query) (ids []peer.ID, err error) {
	t.Helper()
	q.All = true
	if q.Limit == 0 {
		q.Limit = MaxProviders
	}
	a, err := w.resolve(t, root, q)
	if status.Of(err) == status.NotFound {
		return nil, nil
	}
	for _, p := range a.Providers {
		ids = append(ids, p.ID)
	}
	return ids, err
}

// resolve resolves root.
func (w *fixture) resolve(t *testing.T, root b3.Root, q Query) (Answer, error) {
	t.Helper()
	return w.Resolve(t.Context(), w.tasks, root, q, nil)
}

func TestLookupsAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, nil)
		known, unknown := rootOf(40), rootOf(41)
		w.finder.who[known] = []peer.ID{"a", "b"}
		look := func(b b3.Root, q Query, found, calls int) {
			t.Helper()
			ids, err := w.find(t, b, q)
			if err != nil || len(ids) != found {
				t.Errorf("found %v, %v", ids, err)
			}
			if n := w.finder.count(); n != calls {
				t.Errorf("%d lookups so far, want %d", n, calls)
			}
		}
		look(known, Query{}, 2, 1)
		look(known, Query{Limit: 1}, 1, 1)
		look(unknown, Query{}, 0, 2)
		look(unknown, Query{}, 0, 2)
		time.Sleep(w.cfg.Load().NegativeTTL * 11 / 10)
		look(unknown, Query{}, 0, 3)
		look(known, Query{}, 2, 3)
		look(known, Query{Fresh: true}, 2, 4)
		time.Sleep(w.cfg.Load().PositiveTTL * 11 / 10)
		look(known, Query{}, 2, 5)
		if h, m := testutil.ToFloat64(w.m.hits), testutil.ToFloat64(w.m.misses); h != 3 || m != 5 {
			t.Errorf("%v hits, %v misses; want 3 and 5", h, m)
		}
		time.Sleep(3 * w.cfg.Load().PositiveTTL)
		w.Sweep(time.Now())
		if n, bytes := w.cache.len(), w.cache.bytes.Load(); n != 0 || bytes != 0 {
			t.Errorf("%d expired entries are still held, %d bytes", n, bytes)
		}
	})
}

func TestLookupsAreBounded(t *testing.T) {
	w := newFixture(t, func(c *Config) { c.CacheEntries = 5 })
	for i := range uint64(50) {
		if _, err := w.find(t, rootOf(i), Query{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.cache.len(); n != 5 {
		t.Errorf("%d lookups are held, want 5", n)
	}
	many := rootOf(1000)
	for i := range 100 {
		w.finder.who[many] = append(w.finder.who[many], peer.ID(rune('A'+i)))
	}
	if ids, err := w.find(t, many, Query{Limit: 1000}); err != nil || len(ids) != MaxProviders {
		t.Errorf("%d providers, %v", len(ids), err)
	}
}

func TestOneLookupForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, nil)
		b := rootOf(42)
		w.finder.delay = 100 * time.Millisecond
		w.finder.who[b] = []peer.ID{"a", "b", "c"}
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if ids, err := w.find(t, b, Query{}); err != nil || len(ids) != 3 {
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

func TestTooManyLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, func(c *Config) { c.Lookups = 1 })
		w.finder.hang = true
		var wg sync.WaitGroup
		outcomes := make([]status.Outcome, 520)
		for i := range outcomes {
			wg.Go(func() {
				_, err := w.find(t, rootOf(uint64(i)), Query{})
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

// TestCheapRefusals: while as many lookups wait as may, a refusal starts no goroutine, and what the store
// has is found all the same, by goroutines that are used again.
func TestCheapRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *Config) { c.Lookups = 1 }, hangs)
		var wg sync.WaitGroup
		for i := range 1 + lookupsWaiting {
			wg.Go(func() { _, _ = w.resolve(t, rootOf(uint64(i)), Query{Fresh: true}) })
		}
		synctest.Wait()
		stored := rootOf(5000)
		w.has = func(_ context.Context, root b3.Root) (bool, error) { return root == stored, nil }
		if _, err := w.resolve(t, rootOf(4000), Query{}); status.Of(err) != status.Busy {
			t.Fatal(err)
		}
		synctest.Wait()
		begun := w.tasks.begun.Load()
		for i := range 100 {
			if _, err := w.resolve(t, rootOf(uint64(4001+i)), Query{}); status.Of(err) != status.Busy {
				t.Fatal(err)
			}
			synctest.Wait() // the goroutine that asked the store is idle again
		}
		a, err := w.resolve(t, stored, Query{})
		want(t, "the store", a, err, record.OriginLocal, answer.Served, "self")
		if n := w.tasks.begun.Load() - begun; n != 0 {
			t.Errorf("101 requests began %d goroutines", n)
		}
		wg.Wait()
	})
}

// TestListGoesOn: a lookup that ended when its users had enough is remembered; a list that
// needs more asks the network for the others, and names each peer once.
func TestListGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, nil)
		root := rootOf(70)
		w.finder.delay = 100 * time.Millisecond
		w.finder.who[root] = []peer.ID{"a", "b"}
		read := func(n int) (ids []peer.ID) {
			list := w.Candidates(w.tasks, root, Sources{})
			defer list.Close()
			for i := range n {
				p, ok, err := list.At(t.Context(), i)
				if err != nil {
					t.Fatal(err)
				}
				if ok {
					ids = append(ids, p.ID)
				}
			}
			return ids
		}
		if got := read(1); !slices.Equal(got, []peer.ID{"a"}) {
			t.Errorf("first: %q", got)
		}
		synctest.Wait()
		begun := time.Now()
		if got := read(1); !slices.Equal(got, []peer.ID{"a"}) || time.Since(begun) != 0 || w.finder.count() != 1 {
			t.Errorf("remembered: %q after %s and %d lookups", got, time.Since(begun), w.finder.count())
		}
		if got := read(4); !slices.Equal(got, []peer.ID{"a", "b"}) || w.finder.count() != 2 {
			t.Errorf("more: %q after %d lookups", got, w.finder.count())
		}
		if got := read(4); !slices.Equal(got, []peer.ID{"a", "b"}) || w.finder.count() != 2 {
			t.Errorf("all remembered: %q after %d lookups", got, w.finder.count())
		}
	})
}
