package dht

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	kb "github.com/libp2p/go-libp2p-kbucket"
	"github.com/libp2p/go-libp2p/core/peer"
	pstore "github.com/libp2p/go-libp2p/p2p/host/peerstore"
	"pgregory.net/rapid"

	"allium/protocols/status"
)

// world is a network of peers that know some others, in memory.
type world struct {
	knows  map[peer.ID][]peer.ID
	silent map[peer.ID]bool // accept a question and never answer

	mu       sync.Mutex
	asked    []peer.ID
	now, max int // questions at one time
	last     peer.ID
}

func (w *world) ask(ctx context.Context, p peer.ID) ([]peer.AddrInfo, bool, error) {
	w.mu.Lock()
	w.asked = append(w.asked, p)
	w.now++
	w.max = max(w.max, w.now)
	w.mu.Unlock()
	defer func() { w.mu.Lock(); w.now--; w.mu.Unlock() }()
	if w.silent[p] {
		ctx, cancel := context.WithTimeout(ctx, 1500*time.Millisecond)
		defer cancel()
		<-ctx.Done()
		return nil, false, callError(ctx, ctx.Err())
	}
	var infos []peer.AddrInfo
	for _, k := range w.knows[p] {
		infos = append(infos, peer.AddrInfo{ID: k})
	}
	return infos, p == w.last, nil
}

// newLookup gives self a routing table with those peers.
func newLookup(t testing.TB, self peer.ID, peers []peer.ID, k, alpha, hops int) *tableLookup {
	t.Helper()
	table, err := kb.NewRoutingTable(20, kb.ConvertPeerID(self), time.Hour, pstore.NewMetrics(), time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { table.Close() })
	for _, p := range peers {
		if _, err := table.TryAddPeer(p, true, false); err != nil {
			t.Fatal(err)
		}
	}
	return &tableLookup{self: self, table: table, connected: func() []peer.ID { return nil }, know: func(peer.AddrInfo) {}, drop: table.RemovePeer, k: k, alpha: alpha, hops: hops}
}

func ids(from, to int) (ps []peer.ID) {
	for i := from; i < to; i++ {
		ps = append(ps, peer.ID(fmt.Sprintf("peer-%d", i)))
	}
	return ps
}

// nearest sorts peers by distance to key.
func nearest(peers []peer.ID, key string, n int) []peer.ID {
	sorted := kb.SortClosestPeers(slices.Clone(peers), kb.ConvertKey(key))
	return sorted[:min(n, len(sorted))]
}

// TestFindAsksTheClosest: with everybody reachable over the peers that peers
// know, the k closest of all are asked, nobody twice, at most α at one time,
// and never ourselves.
func TestFindAsksTheClosest(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(rt, "n")
		k := rapid.IntRange(1, 20).Draw(rt, "k")
		alpha := rapid.IntRange(1, 5).Draw(rt, "alpha")
		key := rapid.String().Draw(rt, "key")
		self, all := peer.ID("me"), ids(0, n)
		w := &world{knows: map[peer.ID][]peer.ID{}}
		for _, p := range all {
			// The k closest of all, and lies: itself, us, and the same again.
			w.knows[p] = append(nearest(all, key, k), p, self, p)
		}
		start := all[rapid.IntRange(0, n-1).Draw(rt, "start")]
		l := newLookup(t, self, []peer.ID{start}, k, alpha, 5)
		if _, err := l.find(t.Context(), []byte(key), w.ask); err != nil {
			rt.Fatal(err)
		}
		once := map[peer.ID]bool{}
		for _, p := range w.asked {
			if once[p] || p == self {
				rt.Fatalf("%s was asked twice, or is us", p)
			}
			once[p] = true
		}
		for _, p := range nearest(all, key, k) {
			if !once[p] {
				rt.Fatalf("%s, of the %d closest, was not asked", p, k)
			}
		}
		if len(w.asked) > k+1 || w.max > alpha {
			rt.Fatalf("%d were asked, %d at one time", len(w.asked), w.max)
		}
	})
}

func TestFindNobody(t *testing.T) {
	l := newLookup(t, "me", nil, 20, 3, 5)
	if _, err := l.find(t.Context(), []byte("x"), nil); status.Of(err) != status.NoBootstrap {
		t.Errorf("got %v", err)
	}
}

// TestFindEndsAtOnce: the answer that was wanted ends the lookup, although
// another peer is silent.
func TestFindEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := ids(0, 10)
		order := nearest(all, "x", 10)
		w := &world{silent: map[peer.ID]bool{order[0]: true, order[2]: true}, last: order[5]}
		l := newLookup(t, "me", all, 20, 3, 5)
		start := time.Now()
		hops, err := l.find(t.Context(), []byte("x"), w.ask)
		if err != nil || hops != 1 {
			t.Fatalf("%d hops, %v", hops, err)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %s", took)
		}
		if w.now != 0 {
			t.Errorf("%d questions are still open", w.now)
		}
		if l.table.Size() != 10 {
			t.Error("peers that were cancelled left the table")
		}
	})
}

// TestFindSurvivesSilence: silent peers cost their timeout, leave the table,
// and the others are asked all the same.
func TestFindSurvivesSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := ids(0, 10)
		order := nearest(all, "x", 10)
		w := &world{silent: map[peer.ID]bool{order[0]: true, order[1]: true, order[2]: true}}
		l := newLookup(t, "me", all, 20, 3, 5)
		start := time.Now()
		if _, err := l.find(t.Context(), []byte("x"), w.ask); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 1500*time.Millisecond || len(w.asked) != 10 {
			t.Errorf("%d were asked in %s", len(w.asked), took)
		}
		if l.table.Size() != 7 {
			t.Errorf("%d peers are in the table", l.table.Size())
		}
	})
}

// TestFindDeadline: with silent peers alone the caller's deadline decides.
func TestFindDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := ids(0, 20)
		w := &world{silent: map[peer.ID]bool{}}
		for _, p := range all {
			w.silent[p] = true
		}
		l := newLookup(t, "me", all, 20, 3, 5)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		start := time.Now()
		_, err := l.find(ctx, []byte("x"), w.ask)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 2*time.Second {
			t.Errorf("%v after %s", err, time.Since(start))
		}
	})
}

// TestHopBudget: a chain of peers each of which knows the next, nearer one.
func TestHopBudget(t *testing.T) {
	order := nearest(ids(0, 12), "x", 12)
	slices.Reverse(order) // farthest first
	w := &world{knows: map[peer.ID][]peer.ID{}}
	for i := range order[1:] {
		w.knows[order[i]] = order[i+1 : i+2]
	}
	for _, tc := range []struct {
		hops, asked int
		want        status.Outcome
	}{{5, 5, status.HopExceeded}, {12, 12, status.OK}} {
		w.asked = nil
		l := newLookup(t, "me", order[:1], 20, 3, tc.hops)
		hops, err := l.find(t.Context(), []byte("x"), w.ask)
		if status.Of(err) != tc.want || len(w.asked) != tc.asked || hops != tc.asked {
			t.Errorf("budget %d: %d asked, %d hops, %v", tc.hops, len(w.asked), hops, err)
		}
	}
}

// TestBusyPeersStay: refusing is not being dead.
func TestBusyPeersStay(t *testing.T) {
	all := ids(0, 5)
	for _, tc := range []struct {
		err  error
		left int
	}{
		{status.Errorf(status.Busy, "full"), 5},
		{refuse(Stale, nil), 5},
		{status.Errorf(status.Upstream, "reset"), 0},
		{status.Errorf(status.Timeout, "silent"), 0},
	} {
		l := newLookup(t, "me", all, 20, 3, 5)
		_, err := l.find(t.Context(), []byte("x"), func(context.Context, peer.ID) ([]peer.AddrInfo, bool, error) { return nil, false, tc.err })
		if err != nil || l.table.Size() != tc.left {
			t.Errorf("%v: %d are left (%v)", tc.err, l.table.Size(), err)
		}
	}
}

func TestClosestOfNobody(t *testing.T) {
	for _, err := range []error{kb.ErrLookupFailure, nil} {
		l := &tableLookup{query: func(context.Context, string) ([]peer.ID, error) { return nil, err }}
		if _, err := l.closest(t.Context(), []byte("x")); status.Of(err) != status.NoBootstrap {
			t.Errorf("got %v", err)
		}
	}
}
