package hints

import (
	"bytes"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"pgregory.net/rapid"

	"allium/internal/heaviest"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// check finds a broken invariant.
func (m *memory) check(t interface {
	Helper()
	Fatalf(string, ...any)
}) {
	t.Helper()
	var bytes int64
	hints, per, brought := 0, map[holderKey]int64{}, map[string]int64{}
	for s, h := range m.slots {
		if m.ids[h.id] != h || h.slot != s || !slices.Contains(h.from.held, h) || h.from.provider != s.provider {
			t.Fatalf("%v is lost", s)
		}
		bytes += h.size()
		hints += h.count()
		per[h.holder()] += h.size()
		h.each(func(r b3.Root) {
			if !slices.Contains(m.roots[r], h) {
				t.Fatalf("a hint of %v is lost", s)
			}
		})
	}
	named := 0
	for _, hs := range m.roots {
		named += len(hs)
	}
	if bytes != m.bytes || hints != m.hints || named != hints || len(m.ids) != len(m.slots) ||
		len(m.most) != len(m.origins) {
		t.Fatalf("%d bytes of %d, %d hints of %d and %d", m.bytes, bytes, m.hints, hints, named)
	}
	if bytes > m.maxBytes || len(m.slots) > m.maxN {
		t.Fatalf("%d bytes, %d announcements", bytes, len(m.slots))
	}
	for p, h := range m.holders {
		if h.bytes != per[p] || h.holderKey != p || len(h.held) == 0 || h.of.most[h.at] != h {
			t.Fatalf("%v has %d bytes of %d", p, h.bytes, per[p])
		}
		if m.beyond(h) {
			t.Fatalf("%v has more than its share: %d announcements, %d bytes", p, len(h.held), h.bytes)
		}
		if h.bytes > h.of.most[0].bytes {
			t.Fatalf("%v has more than the one with the most", p)
		}
		brought[p.origin] += h.bytes
	}
	for name, o := range m.origins {
		if o.bytes != brought[name] || o.bytes == 0 || m.most[o.at] != o || o.bytes > m.most[0].bytes {
			t.Fatalf("%s brought %d bytes of %d", name, o.bytes, brought[name])
		}
	}
}

// TestMemoryProperty: whatever comes in whatever order, the bounds hold, and of
// a slot the newest one that was taken is there until it is dropped or expires.
func TestMemoryProperty(tt *testing.T) {
	var who []identity
	for i := range 6 {
		who = append(who, fixedIdentity(tt, i))
	}
	rapid.Check(tt, func(t *rapid.T) {
		m := newMemory(16, 12_000)
		newest := map[slot]uint64{}
		at := now
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { m.check(t) },
			"put": func(t *rapid.T) {
				me := who[rapid.IntRange(0, len(who)-1).Draw(t, "who")]
				first := rapid.IntRange(0, 8).Draw(t, "first")
				a := me.announce(
					tt,
					rapid.Uint64Range(1, 6).Draw(t, "batch"),
					rapid.Uint64Range(1, 5).Draw(t, "seq"),
					at.Add(
						time.Duration(rapid.IntRange(-1, 100).Draw(t, "life"))*time.Second,
					),
					roots(first, first+rapid.IntRange(0, 4).Draw(t, "n"))...)
				from := rapid.SampledFrom([]via{viaGossip, viaSync}).Draw(t, "from")
				a.origin = rapid.SampledFrom([]string{"", "8.8.0.0/16", "66.0.0.0/16"}).Draw(t, "origin")
				before := maps.Clone(m.slots)
				fresh, err := m.put(a, from, at)
				switch o := status.Of(err); {
				case fresh:
					if old := before[a.slot]; old != nil && !a.newer(old.announcement) || m.slots[a.slot].id != a.id {
						t.Fatalf("an older one replaced %+v", old)
					}
					newest[a.slot] = a.seq
				case o == status.OK:
					if before[a.slot] == nil || before[a.slot].id != a.id {
						t.Fatal("not here, and not fresh")
					}
				case o == status.Stale:
					if a.notAfter.After(at) && newest[a.slot] < a.seq {
						t.Fatalf("stale after %d", newest[a.slot])
					}
				case o != status.Quota:
					t.Fatal(err)
				}
				if from == viaSync {
					for s, h := range before {
						if s != a.slot && m.slots[s] != h {
							t.Fatal("a comparison pushed another out")
						}
					}
				}
			},
			"look": func(t *rapid.T) {
				r := root(rapid.IntRange(0, 12).Draw(t, "root"))
				self := who[0].id
				found := m.providers(r, self, 3, at)
				seen := map[peer.ID]bool{}
				for _, a := range found {
					if a.provider == self || seen[a.provider] || !a.notAfter.After(at) {
						t.Fatalf("found %+v", a)
					}
					seen[a.provider] = true
				}
				others := map[peer.ID]bool{}
				for _, h := range m.roots[r] {
					if h.provider != self && h.notAfter.After(at) {
						others[h.provider] = true
					}
				}
				if len(found) != min(len(others), 3) {
					t.Fatalf("found %d of %d", len(found), len(others))
				}
			},
			"later": func(t *rapid.T) { at = at.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "s")) * time.Second) },
			"sweep": func(t *rapid.T) {
				m.sweep(at)
				if len(m.live(at)) != len(m.slots) {
					t.Fatal("an expired one is left")
				}
			},
		})
	})
}

// TestAddressesAreCounted: addresses of many short parts, of which each takes a
// structure, are paid for.
func TestAddressesAreCounted(t *testing.T) {
	a := fixedIdentity(t, 1).make(1, 1, time.Now().Add(time.Hour), root(1))
	a.addrs = slices.Repeat([]ma.Multiaddr{ma.StringCast(strings.Repeat("/quic", 40))}, maxAddrs)
	if err := a.seal(fixedIdentity(t, 1).key); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	const n = 200
	kept := make([]*announcement, n)
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range kept {
		var err error
		if kept[i], err = verify(bytes.Clone(a.envelope), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	took := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	if counted := n * kept[0].size(); took > counted*3/2 {
		t.Errorf("%d announcements take %d bytes, and are counted as %d", n, took, counted)
	}
	runtime.KeepAlive(kept)
}

// TestOneLiarDoesNotFlushTheOthers: who announces without end displaces itself
// alone.
func TestOneLiarDoesNotFlushTheOthers(t *testing.T) {
	const n = 800
	m := newMemory(n, 1<<20)
	hour := now.Add(time.Hour)
	for i := range 100 {
		if _, err := m.put(fixedIdentity(t, 1000+i).announce(t, 1, 1, hour, root(i)), viaGossip, now); err != nil {
			t.Fatal(err)
		}
	}
	liar := fixedIdentity(t, 1)
	for i := range 1000 {
		if _, err := m.put(liar.announce(t, uint64(i), 1, hour, root(0), root(i)), viaGossip, now); err != nil {
			t.Fatal(err)
		}
	}
	m.check(t)
	for i := range 100 {
		honest := fixedIdentity(t, 1000+i).id
		if !slices.ContainsFunc(
			m.providers(root(i), "", maxHints, now),
			func(a *announcement) bool { return a.provider == honest },
		) {
			t.Errorf("the hint of %d is gone", i)
		}
	}
	if got := len(m.holders[holderKey{provider: liar.id}].held); got != n/shareOf {
		t.Errorf("%d announcements of the liar are held", got)
	}
	if got := m.holders[holderKey{provider: liar.id}].held; got[0].batch != 1000-n/shareOf {
		t.Errorf("its oldest is %d: not the newest were kept", got[0].batch)
	}
}

// TestFullMemoryTakesFromTheLargest fills the memory by many, one of whom has
// more than the others.
func TestFullMemoryTakesFromTheLargest(t *testing.T) {
	m := newMemory(80, 1<<20)
	hour := now.Add(time.Hour)
	large := fixedIdentity(t, 1)
	put := func(who identity, batch int, from via) error {
		_, err := m.put(who.announce(t, uint64(batch), 1, hour, root(batch)), from, now)
		return err
	}
	for i := range 10 {
		if err := put(large, i, viaGossip); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 70 {
		if err := put(fixedIdentity(t, 100+i), 1, viaGossip); err != nil {
			t.Fatal(err)
		}
	}
	if err := put(fixedIdentity(t, 500), 1, viaSync); status.Of(err) != status.Quota {
		t.Errorf("a comparison brought one beyond the room: %v", err)
	}
	for i := range 9 {
		if err := put(fixedIdentity(t, 600+i), 1, viaGossip); err != nil {
			t.Fatal(err)
		}
	}
	m.check(t)
	if len(m.holders) != 80 || len(m.holders[holderKey{provider: large.id}].held) != 1 {
		t.Errorf("%d providers, the large one has %d", len(m.holders),
			len(m.holders[holderKey{provider: large.id}].held))
	}
	if !heapHolds(m.most[0].most) {
		t.Error("the heap is none")
	}
}

func heapHolds(h heaviest.Heap[*holder]) bool {
	for i, x := range h {
		if *x.Place() != i || i > 0 && h[(i-1)/2].bytes < x.bytes {
			return false
		}
	}
	return true
}

func BenchmarkPut(b *testing.B) {
	m := newMemory(20_000, 32<<20)
	var all []*announcement
	for i := range 10_000 {
		all = append(all, fixedIdentity(b, i%500).announce(b, uint64(i), 1, now.Add(time.Hour), root(i)))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%len(all) == 0 {
			m = newMemory(20_000, 32<<20)
		}
		if _, err := m.put(all[i%len(all)], viaGossip, now); err != nil {
			b.Fatal(err)
		}
	}
}

// TestFreeIdentitiesDoNotFlushTheOthers: a network that brings announcements of
// ever new identities displaces what it brought itself.
func TestFreeIdentitiesDoNotFlushTheOthers(t *testing.T) {
	const n = 200
	m := newMemory(n, 1<<20)
	hour := now.Add(time.Hour)
	honest := fixedIdentity(t, 1)
	for i := range 20 {
		a := honest.announce(t, uint64(i), 1, hour, root(i))
		a.origin = "8.8.0.0/16"
		if _, err := m.put(a, viaGossip, now); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 400 {
		a := fixedIdentity(t, 1000+i).announce(t, 1, 1, hour, root(i))
		a.origin = "66.0.0.0/16"
		if _, err := m.put(a, viaGossip, now); err != nil {
			t.Fatal(err)
		}
	}
	m.check(t)
	for i := range 20 {
		if !slices.ContainsFunc(
			m.providers(root(i), "", maxHints, now),
			func(a *announcement) bool { return a.provider == honest.id },
		) {
			t.Errorf("hint %d is gone", i)
		}
	}
	if got := len(m.slots); got != n {
		t.Errorf("%d announcements are held", got)
	}
}
