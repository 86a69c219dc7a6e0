package resolver

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/manifest"
	"allium/resolver/trace"
)

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

// BenchmarkRecordedFetches is what records cost a fetch of 10,000 small objects one by one, each with a
// record of its own.
func BenchmarkRecordedFetches(b *testing.B) {
	blobs := smallBlobs(smallFiles)
	compareRings(b, blobs, func(w *world, from Sources) error {
		for _, blob := range blobs {
			if _, err := w.Fetch(b.Context(), blob.root, FetchOptions{Sources: from}); err != nil {
				return err
			}
		}
		return nil
	})
}

// BenchmarkRecordedTree is what records cost a fetch of a directory of 10,000 small files, which has one.
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
	compareRings(b, append(nodes, blobs...), func(w *world, from Sources) error {
		_, err := w.FetchTree(b.Context(), root, FetchOptions{Sources: from})
		return err
	})
}

// compareRings runs fetch in worlds with a ring and without one in turn, and reports the medians: how much
// more CPU a file takes with the ring, and how much that is of all that it takes. The network and the
// store cost nothing here, so the share of a node's fetch is far smaller.
func compareRings(b *testing.B, blobs []*blob, fetch func(w *world, from Sources) error) {
	from := Sources{Peers: []peer.AddrInfo{{ID: "p"}}}
	run := func(ring *trace.Ring) (cpu float64) {
		w := newWorld(b, func(_ *Config, d *Deps) { d.Trace = ring })
		defer w.stop()
		w.net.peer("p", blobs...)
		begun := cpuTime(b)
		if err := fetch(w, from); err != nil {
			b.Fatal(err)
		}
		return float64((cpuTime(b) - begun).Nanoseconds()) / smallFiles
	}
	run(nil) // warms both
	var with, without, more []float64
	for i := 0; b.Loop(); i++ {
		var recorded, bare float64
		if i%2 == 0 { // neither is always the one that comes first
			recorded, bare = run(trace.New(trace.Deps{})), run(nil)
		} else {
			bare, recorded = run(nil), run(trace.New(trace.Deps{}))
		}
		with, without, more = append(with, recorded), append(without, bare), append(more, recorded-bare)
	}
	for _, list := range [][]float64{with, without, more} {
		slices.Sort(list)
	}
	mid := len(more) / 2
	b.ReportMetric(without[mid], "cpu-ns/file")
	b.ReportMetric(more[mid], "record-ns/file")
	b.ReportMetric(100*more[mid]/without[mid], "record-%")
}

// cpuTime is what the process has used.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
