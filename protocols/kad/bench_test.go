package kad

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// BenchmarkLookup is a whole lookup of the 20 closest among 10,000 peers, each
// of which answers with 20 near the target. It is what a lookup costs beside
// its RPCs.
func BenchmarkLookup(b *testing.B) {
	target := Hash([]byte("target"))
	peers := make([]Peer[int], 10_000)
	for i := range peers {
		peers[i] = Peer[int]{ID: i, Key: Hash(binary.BigEndian.AppendUint32(nil, uint32(i)))}
	}
	slices.SortFunc(peers, func(a, b Peer[int]) int { return target.Compare(a.Key, b.Key) })
	at := make(map[int]int, len(peers))
	for i, p := range peers {
		at[p.ID] = i
	}
	// The answer of the peer at rank r: 20 of those up to rank max(r/8, 40).
	rng := rand.New(rand.NewPCG(7, 7))
	answers := make([][]Peer[int], len(peers))
	for r := range answers {
		for range 20 {
			answers[r] = append(answers[r], peers[rng.IntN(max(r/8, 40))])
		}
	}
	first := peers[2000:2020]
	b.ReportAllocs()
	probes := 0
	for seed := uint64(0); b.Loop(); seed++ {
		l, err := New(Find(), Query[int]{Target: target, Self: -1, Seed: seed})
		if err != nil {
			b.Fatal(err)
		}
		var queue []int
		take := func(actions []Action[int]) {
			for _, a := range actions {
				if a.Kind == Probe || a.Kind == Hedge {
					queue = append(queue, a.Peer.ID)
				}
			}
		}
		take(l.Start(0, first))
		for now := time.Duration(0); len(queue) > 0; now += time.Millisecond {
			p := queue[0]
			queue = queue[1:]
			take(l.Answer(now, p, Reply[int]{Closer: answers[at[p]]}))
		}
		r := l.Result()
		if r.End != Converged || len(r.Closest) != 20 {
			b.Fatalf("%+v", r)
		}
		probes += r.Probes
	}
	b.ReportMetric(float64(probes)/float64(b.N), "probes/op")
}

// BenchmarkFlood is one answer of 3,000 peers, of which k count.
func BenchmarkFlood(b *testing.B) {
	flood := make([]Peer[int], 3000)
	for i := range flood {
		flood[i] = Peer[int]{ID: i + 1, Key: Hash(binary.BigEndian.AppendUint32(nil, uint32(i)))}
	}
	b.ReportAllocs()
	for b.Loop() {
		l, err := New(Find(), Query[int]{})
		if err != nil {
			b.Fatal(err)
		}
		l.Start(0, flood[:1])
		l.Answer(0, flood[0].ID, Reply[int]{Closer: flood})
	}
}
