package providers

import (
	"context"
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

// scriptedFinder answers each request with the next of its answers, and repeats the
// last one.
type scriptedFinder struct {
	mu      sync.Mutex
	answers []func(ctx context.Context, yield func(record.Provider, error) bool)
	asked   []FindOptions
}

func (f *scriptedFinder) FindProviders(
	ctx context.Context, _ b3.Root, o FindOptions,
) iter.Seq2[record.Provider, error] {
	f.mu.Lock()
	defer f.mu.Unlock()
	answer := f.answers[min(len(f.asked), len(f.answers)-1)]
	f.asked = append(f.asked, o)
	return func(yield func(record.Provider, error) bool) { answer(ctx, yield) }
}

// answer sets the answers from now on.
func (f *scriptedFinder) answer(answers ...scripted) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers = answers
}

func (f *scriptedFinder) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.asked)
}

type scripted = func(context.Context, func(record.Provider, error) bool)

// finds yields providers at once, and ends.
func finds(ids ...peer.ID) scripted {
	return func(_ context.Context, yield func(record.Provider, error) bool) {
		for _, id := range ids {
			if !yield(record.Provider{AddrInfo: peer.AddrInfo{ID: id}}, nil) {
				return
			}
		}
	}
}

// fails yields an error at once, and ends.
func fails(o status.Outcome) scripted {
	return func(_ context.Context, yield func(record.Provider, error) bool) {
		yield(record.Provider{}, status.Errorf(o, "no"))
	}
}

// hangs waits for the end of the lookup.
func hangs(ctx context.Context, _ func(record.Provider, error) bool) { <-ctx.Done() }

// world is a pool whose sources a test controls.
type world struct {
	*fixture
	dht   *scriptedFinder
	has   func(context.Context, b3.Root) (bool, error)
	hints map[b3.Root][]record.Provider
	about map[peer.ID]Facts
	joins bool
}

// newWorld returns one whose store has nothing, without announcements.
func newWorld(t *testing.T, change func(*Config), answers ...scripted) *world {
	t.Helper()
	w := &world{hints: map[b3.Root][]record.Provider{}, about: map[peer.ID]Facts{}, fixture: newFixture(t, change)}
	w.dht = &scriptedFinder{answers: answers}
	p, err := New(*w.cfg.Load(), Deps{
		Finder: w.dht, Self: "self", Region: "eu",
		Has: func(ctx context.Context, root b3.Root) (bool, error) {
			if w.has == nil {
				return false, nil
			}
			return w.has(ctx, root)
		},
		Hints:   func(root b3.Root) []record.Provider { return w.hints[root] },
		About:   func(p peer.ID) Facts { return w.about[p] },
		Joining: func() bool { return w.joins },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Pool = p
	return w
}

func ids(a Answer) (all []string) {
	for _, p := range a.Providers {
		all = append(all, string(p.ID))
	}
	return all
}

// want fails unless an answer has this source, confidence and these providers.
func want(t *testing.T, name string, a Answer, err error, source record.Origin, c answer.Confidence, peers ...string) {
	t.Helper()
	if err != nil || a.Source != source || a.Confidence != c || !slices.Equal(ids(a), peers) {
		t.Errorf("%s: %+v, %v; want %s, %s, %q", name, a, err, source, c, peers)
	}
}

func here(context.Context, b3.Root) (bool, error) { return true, nil }

// TestSources asks the sources in their order, and none after the one that satisfied.
func TestSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, finds("d1", "d2"))
		root, dir := rootOf(1), rootOf(2)
		hint := record.Provider{AddrInfo: peer.AddrInfo{ID: "g"}}

		a, err := w.resolve(t, root, Query{})
		want(t, "the DHT", a, err, record.OriginDHT, answer.Signed, "d1", "d2")
		time.Sleep(time.Second)
		a, err = w.resolve(t, root, Query{Limit: 1})
		want(t, "the cache", a, err, SourceCache, answer.Signed, "d1")
		if a.Age != time.Second || a.TTL <= 7*time.Second || a.TTL > 10*time.Second {
			t.Errorf("age %s, TTL %s", a.Age, a.TTL)
		}
		a, err = w.resolve(t, root, Query{Fresh: true})
		want(t, "fresh", a, err, record.OriginDHT, answer.Signed, "d1", "d2")
		if asked := w.dht.asked; len(asked) != 2 || asked[0].Fresh || !asked[1].Fresh {
			t.Errorf("asked %+v", asked)
		}

		w.has = here
		a, err = w.resolve(t, rootOf(3), Query{})
		want(t, "the store", a, err, record.OriginLocal, answer.Served, "self")
		a, err = w.resolve(t, rootOf(3), Query{Fresh: true, PeersOnly: true})
		want(t, "not the store", a, err, record.OriginDHT, answer.Signed, "d1", "d2")
		w.has = nil

		w.hints[rootOf(4)] = []record.Provider{hint}
		a, err = w.resolve(t, rootOf(4), Query{})
		want(t, "gossip", a, err, record.OriginGossip, answer.Hint, "g")
		w.Served(dir, "p")
		a, err = w.resolve(t, rootOf(5), Query{Via: dir})
		want(t, "the parent", a, err, record.OriginServed, answer.Hint, "p")
		w.Served(rootOf(6), "s")
		a, err = w.resolve(t, rootOf(6), Query{})
		want(t, "it served", a, err, record.OriginServed, answer.Served, "s")
		if n := w.dht.count(); n != 3 {
			t.Errorf("the DHT was asked %d times", n)
		}
	})
}

// TestAllSources: a query for all goes on, and what it found answers others.
func TestAllSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, finds("d1", "g", "d2", "self"))
		root := rootOf(1)
		w.has = here
		w.hints[root] = []record.Provider{{AddrInfo: peer.AddrInfo{ID: "g"}}}
		a, err := w.resolve(t, root, Query{})
		want(t, "one is enough", a, err, record.OriginLocal, answer.Served, "self")
		a, err = w.resolve(t, root, Query{All: true})
		want(t, "all", a, err, record.OriginLocal, answer.Served, "self", "g", "d1", "d2")
		a, err = w.resolve(t, root, Query{All: true, PeersOnly: true})
		want(t, "again, without this node", a, err, SourceCache, answer.Signed, "g", "d1", "d2")
		if n := w.dht.count(); n != 1 {
			t.Errorf("the DHT was asked %d times", n)
		}
	})
}

// TestHedging: a store that does not answer is joined by the network after the
// hedge time, and a finder that hears of one provider waits no longer than that for
// others.
func TestHedging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, func(ctx context.Context, yield func(record.Provider, error) bool) {
			finds("d")(ctx, yield)
			hangs(ctx, yield)
		})
		var slow atomic.Int64
		slow.Store(int64(10 * time.Second))
		w.has = func(context.Context, b3.Root) (bool, error) {
			time.Sleep(time.Duration(slow.Load())) // deaf to its context
			return true, nil
		}
		took := func(root b3.Root, q Query) (time.Duration, Answer) {
			begun := time.Now()
			a, err := w.resolve(t, root, q)
			if err != nil {
				t.Fatal(err)
			}
			return time.Since(begun), a
		}
		if d, a := took(rootOf(1), Query{}); d != 2*w.cfg.Load().HedgeAfter || a.Source != record.OriginDHT {
			t.Errorf("took %s, source %s", d, a.Source)
		}
		if d, a := took(rootOf(2), Query{Limit: 1}); d != w.cfg.Load().HedgeAfter || a.Source != record.OriginDHT {
			t.Errorf("with one: took %s, source %s", d, a.Source)
		}
		if d, _ := took(rootOf(3), Query{All: true}); d != w.cfg.Load().Deadline {
			t.Errorf("for all: took %s", d)
		}
		slow.Store(int64(200 * time.Millisecond))
		w.dht.answer(hangs)
		if d, a := took(rootOf(4), Query{Limit: 1}); d != 200*time.Millisecond || a.Source != record.OriginLocal {
			t.Errorf("the store wins late: took %s, source %s", d, a.Source)
		}
		for i, nobody := range []scripted{finds(), fails(status.NoBootstrap)} {
			w.dht.answer(nobody)
			if d, a := took(rootOf(uint64(5+i)), Query{}); d < 200*time.Millisecond || a.Source != record.OriginLocal {
				t.Errorf("the store alone has it: took %s, source %s", d, a.Source)
			}
		}
		time.Sleep(time.Minute)
	})
}

// TestDeadline covers whatever is stuck: a finder that ignores its context, and the
// store.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *Config) { c.Lookups = 1 }, func(context.Context, func(record.Provider, error) bool) {
			time.Sleep(time.Minute) // deaf to its context
		})
		w.has = func(context.Context, b3.Root) (bool, error) { time.Sleep(time.Minute); return false, nil }
		for i := range uint64(3) { // the third waits for a permit
			begun := time.Now()
			_, err := w.resolve(t, rootOf(i), Query{All: i == 1})
			if d := time.Since(begun); status.Of(err) != status.Timeout || d != w.cfg.Load().Deadline {
				t.Errorf("%d: %v after %s", i, err, d)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		begun := time.Now()
		_, err := w.Resolve(ctx, w.tasks, rootOf(9), Query{}, nil)
		if d := time.Since(begun); status.Of(err) != status.Timeout || d != 100*time.Millisecond {
			t.Errorf("the caller's own deadline: %v after %s", err, d)
		}
		time.Sleep(5 * time.Minute)
	})
}

// TestPartInTime: what was found until the deadline is an answer.
func TestPartInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, func(ctx context.Context, yield func(record.Provider, error) bool) {
			time.Sleep(time.Second)
			finds("late")(ctx, yield)
			hangs(ctx, yield)
		})
		begun := time.Now()
		a, err := w.resolve(t, rootOf(1), Query{All: true})
		want(t, "late", a, err, record.OriginDHT, answer.Signed, "late")
		if d := time.Since(begun); d != w.cfg.Load().Deadline {
			t.Errorf("took %s", d)
		}
	})
}

// TestSharedLookup: requests for one key share a lookup, and those that give up do
// not cancel it. A fresh request shares only with fresh ones.
func TestSharedLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, func(ctx context.Context, yield func(record.Provider, error) bool) {
			time.Sleep(400 * time.Millisecond)
			if ctx.Err() == nil {
				finds("d")(ctx, yield)
			}
		})
		root := rootOf(1)
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if i%2 == 0 {
					time.AfterFunc(time.Duration(i+1)*time.Millisecond, cancel) // not before all have come
				}
				a, err := w.Resolve(ctx, w.tasks, root, Query{}, nil)
				if i%2 == 0 {
					if status.Of(err) != status.Canceled {
						t.Errorf("%d gave up: %v", i, err)
					}
				} else {
					want(t, "stays", a, err, record.OriginDHT, answer.Signed, "d")
				}
			})
		}
		wg.Go(func() { _, _ = w.resolve(t, root, Query{Fresh: true}) })
		wg.Wait()
		if n, joined := w.dht.count(), testutil.ToFloat64(w.m.joined); n != 2 || joined != 99 {
			t.Errorf("%d lookups, %v joined", n, joined)
		}
	})
}

// TestAbandoned: ten thousand callers that give up leave nothing behind.
func TestAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, hangs)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range uint64(10_000) {
			wg.Go(func() {
				if _, err := w.Resolve(ctx, w.tasks, rootOf(i%500), Query{}, nil); err == nil {
					t.Error("it found something")
				}
			})
		}
		time.Sleep(time.Millisecond)
		cancel()
		wg.Wait()
		w.tasks.wg.Wait() // every lookup ends with its last caller
		if n := len(w.lookups.active); n != 0 || w.cache.len() != 0 {
			t.Errorf("%d lookups and %d answers are left", n, w.cache.len())
		}
	})
}
