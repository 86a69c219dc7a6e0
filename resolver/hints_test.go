package resolver

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/record"
	"allium/protocols/status"
)

// hintBook is who announced what.
type hintBook struct {
	mu  sync.Mutex
	who map[b3.Root][]peer.ID
}

func (h *hintBook) tell(root b3.Root, who ...peer.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.who == nil {
		h.who = map[b3.Root][]peer.ID{}
	}
	h.who[root] = who
}

func (h *hintBook) hints(root b3.Root) (out []record.Provider) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.who[root] {
		out = append(out, record.Provider{AddrInfo: peer.AddrInfo{ID: p}})
	}
	return out
}

// hinted is a world with a book of hints.
func hinted(t testing.TB) (*world, *hintBook) {
	book := &hintBook{}
	return newWorld(t, func(_ *Config, d *Deps) { d.Hints = book.hints }), book
}

func (w *world) drawn(t testing.TB, o record.Origin) float64 {
	return w.counter(t, "resolver_sources_total", string(o))
}

// TestHintsComeFirst: with a hint that holds, a fetch asks the DHT nothing.
func TestHintsComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, book := hinted(t)
		b := randomBlob(60, 100_000)
		w.net.peer("a", b)
		w.finder.hang = true
		book.tell(b.root, "a")
		if err := w.fetch(t, b); err != nil {
			t.Fatal(err)
		}
		if n := w.finder.count(); n != 0 || w.drawn(t, record.OriginGossip) != 1 || w.drawn(t, record.OriginDHT) != 0 {
			t.Errorf("%d lookups; %v of gossip, %v of the DHT", n, w.drawn(t, record.OriginGossip),
				w.drawn(t, record.OriginDHT))
		}
	})
}

// TestWrongHint costs one failed try, and the DHT has the last word.
func TestWrongHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, book := hinted(t)
		b := randomBlob(61, 1000)
		w.net.peer("liar")
		w.net.peer("a", b)
		w.has([]peer.ID{"a"}, b)
		book.tell(b.root, "liar", "self")
		if err := w.fetch(t, b); err != nil {
			t.Fatal(err)
		}
		if w.drawn(t, record.OriginGossip) != 1 || w.drawn(t, record.OriginDHT) != 1 {
			t.Errorf("%v of gossip, %v of the DHT", w.drawn(t, record.OriginGossip), w.drawn(t, record.OriginDHT))
		}
	})
}

// TestSilentHints: however many announce an object and do not answer, whom the
// DHT finds has a place among those that are waited for.
func TestSilentHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, book := hinted(t)
		b := randomBlob(67, 1000)
		var liars []peer.ID
		for i := range 20 {
			id := peer.ID(fmt.Sprint("liar", i))
			w.net.peer(id).latency = time.Hour
			liars = append(liars, id)
		}
		book.tell(b.root, liars...)
		w.net.peer("a", b)
		w.has([]peer.ID{"a"}, b)
		start := time.Now()
		if err := w.fetch(t, b); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("they cost %s", d)
		}
	})
}

// TestManyHints: those that are not among the first are asked after the DHT.
func TestManyHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, book := hinted(t)
		b := randomBlob(68, 1000)
		for _, id := range []peer.ID{"x", "y", "z"} {
			w.net.peer(id)
		}
		w.net.peer("a", b)
		w.has([]peer.ID{"z"}, b)
		book.tell(b.root, "x", "y", "a")
		if err := w.fetch(t, b); err != nil {
			t.Fatal(err)
		}
		if w.drawn(t, record.OriginGossip) != 3 || w.drawn(t, record.OriginDHT) != 1 {
			t.Errorf("%v of gossip, %v of the DHT", w.drawn(t, record.OriginGossip), w.drawn(t, record.OriginDHT))
		}
	})
}

// TestLateHint: what is announced while the DHT is asked, in vain, is found.
func TestLateHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, book := hinted(t)
		b := randomBlob(62, 1000)
		w.net.peer("a", b)
		w.finder.hang = true // until the deadline
		var told sync.WaitGroup
		told.Go(func() {
			time.Sleep(w.cfg.Load().Deadline / 2)
			book.tell(b.root, "a")
		})
		err := w.fetch(t, b)
		told.Wait()
		if err != nil {
			t.Fatal(err)
		}
		// A failed lookup is remembered, which keeps no announcement from being used.
		c := randomBlob(63, 1000)
		w.net.peer("b", c)
		if err := w.fetch(t, c); status.Of(err) != status.Timeout {
			t.Fatalf("nobody has it, and it ended with %v", err)
		}
		book.tell(c.root, "b")
		if err := w.fetch(t, c); err != nil {
			t.Errorf("remembered to have no provider: %v", err)
		}
	})
}

// TestHintsOfTheParent serve for what lies below it.
func TestHintsOfTheParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, book := hinted(t)
		dir, b := randomBlob(64, 10), randomBlob(65, 1000)
		w.net.peer("a", b)
		book.tell(dir.root, "a")
		if _, err := w.Fetch(t.Context(), b.root, FetchOptions{Sources: Sources{Via: dir.root}}); err != nil {
			t.Fatal(err)
		}
		if n := w.finder.count(); n != 0 {
			t.Errorf("%d lookups", n)
		}
	})
}

// TestProvidersSayWhereFrom ranks what the DHT knows and the hints, each peer once.
func TestProvidersSayWhereFrom(t *testing.T) {
	w, book := hinted(t)
	b := randomBlob(66, 10)
	w.has([]peer.ID{"a", "b", "c"}, b)
	book.tell(b.root, "x", "b")
	list := func(q Query) (got []string) {
		a, err := w.Resolve(t.Context(), b.root, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range a.Providers {
			got = append(got, string(p.ID)+" "+string(p.Origin))
		}
		return got
	}
	for _, tc := range []struct {
		opt  Query
		want []string
	}{
		{Query{}, []string{"x gossip", "b gossip"}},
		{Query{All: true}, []string{"x gossip", "b gossip", "a dht", "c dht"}},
		{Query{Limit: 2, All: true}, []string{"x gossip", "b gossip"}},
		{Query{Limit: 3, All: true}, []string{"x gossip", "b gossip", "a dht"}},
		{Query{Fresh: true, All: true}, []string{"a dht", "b dht", "c dht"}},
	} {
		if got := list(tc.opt); !slices.Equal(got, tc.want) {
			t.Errorf("%+v: %q, want %q", tc.opt, got, tc.want)
		}
	}
}
