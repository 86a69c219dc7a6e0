package routing

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"pgregory.net/rapid"

	"allium/internal/ipgroup"
	"allium/protocols/kad"
)

// keyNear is a key with that many bits in common with from.
func keyNear(from kad.Key, bits int, rest uint64) kad.Key {
	key := kad.Hash(binary.BigEndian.AppendUint64(nil, rest))
	for i := range bits + 1 {
		mask := byte(0x80 >> (i % 8))
		key[i/8] = key[i/8]&^mask | from[i/8]&mask
		if i == bits {
			key[i/8] ^= mask
		}
	}
	return key
}

// put adds an entry of that key, of which there need be no peer.
func (t *Table) put(key kad.Key) kad.Peer[peer.ID] {
	e := &entry{Peer: kad.Peer[peer.ID]{ID: peer.ID(fmt.Sprintf("%x", key[:8])), Key: key}}
	e.groups.Store(new([]ipgroup.Group))
	t.bucketOf(key).publish(nil, e)
	return e.Peer
}

// Nearest is what sorting everybody gives.
func TestNearest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		table := newTable(t, numbers, newWorld().deps())
		var all []kad.Peer[peer.ID]
		for range rapid.IntRange(0, 80).Draw(t, "peers") {
			all = append(
				all,
				table.put(keyNear(table.self, rapid.IntRange(0, 40).Draw(t, "bits"), rapid.Uint64().Draw(t, "rest"))),
			)
		}
		target := keyNear(table.self, rapid.IntRange(0, 40).Draw(t, "target bits"), rapid.Uint64().Draw(t, "target"))
		if rapid.IntRange(0, 9).Draw(t, "at self") == 0 {
			target = table.self
		}
		n := rapid.IntRange(-1, 100).Draw(t, "n")
		got := table.Nearest(target, n)
		slices.SortFunc(all, func(a, b kad.Peer[peer.ID]) int { return target.Compare(a.Key, b.Key) })
		if want := all[:min(max(n, 0), len(all))]; !slices.Equal(got, want) {
			t.Fatalf("%v\nwant %v", got, want)
		}
	})
}

func TestHedgeAfter(t *testing.T) {
	t.Parallel()
	const limit = 250 * time.Millisecond
	rapid.Check(t, func(t *rapid.T) {
		table := newTable(t, numbers, newWorld().deps())
		var want kad.RTT
		for _, ms := range rapid.SliceOf(rapid.IntRange(0, 400)).Draw(t, "ms") {
			rtt := time.Duration(ms) * time.Millisecond
			if rtt > 0 {
				want.Observe(rtt)
			}
			table.applied(0, update{rtt: rtt}, "p")
		}
		if got := table.HedgeAfter("p", limit); got != want.HedgeAfter(limit) {
			t.Fatalf("%s, want %s", got, want.HedgeAfter(limit))
		}
		for _, p := range []peer.ID{"stranger", self} {
			if got := table.HedgeAfter(p, limit); got != limit {
				t.Fatalf("%s of %s", got, p)
			}
		}
	})
}

func TestIdle(t *testing.T) {
	t.Parallel()
	table := newTable(t, numbers, newWorld().deps())
	for i, p := range []peer.ID{"c", "a", "d", "b"} {
		table.answer(time.Duration(i)*time.Second, p)
	}
	table.answer(9*time.Second, "c")
	for _, test := range []struct {
		before time.Duration
		n      int
		want   []peer.ID
	}{
		{0, 9, nil},
		{time.Second, 9, nil},
		{4 * time.Second, 9, []peer.ID{"a", "d", "b"}},
		{4 * time.Second, 2, []peer.ID{"a", "d"}},
		{time.Hour, 9, []peer.ID{"a", "d", "b", "c"}},
		{time.Hour, 0, nil},
		{time.Hour, -1, nil},
	} {
		if got := table.Idle(table.epoch.Add(test.before), test.n); !slices.Equal(got, test.want) {
			t.Errorf("before %s, %d: %v, want %v", test.before, test.n, got, test.want)
		}
	}
}

// What Entries gives is the caller's.
func TestEntriesAreCopies(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.place("p", "/ip4/8.8.8.8/tcp/1")
	table := newTable(t, numbers, w.deps())
	table.answer(0, "p")
	table.Entries()[0].Groups[0] = "mine"
	if g := table.Entries()[0].Groups[0]; g != "8.8.0.0/16" {
		t.Errorf("%s", g)
	}
}

func TestFill(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		buckets    []int // entries of bucket 0, 1, …
		network    int
		have, need int
	}{
		{nil, 0, 0, 0},
		{nil, 7, 0, 7},
		{[]int{3, 2, 0, 1}, 7, 6, 7},
		{[]int{5, 3, 2, 1}, 7, 7, 7}, // more than there are
		{[]int{10, 5, 2, 1, 1}, 20, 19, 20},
		{[]int{20, 12, 5, 3}, 40, 40, 40},
		{[]int{20}, 40, 20, 40},
		{[]int{20, 20, 20, 20, 20, 20, 20, 20}, 2560, 160, 160},
		{[]int{20, 20, 0, 20, 0, 0, 0, 0}, 2560, 60, 160},
		{[]int{20, 20, 0, 20, 20, 20, 20, 20}, 80, 60, 60}, // the deeper ones are together
		{[]int{20, 20}, 1 << 62, 40, 640},
	} {
		table := newTable(t, numbers, newWorld().deps())
		for i, n := range test.buckets {
			for j := range n {
				table.put(keyNear(table.self, i, uint64(j)))
			}
		}
		if have, need := table.Fill(test.network); have != test.have || need != test.need {
			t.Errorf("%v for %d: %d of %d, want %d of %d", test.buckets, test.network, have, need, test.have, test.need)
		}
	}
}

// A table that has met everybody is ready by SPEC §5, whatever the size of the
// network, and one that has met a network of less than k has all.
func TestFillOfTheWholeNetwork(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 7, 19, 20, 30, 39, 40, 79, 80, 500, 3000} {
		table := newTable(t, numbers, newWorld().deps())
		for i := range n {
			table.answer(0, peer.ID(fmt.Sprint("member ", i)))
		}
		have, need := table.Fill(n)
		if 10*have < 9*need || n < table.cfg.K && (have != n || need != n) {
			t.Errorf("%d peers: %d of %d", n, have, need)
		}
	}
}
