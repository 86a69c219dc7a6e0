package dht

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"pgregory.net/rapid"

	"allium/protocols/delimited"
	"allium/protocols/dht/probes"
	"allium/protocols/kad"
	"allium/protocols/record"
	"allium/protocols/status"
)

// world is a network of peers that know some others, in memory, and the routing
// table of who looks something up in it.
type world struct {
	knows  map[peer.ID][]peer.ID
	silent map[peer.ID]bool // accept a question and never answer
	has    map[peer.ID]bool // name a provider

	friends []peer.ID // connected, and not in the table

	mu       sync.Mutex
	table    []peer.ID
	asked    []peer.ID
	now, max int // questions at one time
}

func (w *world) ask(ctx context.Context, p peer.ID) (a answer, err error) {
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
		return a, delimited.Failure(ctx, ctx.Err())
	}
	for _, k := range w.knows[p] {
		a.closer = append(a.closer, peer.AddrInfo{ID: k})
	}
	if w.has[p] {
		a.providers = []record.Provider{{Via: p}}
	}
	return a, nil
}

// Nearest implements routes.
func (w *world) Nearest(target kad.Key, n int) []kad.Peer[peer.ID] {
	return sortPeers(w.table, target, n)
}

// HedgeAfter implements routes.
func (w *world) HedgeAfter(_ peer.ID, limit time.Duration) time.Duration { return limit }

func sortPeers(ids []peer.ID, target kad.Key, n int) []kad.Peer[peer.ID] {
	peers := make([]kad.Peer[peer.ID], len(ids))
	for i, id := range ids {
		peers[i] = kadPeer(id)
	}
	slices.SortFunc(peers, func(a, b kad.Peer[peer.ID]) int { return target.Compare(a.Key, b.Key) })
	return peers[:min(n, len(peers))]
}

// nearest sorts peers by distance to key.
func nearest(ids []peer.ID, key string, n int) (sorted []peer.ID) {
	for _, p := range sortPeers(ids, kad.Hash([]byte(key)), n) {
		sorted = append(sorted, p.ID)
	}
	return sorted
}

func ids(from, to int) (ps []peer.ID) {
	for i := from; i < to; i++ {
		ps = append(ps, peer.ID(fmt.Sprintf("peer-%d", i)))
	}
	return ps
}

// lookup runs a lookup in w and waits for its last probe.
func (w *world) lookup(
	ctx context.Context,
	t testing.TB,
	key string,
	cfg kad.Config,
	quorum kad.Quorum,
) (kad.Result[peer.ID], *probes.Trace, []record.Provider, error) {
	t.Helper()
	m, err := newMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	var tasks sync.WaitGroup
	defer tasks.Wait()
	trace := &probes.Trace{}
	var found []record.Provider
	e := &engine{
		self:          "me",
		table:         w,
		connected:     func() []peer.ID { return w.friends },
		rememberAddrs: func(peer.AddrInfo) {},
		isConnected:   func(peer.ID) bool { return false },
		ignores:       func(peer.ID) bool { return false },
		tasks:         &tasks,
		m:             m,
	}
	r, err := e.run(ctx, search{
		op: opFind, key: []byte(key), cfg: cfg, quorum: quorum, ask: w.ask, trace: trace,
		found: func(_ context.Context, p record.Provider) { found = append(found, p) },
	})
	return r, trace, found, err
}

// TestLookupAsksTheClosest: with everybody reachable over the peers that peers
// know, the k closest of all are asked, nobody twice, at most α at one time,
// and never ourselves; the trace has them all.
func TestLookupAsksTheClosest(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(rt, "n")
		cfg := kad.Publish()
		cfg.K = rapid.IntRange(1, 20).Draw(rt, "k")
		cfg.Alpha = rapid.IntRange(1, 5).Draw(rt, "alpha")
		key := rapid.String().Draw(rt, "key")
		all := ids(0, n)
		w := &world{knows: map[peer.ID][]peer.ID{}, table: []peer.ID{all[rapid.IntRange(0, n-1).Draw(rt, "start")]}}
		for _, p := range all {
			// The k closest of all, and lies: itself, us, and the same again.
			w.knows[p] = append(nearest(all, key, cfg.K), p, "me", p)
		}
		r, trace, _, err := w.lookup(t.Context(), t, key, cfg, nil)
		if err != nil {
			rt.Fatal(err)
		}
		once := map[peer.ID]bool{}
		for _, p := range w.asked {
			if once[p] || p == "me" {
				rt.Fatalf("%s was asked twice, or is us", p)
			}
			once[p] = true
		}
		for i, p := range nearest(all, key, cfg.K) {
			if !once[p] || r.Closest[i].ID != p {
				rt.Fatalf("%s, of the %d closest, was not asked", p, cfg.K)
			}
		}
		if len(w.asked) > cfg.K+1 || w.max > cfg.Alpha {
			rt.Fatalf("%d were asked, %d at one time", len(w.asked), w.max)
		}
		if len(trace.Steps) != len(w.asked) || trace.End != "converged" || trace.Probes != len(w.asked) {
			rt.Fatalf("the trace is %+v", trace)
		}
		for _, s := range trace.Steps {
			if s.Outcome != "ok" || !once[s.Peer] {
				rt.Fatalf("a step is %+v", s)
			}
		}
	})
}

func TestLookupOfNobody(t *testing.T) {
	w := &world{}
	if _, trace, _, err := w.lookup(t.Context(), t, "x", kad.Find(), nil); status.Of(err) != status.NoBootstrap ||
		trace.End != "no_peers" {
		t.Errorf("got %v, %+v", err, trace)
	}
}

// TestLookupBeforeTheTableFills asks a connected peer although the routing table
// is empty.
func TestLookupBeforeTheTableFills(t *testing.T) {
	w := &world{friends: ids(1, 3)}
	if r, _, _, err := w.lookup(t.Context(), t, "x", kad.Find(), nil); err != nil || r.Hops != 1 || len(w.asked) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestLookupEndsAtOnce: the answer that was wanted ends the lookup, although
// other peers are silent; their probes are cancelled and say so.
func TestLookupEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := ids(0, 10)
		order := nearest(all, "x", 10)
		w := &world{table: all, silent: map[peer.ID]bool{order[0]: true, order[1]: true}, has: map[peer.ID]bool{}}
		for _, p := range order[2:] {
			w.has[p] = true
		}
		cfg := kad.Find()
		start := time.Now()
		r, trace, found, err := w.lookup(t.Context(), t, "x", cfg, kad.FirstProvider())
		if err != nil || r.Hops != 1 || len(found) == 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %s", took)
		}
		synctest.Wait()
		if w.now != 0 {
			t.Errorf("%d questions are still open", w.now)
		}
		outcomes := map[string]int{}
		for _, s := range trace.Steps {
			outcomes[s.Outcome]++
		}
		if outcomes["ok"] == 0 || outcomes["ok"]+outcomes["canceled"] != len(trace.Steps) || trace.End != "satisfied" {
			t.Errorf("the trace is %+v", trace)
		}
	})
}

// TestLookupHedges: silent peers are late after the hedge delay and do not hold
// up the end; without hedging they cost their timeout.
func TestLookupHedges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := ids(0, 40)
		order := nearest(all, "x", 40)
		silent := map[peer.ID]bool{order[0]: true, order[3]: true, order[5]: true}
		alive := slices.DeleteFunc(slices.Clone(order), func(p peer.ID) bool { return silent[p] })
		for _, tc := range []struct {
			cfg    kad.Config
			took   time.Duration
			hedges int
		}{
			{kad.Find(), 250 * time.Millisecond, 2},
			{kad.Publish(), 1500 * time.Millisecond, 0},
		} {
			w := &world{table: all, silent: silent, knows: map[peer.ID][]peer.ID{}}
			for _, p := range all {
				w.knows[p] = alive[:20]
			}
			start := time.Now()
			r, trace, _, err := w.lookup(t.Context(), t, "x", tc.cfg, nil)
			if took := time.Since(start); err != nil || took > 2*tc.took || took < tc.took || r.Hedges < tc.hedges ||
				len(r.Closest) != 20 {
				t.Errorf("hedge %s: %+v in %s, %v", tc.cfg.HedgeAfter, r, took, err)
			}
			for i, p := range r.Closest {
				if p.ID != alive[i] {
					t.Errorf("the %d. closest is %s", i, p.ID)
				}
			}
			hedges := 0
			for _, s := range trace.Steps {
				if s.Hedge {
					hedges++
				}
				// A spare may be on its way when the last of the k answers.
				if silent[s.Peer] == (s.Outcome == "ok") && s.Outcome != "canceled" {
					t.Errorf("a step is %+v", s)
				}
			}
			if hedges != r.Hedges || trace.Hedges != hedges {
				t.Errorf("%d hedges in the trace, %d in the result", hedges, r.Hedges)
			}
		}
	})
}

// TestLookupDeadline: with silent peers alone the lookup's deadline decides, or
// the caller's when it is earlier, or the caller's cancel.
func TestLookupDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{table: ids(0, 20), silent: map[peer.ID]bool{}}
		for _, p := range w.table {
			w.silent[p] = true
		}
		for _, tc := range []struct {
			limit time.Duration
			took  time.Duration
			end   string
			want  status.Outcome
		}{
			{time.Hour, 2 * time.Second, "timed_out", status.Timeout},
			{time.Second, time.Second, "timeout", status.Timeout},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), tc.limit)
			start := time.Now()
			_, trace, _, err := w.lookup(ctx, t, "x", kad.Find(), nil)
			if status.Of(err) != tc.want || time.Since(start) != tc.took || trace.End != tc.end {
				t.Errorf("%v after %s, %s", err, time.Since(start), trace.End)
			}
			cancel()
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		if _, trace, _, err := w.lookup(ctx, t, "x", kad.Find(), nil); !errors.Is(err, context.Canceled) ||
			trace.End != "canceled" {
			t.Errorf("%v, %+v", err, trace)
		}
	})
}

// TestSilentPeerWithinDeadline: in a network of a few peers, one that is silent does not keep a
// lookup from its end, however short the caller's deadline is.
func TestSilentPeerWithinDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{table: ids(0, 4), silent: map[peer.ID]bool{"peer-2": true}}
		for _, limit := range []time.Duration{1200 * time.Millisecond, time.Second, 100 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			start := time.Now()
			r, trace, _, err := w.lookup(ctx, t, "x", kad.Find(), nil)
			cancel()
			if err != nil || r.Answers != 3 || r.Failed != 1 || time.Since(start) != limit*3/4 {
				t.Errorf("within %s: %+v, %v after %s, %s", limit, r, err, time.Since(start), trace.End)
			}
		}
	})
}

// TestHopBudget: a chain of peers each of which knows the next, nearer one.
func TestHopBudget(t *testing.T) {
	order := nearest(ids(0, 12), "x", 12)
	slices.Reverse(order) // farthest first
	w := &world{knows: map[peer.ID][]peer.ID{}, table: order[:1]}
	for i := range order[1:] {
		w.knows[order[i]] = order[i+1 : i+2]
	}
	for _, tc := range []struct {
		hops, asked int
		want        status.Outcome
	}{{5, 5, status.HopExceeded}, {12, 12, status.OK}} {
		w.asked = nil
		cfg := kad.Find()
		cfg.Hops = tc.hops
		r, _, _, err := w.lookup(t.Context(), t, "x", cfg, nil)
		if status.Of(err) != tc.want || len(w.asked) != tc.asked || r.Hops != tc.asked {
			t.Errorf("budget %d: %d asked, %d hops, %v", tc.hops, len(w.asked), r.Hops, err)
		}
	}
}

// TestCancelledLookups: whenever a lookup is cancelled, nothing of it stays.
func TestCancelledLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, lookups := ids(0, 100), 1000
		if testing.Short() {
			lookups = 30
		}
		for i := range lookups {
			rng := rand.New(rand.NewPCG(uint64(i), 0))
			w := &world{table: all[:20], silent: map[peer.ID]bool{}, knows: map[peer.ID][]peer.ID{}}
			for _, p := range all {
				w.silent[p] = rng.IntN(3) == 0
				w.knows[p] = nearest(all, "x", 20)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.Int64N(int64(2*time.Second))))
			_, _, _, _ = w.lookup(ctx, t, "x", kad.Find(), nil) // waits for its probes
			cancel()
			synctest.Wait()
			if w.now != 0 {
				t.Fatalf("lookup %d left %d questions open", i, w.now)
			}
		}
	})
}
