package providers

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/protocols/answer"
	"allium/protocols/record"
	"allium/protocols/status"
)

// TestFilters: region and freshness exclude, and what they exclude does not satisfy.
func TestFilters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signed := func(id peer.ID, ago time.Duration) record.Provider {
			return record.Provider{AddrInfo: peer.AddrInfo{ID: id}, Seq: uint64(time.Now().Add(-ago).UnixMilli())}
		}
		w := newWorld(t, nil, func(_ context.Context, yield func(record.Provider, error) bool) {
			for _, p := range []record.Provider{signed("us", time.Hour), signed("eu", time.Minute)} {
				if !yield(p, nil) {
					return
				}
			}
		})
		w.about["us"], w.about["eu"] = Facts{Region: "us"}, Facts{Region: "eu"}
		root := rootOf(1)
		w.hints[root] = []record.Provider{{AddrInfo: peer.AddrInfo{ID: "g"}}}

		a, err := w.resolve(t, root, Query{Region: "us"})
		want(t, "us", a, err, record.OriginDHT, answer.Signed, "us")
		a, err = w.resolve(t, root, Query{MinFreshness: 10 * time.Minute})
		want(t, "fresh records", a, err, SourceCache, answer.Signed, "eu")
		a, err = w.resolve(t, root, Query{All: true})
		want(t, "the own region first", a, err, SourceCache, answer.Signed, "eu", "us", "g")
		if _, err = w.resolve(t, root, Query{Region: "mars"}); status.Of(err) != status.NotFound {
			t.Errorf("nobody is on Mars: %v", err)
		}
	})
}

// TestBreakerInAnswers: a provider whose breaker opens sinks in a remembered answer,
// and one whose breaker is open does not end a search.
func TestBreakerInAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, finds("a", "b"))
		root := rootOf(1)
		a, err := w.resolve(t, root, Query{})
		want(t, "before", a, err, record.OriginDHT, answer.Signed, "a", "b")
		for range 5 {
			done, err := w.peers.enter(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			done(status.Errorf(status.Timeout, "no"))
		}
		a, err = w.resolve(t, root, Query{})
		want(t, "after", a, err, SourceCache, answer.Signed, "b", "a")
		w.hints[rootOf(2)] = []record.Provider{{AddrInfo: peer.AddrInfo{ID: "a"}}}
		w.dht.answer(finds("c"))
		a, err = w.resolve(t, rootOf(2), Query{})
		want(t, "a hint of no use", a, err, record.OriginDHT, answer.Signed, "c", "a")
	})
}

// TestWrongClaims: a peer that did not have what it announced ranks lower for other
// objects, and regains its rank with time and by what it delivers.
func TestWrongClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, finds("liar", "honest"))
		order := func(name string, n uint64, peers ...string) {
			t.Helper()
			a, err := w.resolve(t, rootOf(n), Query{})
			if err != nil || !slices.Equal(ids(a), peers) {
				t.Errorf("%s: %q, %v, want %q", name, ids(a), err, peers)
			}
		}
		order("before", 1, "liar", "honest")
		w.hints[rootOf(50)] = []record.Provider{{AddrInfo: peer.AddrInfo{ID: "liar"}}}
		list := w.Candidates(w.tasks, rootOf(50), Sources{Peers: []peer.AddrInfo{{ID: "named"}}})
		defer list.Close()
		list.Refuted("named", status.Errorf(status.NotFound, "no"))
		list.Refuted("liar", status.Errorf(status.Timeout, "no"))
		order("no lie", 2, "liar", "honest")
		for range 3 {
			list.Refuted("liar", status.Errorf(status.NotFound, "no"))
		}
		order("after", 3, "honest", "liar")
		order("in the cache", 1, "honest", "liar")
		if got := w.peers.traits("liar", time.Now()).Wrong; got != 1 {
			t.Errorf("one lie counts %v", got)
		}
		if got := w.peers.traits("named", time.Now()).Wrong; got != 0 {
			t.Errorf("a peer that claimed nothing lied %v times", got)
		}
		time.Sleep(standingHalfLife)
		if got := w.peers.traits("liar", time.Now()).Wrong; got != 0.5 {
			t.Errorf("later it counts %v", got)
		}
		for range 8 {
			w.Served(rootOf(60), "liar")
		}
		if got := w.peers.traits("liar", time.Now()).Wrong; got != 0 {
			t.Errorf("after it delivered it counts %v", got)
		}
	})
}

// TestCacheBytes: the cache is bounded by bytes as well, and counts them exactly.
func TestCacheBytes(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.CacheBytes = 20_000 }, finds("a", "b", "c"))
	for i := range uint64(100) {
		if _, err := w.resolve(t, rootOf(i), Query{All: true}); err != nil {
			t.Fatal(err)
		}
		var sum int64
		for _, e := range w.cache.lru.Values() {
			sum += e.size
		}
		if got := w.cache.bytes.Load(); got != sum || got > w.cfg.Load().CacheBytes || w.cache.len() != w.cache.lru.Len() {
			t.Fatalf("%d bytes are counted, %d are held by %d entries", got, sum, w.cache.lru.Len())
		}
	}
	if n := w.cache.len(); n < 5 || n > 20 {
		t.Errorf("%d entries", n)
	}
}

// TestManyAnswersFit: 100,000 answers for what the node stores fit into 48 MiB, however many addresses it
// has, because they share its text.
func TestManyAnswersFit(t *testing.T) {
	w := newWorld(t, nil, finds())
	w.has = here
	var all []ma.Multiaddr
	for i := range 8 {
		a, err := ma.NewMultiaddr(fmt.Sprintf("/ip4/192.0.2.%d/udp/4001/quic-v1", i))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	w.about["self"] = Facts{Addrs: all}
	for i := range uint64(2) {
		w.about["self"] = Facts{Addrs: slices.Clone(all)} // as a host makes them
		if _, err := w.resolve(t, rootOf(i), Query{}); err != nil {
			t.Fatal(err)
		}
	}
	if each := w.cache.bytes.Load() / 2; each*100_000 > 48<<20 {
		t.Errorf("an answer takes %d bytes", each)
	}
	a, b := w.cache.get(rootOf(0)).ranking.providers[0], w.cache.get(rootOf(1)).ranking.providers[0]
	if len(a.Text.Addrs) != len(all) || &a.Text.Addrs[0] != &b.Text.Addrs[0] || &a.Addrs[0] != &b.Addrs[0] {
		t.Errorf("%v and %v do not share their addresses", a.Text, b.Text)
	}

	w.about["self"] = Facts{Addrs: all[:1]} // it listens elsewhere
	if c, err := w.resolve(t, rootOf(2), Query{}); err != nil || len(c.Providers[0].Text.Addrs) != 1 {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestLimitIsBounded: no query gets more providers than an answer may have.
func TestLimitIsBounded(t *testing.T) {
	many := make([]peer.ID, 100)
	for i := range many {
		many[i] = peer.ID(fmt.Sprint(i))
	}
	w := newWorld(t, nil, finds(many...))
	for limit, n := range map[int]int{0: DefaultLimit, 1: 1, 32: 32, 1000: 32, -1: DefaultLimit} {
		a, err := w.resolve(t, rootOf(1), Query{Limit: limit, All: true})
		if err != nil || len(a.Providers) != n {
			t.Errorf("limit %d: %d providers, %v", limit, len(a.Providers), err)
		}
	}
}

// TestLifetime: an answer is remembered for its time ± 10 %, and never longer than
// one of its records is valid.
func TestLifetime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		short := now.Add(3 * time.Second)
		w := newWorld(t, nil, func(_ context.Context, yield func(record.Provider, error) bool) {
			yield(record.Provider{AddrInfo: peer.AddrInfo{ID: "long"}, NotAfter: now.Add(time.Hour)}, nil)
			yield(record.Provider{AddrInfo: peer.AddrInfo{ID: "short"}, NotAfter: short}, nil)
		}, finds("d"))
		for _, wanted := range []record.Origin{record.OriginDHT, SourceCache} {
			a, err := w.resolve(t, rootOf(1), Query{})
			if err != nil || a.Source != wanted || a.TTL > time.Until(short) {
				t.Errorf("%+v, %v", a, err)
			}
			time.Sleep(2 * time.Second)
		}
		a, err := w.resolve(t, rootOf(1), Query{})
		want(t, "expired", a, err, record.OriginDHT, answer.Signed, "d")

		least, most := time.Hour, time.Duration(0)
		for i := range uint64(200) {
			a, err := w.resolve(t, rootOf(100+i), Query{})
			if err != nil {
				t.Fatal(err)
			}
			least, most = min(least, a.TTL), max(most, a.TTL)
		}
		if least < 9*time.Second || most > 11*time.Second || most-least < time.Second {
			t.Errorf("TTL from %s to %s", least, most)
		}
	})
}
