package dht

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/libp2p/go-libp2p/core/peer"
	"pgregory.net/rapid"

	"allium/internal/env"
	"allium/protocols/b3"
	"allium/protocols/dht/messages"
	"allium/protocols/dht/namestore"
)

// plain is a record as the store sees it, from an address that is in no group;
// the store verifies nothing.
func plain(provider peer.ID, r b3.Root, seq uint64, notAfter time.Time) sourced {
	return sourced{messages.Sealed{
		Record:   messages.Record{Root: r, Provider: provider, Seq: seq, NotAfter: notAfter},
		Addrs:    peer.PeerRecord{PeerID: provider, Seq: seq},
		Envelope: fmt.Appendf(nil, "%s %s %d", provider, r, seq), PeerRecord: fmt.Appendf(nil, "%s %d", provider, seq),
	}, source{group: "peer " + string(provider)}}
}

func TestStoreReplacesAndRefuses(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	hour := now.Add(time.Hour)
	p := newProviderStore(2, 3, 4)
	put := func(want messages.Refusal, provider, key string, seq uint64, end time.Time) {
		t.Helper()
		err := p.put(plain(peer.ID(provider), root(key), seq, end), now)
		if (err == nil) != (want == "") || messages.RefusalOf(err) != want {
			t.Fatalf("%s for %s, seq %d: got %v, want %q", provider, key, seq, err, want)
		}
	}
	put("", "a", "x", 5, hour)
	put("", "a", "x", 5, hour) // the same again
	put(messages.Stale, "a", "x", 4, hour)
	put("", "a", "x", 6, hour)
	if got := p.get(root("x"), 9, now); len(got) != 1 || got[0].Seq != 6 {
		t.Fatalf("got %+v", got)
	}
	put("", "b", "x", 1, hour.Add(time.Minute))
	put(messages.Full, "c", "x", 1, hour.Add(time.Hour)) // who lives longer pushes nobody out
	put("", "b", "y", 1, hour)
	put("", "b", "z", 1, hour)
	put(messages.Full, "b", "w", 1, hour) // perPeer
	put("", "d", "w", 1, hour)            // total: b has most, and loses its newest
	put(messages.Full, "d", "v", 1, hour) // b has no more than d would have
	if got := p.get(root("z"), 9, now); len(got) != 0 {
		t.Fatalf("got %+v", got)
	}
	put("", "b", "x", 2, hour) // renewing is not limited
	if got := p.len(); got != 4 {
		t.Fatalf("%d records", got)
	}
	// Room is made of what has expired.
	now = hour.Add(2 * time.Minute)
	put("", "d", "v", 1, now.Add(time.Hour))
	if got := p.len(); got != 1 {
		t.Fatalf("%d records are left", got)
	}
}

// TestStoreKeepsNewestAddresses: one peer record per provider, never an older.
func TestStoreKeepsNewestAddresses(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	p := newProviderStore(20, 20, 20)
	for _, seq := range []uint64{5, 9, 7} {
		if err := p.put(plain("a", root(fmt.Sprint(seq)), seq, now.Add(time.Hour)), now); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.get(root("5"), 1, now); got[0].Addrs.Seq != 9 {
		t.Errorf("got %+v", got[0])
	}
}

// TestStoreInvariants drives the store and a plain map side by side.
func TestStoreInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		perKey, perPeer, total := rapid.IntRange(
			1,
			4,
		).Draw(
			t,
			"perKey",
		), rapid.IntRange(
			1,
			6,
		).Draw(
			t,
			"perPeer",
		), rapid.IntRange(
			1,
			12,
		).Draw(
			t,
			"total",
		)
		p := newProviderStore(perKey, perPeer, total)
		type slot struct {
			key      b3.Root
			provider peer.ID
		}
		model := map[slot]uint64{} // the highest seq accepted
		now := time.Unix(1_800_000_000, 0)
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				now = now.Add(time.Duration(rapid.IntRange(1, 100).Draw(t, "pass")) * time.Second)
			case 1:
				p.sweep(now)
			default:
				s := slot{
					root(fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "key"))),
					peer.ID(fmt.Sprint("provider ", rapid.IntRange(0, 5).Draw(t, "provider"))),
				}
				seq := rapid.Uint64Range(0, 5).Draw(t, "seq")
				end := now.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "life")) * time.Second)
				rec := plain(s.provider, s.key, seq, end)
				group := strings.Clone(rapid.SampledFrom([]string{"", "a group", "b"}).Draw(t, "group"))
				rec.source = source{group, rapid.Bool().Draw(t, "reached")}
				if p.put(rec, now) == nil {
					model[s] = seq
				}
			}
			count, peers := 0, map[peer.ID]int{}
			for key, hs := range p.keys {
				if len(hs) == 0 || len(hs) > perKey {
					t.Fatalf("%d records for one key", len(hs))
				}
				once := map[peer.ID]bool{}
				for _, h := range hs {
					if once[h.provider] {
						t.Fatal("two records of one provider for one key")
					}
					once[h.provider] = true
					if h.seq != model[slot{key, h.provider}] {
						t.Fatalf("seq %d is held, %d was accepted last", h.seq, model[slot{key, h.provider}])
					}
					peers[h.provider]++
					count++
				}
				for _, got := range p.get(key, perKey, now) {
					if got.NotAfter.Before(now) {
						t.Fatal("an expired record was given out")
					}
				}
			}
			if count != p.count || count > total {
				t.Fatalf("%d records, the count is %d of %d", count, p.count, total)
			}
			inGroups := 0
			for name, g := range p.groups {
				if g.records.Len() == 0 || g.heapIndex >= 0 && p.largest[g.heapIndex] != g {
					t.Fatalf("group %s has %d records and place %d", name, g.records.Len(), g.heapIndex)
				}
				for e := g.records.Front(); e != nil; e = e.Next() {
					h := e.Value.(*entry)
					if h.group != name || h.element != e || !slices.Contains(p.keys[h.root], h) {
						t.Fatalf("group %s has %+v", name, h)
					}
					if unsafe.StringData(h.group) != unsafe.StringData(g.name) ||
						unsafe.StringData(string(h.provider)) != unsafe.StringData(string(p.peers[h.provider].id)) {
						t.Fatalf("%+v has strings of its own", h)
					}
					inGroups++
				}
			}
			if inGroups != count {
				t.Fatalf("%d records are in groups, of %d", inGroups, count)
			}
			if len(peers) != len(p.peers) {
				t.Fatalf("%d providers are remembered, %d have records", len(p.peers), len(peers))
			}
			for id, n := range peers {
				if p.peers[id].count != n || n > perPeer {
					t.Fatalf("%s has %d records, the count is %d of %d", id, n, p.peers[id].count, perPeer)
				}
			}
		}
	})
}

// TestExpiry: a record is given out until its end, and its memory is freed by
// the janitor within a minute.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := newMetrics(nil)
		if err != nil {
			t.Fatal(err)
		}
		var doubtful atomic.Bool
		s := &Service{
			deps:  Deps{Env: env.Env{Now: time.Now}, MayExpire: func() bool { return !doubtful.Load() }},
			store: newProviderStore(20, 20, 20),
			Names: &Names{names: namestore.NewStore(namestore.DefaultConfig(), func() bool { return true })},
			m:     m,
		}
		end := time.Now().Add(90 * time.Second)
		if err := s.store.put(plain("a", root("x"), 1, end), time.Now()); err != nil {
			t.Fatal(err)
		}
		go s.janitor(t.Context())
		time.Sleep(89 * time.Second)
		if len(s.store.get(root("x"), 1, time.Now())) != 1 {
			t.Error("gone before its time")
		}
		time.Sleep(2 * time.Second)
		if len(s.store.get(root("x"), 1, time.Now())) != 0 {
			t.Error("given out after its time")
		}
		if s.store.len() != 1 {
			t.Error("the janitor runs all the time")
		}
		doubtful.Store(true)
		time.Sleep(time.Hour)
		if s.store.len() != 1 {
			t.Error("deleted by a clock that may be wrong")
		}
		doubtful.Store(false)
		time.Sleep(time.Minute)
		if s.store.len() != 0 {
			t.Error("the janitor left it")
		}
	})
}

func BenchmarkStorePut(b *testing.B) {
	p := newProviderStore(20, 1<<30, 100_000)
	now := time.Now()
	recs := make([]sourced, 100_000)
	for i := range recs {
		recs[i] = plain("a", root(fmt.Sprint(i)), 1, now.Add(time.Hour))
	}
	for i := 0; b.Loop(); i++ {
		if err := p.put(recs[i%len(recs)], now); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStoreSweep(b *testing.B) {
	p := newProviderStore(20, 1<<30, 100_000)
	now := time.Now()
	for i := range 100_000 {
		_ = p.put(plain("a", root(fmt.Sprint(i)), 1, now.Add(time.Hour)), now)
	}
	for b.Loop() {
		p.sweep(now)
	}
}

// TestIgnoredProvider: the store keeps the record of an ignored provider, for the day that ends, and tells it to
// nobody.
func TestIgnoredProvider(t *testing.T) {
	now := time.Now()
	st := newProviderStore(20, 20, 100)
	var root b3.Root
	for _, p := range []peer.ID{"good", "bad"} {
		if err := st.put(plain(p, root, 1, now.Add(time.Hour)), now); err != nil {
			t.Fatal(err)
		}
	}
	ignored := peer.ID("bad")
	st.ignores = func(p peer.ID) bool { return p == ignored }
	if got := st.get(root, 20, now); len(got) != 1 || got[0].Provider != "good" {
		t.Errorf("got %v", got)
	}
	ignored = ""
	if got := st.get(root, 20, now); len(got) != 2 {
		t.Errorf("once it is ignored no more: %v", got)
	}
}
