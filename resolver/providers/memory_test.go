package providers

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/test"
	ma "github.com/multiformats/go-multiaddr"

	"allium/protocols/b3"
	"allium/protocols/record"
)

// BenchmarkAnswerMemory is the memory of a remembered answer, as the heap grows and as the cache counts it:
// of an object in the node's own store, and of one that peers have.
func BenchmarkAnswerMemory(b *testing.B) {
	for _, providers := range []int{0, 1, 5} {
		b.Run(fmt.Sprintf("peers=%d", providers), func(b *testing.B) {
			const answers = 100_000
			cfg := testConfig()
			cfg.CacheEntries, cfg.CacheBytes, cfg.HedgeAfter, cfg.Deadline = answers, 1<<40, time.Minute, time.Hour
			p, err := New(cfg, Deps{
				Finder: &scriptedFinder{answers: []scripted{findsRecords(b, providers)}}, Self: testID(b),
				Has: func(context.Context, b3.Root) (bool, error) { return providers == 0, nil },
				About: func(id peer.ID) Facts {
					if providers > 0 {
						return Facts{}
					}
					return Facts{Addrs: addrs(b, 4)}
				},
			})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			tasks := &testTasks{ctx: ctx}
			var heap, counted float64
			for b.Loop() {
				before := heapInUse()
				for i := range uint64(answers) {
					if _, err := p.Resolve(ctx, tasks, rootOf(i), Query{All: providers > 0}, nil); err != nil {
						b.Fatal(err)
					}
				}
				cancel()
				tasks.wg.Wait()
				p.lookups.finder.(*scriptedFinder).asked = nil
				heap, counted = float64(heapInUse()-before)/answers, float64(p.cache.bytes.Load())/answers
				runtime.KeepAlive(p)
			}
			b.ReportMetric(heap, "heap-B/answer")
			b.ReportMetric(counted, "counted-B/answer")
		})
	}
}

// heapInUse returns the bytes of the heap that are reachable.
func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// findsRecords yields n new providers with three addresses each and a signed record.
func findsRecords(b *testing.B, n int) scripted {
	return func(_ context.Context, yield func(record.Provider, error) bool) {
		for range n {
			if !yield(record.Provider{
				AddrInfo: peer.AddrInfo{ID: testID(b), Addrs: addrs(b, 3)},
				Proof:    &record.Proof{Envelope: make([]byte, 240), PeerRecord: make([]byte, 300)},
			}, nil) {
				return
			}
		}
	}
}

func testID(b *testing.B) peer.ID {
	b.Helper()
	id, err := test.RandPeerID()
	if err != nil {
		b.Fatal(err)
	}
	return id
}

// addrs returns n addresses in memory of their own.
func addrs(b *testing.B, n int) []ma.Multiaddr {
	b.Helper()
	all := make([]ma.Multiaddr, n)
	for i := range all {
		a, err := ma.NewMultiaddr(fmt.Sprintf("/ip4/192.0.2.%d/udp/4001/quic-v1", i))
		if err != nil {
			b.Fatal(err)
		}
		all[i] = a
	}
	return all
}
