package resolver

import (
	"fmt"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/manifest"
	"allium/resolver/trace"
)

// rings are the ways to run a benchmark: with the record of each lookup, and without.
var rings = []struct {
	name string
	ring func() *trace.Ring
}{
	{"recorded", func() *trace.Ring { return trace.New(trace.Deps{}) }},
	{"unrecorded", func() *trace.Ring { return nil }},
}

// smallFiles is how many files a fetch of the benchmarks has.
const smallFiles = 10_000

// smallBlobs are objects of a few bytes.
func smallBlobs(n int) []*blob {
	all := make([]*blob, n)
	for i := range all {
		all[i] = newBlob(fmt.Appendf(nil, "small file %d", i))
	}
	return all
}

// BenchmarkRecordedFetches fetches 10,000 small objects one by one, each with a record of its own.
func BenchmarkRecordedFetches(b *testing.B) {
	blobs := smallBlobs(smallFiles)
	from := Sources{Peers: []peer.AddrInfo{{ID: "p"}}}
	for _, way := range rings {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				w := newWorld(b, func(_ *Config, d *Deps) { d.Trace = way.ring() })
				w.net.peer("p", blobs...)
				b.StartTimer()
				for _, blob := range blobs {
					if _, err := w.Fetch(b.Context(), blob.root, FetchOptions{Sources: from}); err != nil {
						b.Fatal(err)
					}
				}
				b.StopTimer()
				w.stop()
				b.StartTimer()
			}
			b.ReportMetric(float64(b.N)*smallFiles/b.Elapsed().Seconds(), "files/s")
		})
	}
}

// BenchmarkRecordedTree fetches a directory of 10,000 small files, which has one record.
func BenchmarkRecordedTree(b *testing.B) {
	blobs := smallBlobs(smallFiles)
	entries := make([]manifest.Entry, len(blobs))
	for i, blob := range blobs {
		entries[i] = manifest.Entry{
			Name: fmt.Sprintf("%05d", i), Kind: manifest.File, Root: blob.root, Size: int64(len(blob.data)),
		}
	}
	nodes := dir(b, entries...)
	root := nodes[len(nodes)-1].root
	from := Sources{Peers: []peer.AddrInfo{{ID: "p"}}}
	for _, way := range rings {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				w := newWorld(b, func(_ *Config, d *Deps) { d.Trace = way.ring() })
				w.net.peer("p", append(nodes, blobs...)...)
				b.StartTimer()
				if _, err := w.FetchTree(b.Context(), root, FetchOptions{Sources: from}); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				w.stop()
				b.StartTimer()
			}
			b.ReportMetric(float64(b.N)*smallFiles/b.Elapsed().Seconds(), "files/s")
		})
	}
}
