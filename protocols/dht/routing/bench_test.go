package routing

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/kad"
)

// BenchmarkNearest is the 20 nearest of 300.
func BenchmarkNearest(b *testing.B) {
	table := newTable(b, numbers, newWorld().deps())
	for i := range 300 {
		table.put(keyNear(table.self, i/20, uint64(i)))
	}
	targets := make([]kad.Key, 1024)
	for i := range targets {
		targets[i] = kad.Hash(binary.BigEndian.AppendUint32(nil, uint32(i)))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if n := len(table.Nearest(targets[i%len(targets)], 20)); n != 20 {
			b.Fatal(n)
		}
	}
}

// BenchmarkSeen is an answer of a peer that is in the table, the writers' work
// included: updates come as fast as they are taken.
func BenchmarkSeen(b *testing.B) {
	table := newTable(b, numbers, newWorld().deps())
	start(b, table)
	ids := make([]peer.ID, 100)
	for i := range ids {
		ids[i] = peer.ID(fmt.Sprintf("a peer with an id of the usual length %d", i))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		table.Seen(b.Context(), ids[i%len(ids)], time.Millisecond)
	}
}

// BenchmarkHedgeAfter is what a lookup asks for each probe.
func BenchmarkHedgeAfter(b *testing.B) {
	table := newTable(b, numbers, newWorld().deps())
	const p = peer.ID("a peer with an id of the usual length")
	table.applied(0, update{rtt: time.Millisecond}, p)
	b.ReportAllocs()
	for b.Loop() {
		if table.HedgeAfter(p, time.Second) == time.Second {
			b.Fatal("unknown")
		}
	}
}
