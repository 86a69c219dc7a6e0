package kad

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// network answers questions in virtual time, each peer after its own delay.
type network struct {
	knows map[uint16][]uint16
	delay map[uint16]time.Duration // 0: never answers; negative: fails after it
	found map[uint16]int           // providers
}

type arrival struct {
	at time.Duration
	id uint16
}

// run drives a lookup to its end.
func (n *network) run(h *harness, table []Peer[uint16]) Result[uint16] {
	h.t.Helper()
	var queue []arrival
	send := func(ask []Peer[uint16]) {
		for _, p := range ask {
			if d := n.delay[p.ID]; d != 0 {
				queue = append(queue, arrival{h.now + max(d, -d), p.ID})
			}
		}
		slices.SortStableFunc(queue, func(a, b arrival) int { return int(a.at - b.at) })
	}
	send(h.begin(0, table))
	for !h.done {
		next, _ := h.l.Next()
		if len(queue) == 0 || next <= queue[0].at {
			send(h.tick(next))
			continue
		}
		a := queue[0]
		queue = queue[1:]
		if n.delay[a.id] < 0 {
			send(h.fail(a.at, a.id))
			continue
		}
		send(h.answer(a.at, a.id, Reply[uint16]{Closer: peersOf(n.knows[a.id]...), Providers: n.found[a.id]}))
	}
	for _, a := range queue { // the losers' answers come all the same
		h.answer(a.at, a.id, Reply[uint16]{Closer: peersOf(n.knows[a.id]...), Providers: 1})
	}
	return h.l.Result()
}

func drawConfig(t *rapid.T) Config {
	cfg := Config{
		K:          rapid.IntRange(1, 8).Draw(t, "k"),
		Alpha:      rapid.IntRange(1, 5).Draw(t, "alpha"),
		Beta:       rapid.IntRange(0, 3).Draw(t, "beta"),
		RPCTimeout: time.Duration(rapid.IntRange(1, 1500).Draw(t, "rpc")) * time.Millisecond,
		Deadline:   time.Duration(rapid.IntRange(1, 5000).Draw(t, "deadline")) * time.Millisecond,
		Hops:       rapid.IntRange(1, 6).Draw(t, "hops"),
		MaxProbes:  rapid.IntRange(1, 60).Draw(t, "probes"),
	}
	if rapid.Bool().Draw(t, "hedged") {
		cfg.HedgeAfter = time.Duration(rapid.IntRange(1, 400).Draw(t, "hedge")) * time.Millisecond
	}
	return cfg
}

func drawNetwork(t *rapid.T) (*network, []uint16) {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "network"), 0))
	size := rapid.IntRange(1, 60).Draw(t, "size")
	silent, fails := rapid.IntRange(0, 60).Draw(t, "silent %"), rapid.IntRange(0, 30).Draw(t, "failing %")
	n := &network{knows: map[uint16][]uint16{}, delay: map[uint16]time.Duration{}, found: map[uint16]int{}}
	var all []uint16
	for id := range uint16(size) {
		all = append(all, id)
		for range rng.IntN(12) {
			n.knows[id] = append(n.knows[id], uint16(rng.IntN(size)))
		}
		n.delay[id] = time.Duration(1+rng.IntN(500)) * time.Millisecond
		switch d := rng.IntN(100); {
		case d < silent:
			n.delay[id] = 0
		case d < silent+fails:
			n.delay[id] = -n.delay[id]
		}
		if rng.IntN(20) == 0 {
			n.found[id] = 1
		}
	}
	return n, all
}

// The invariants of the package, checked by the harness after every event.
func TestInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t)
		n, all := drawNetwork(t)
		q := Query[uint16]{Target: Hash([]byte("target")), Self: 0, Seed: rapid.Uint64().Draw(t, "seed")}
		want := rapid.IntRange(0, 3).Draw(t, "providers")
		if want > 0 {
			q.Quorum = Providers(want)
		}
		h := newHarness(t, cfg, q)
		r := n.run(h, peersOf(all[:rapid.IntRange(0, len(all)).Draw(t, "table")]...))
		if r.Took > cfg.Deadline {
			t.Fatalf("took %v, deadline %v", r.Took, cfg.Deadline)
		}
		if (r.End == Satisfied) != (want > 0 && r.Providers >= want) {
			t.Fatalf("%+v, wanted %d providers", r, want)
		}
	})
}

// In the patient mode all of the k closest answer or fail, so that the result
// is exact when everybody can be reached.
func TestPublishIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n, all := drawNetwork(t)
		var live []Peer[uint16]
		for _, id := range all {
			n.knows[id] = all
			if id != 0 && n.delay[id] > 0 {
				live = append(live, peerOf(id))
			}
		}
		cfg := Publish()
		cfg.K = 60 // the network: an answer names everybody
		q := Query[uint16]{Target: Hash([]byte("target")), Self: 0, Seed: rapid.Uint64().Draw(t, "seed")}
		h := newHarness(t, cfg, q)
		r := n.run(h, peersOf(all...))
		slices.SortFunc(live, func(a, b Peer[uint16]) int { return q.Target.Compare(a.Key, b.Key) })
		if !slices.Equal(r.Closest, live) {
			t.Fatalf("%+v, want %v", r, live)
		}
		if r.Hedges > 0 || r.Canceled > 0 {
			t.Fatalf("not patient: %+v", r)
		}
	})
}

// Same events, same actions; another seed, another order.
func TestSeed(t *testing.T) {
	t.Parallel()
	ends := map[uint16]bool{}
	for seed := range uint64(32) {
		var first [2]uint16
		for i := range first {
			h := newHarness(t, Find(), Query[uint16]{Self: 999, Seed: seed})
			var ids []uint16
			for id := range uint16(20) {
				ids = append(ids, id)
			}
			first[i] = h.begin(0, peersOf(ids...))[0].ID
		}
		if first[0] != first[1] {
			t.Fatalf("seed %d: %d, then %d", seed, first[0], first[1])
		}
		ends[first[0]] = true
	}
	if len(ends) != Find().Alpha {
		t.Errorf("%d different peers came first, want any of the α closest", len(ends))
	}
}
