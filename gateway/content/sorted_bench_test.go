package content

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"allium/gateway/content/sorted"
	"allium/protocols/b3"
	"allium/protocols/manifest"
)

// BenchmarkSortedListing reads a directory of 10,000 files and sorts it by size.
func BenchmarkSortedListing(b *testing.B) {
	nodes := map[b3.Root][]byte{}
	dir := manifest.NewBuilder(func(_ context.Context, p []byte) (b3.Root, error) {
		root := b3.Sum(p)
		nodes[root] = bytes.Clone(p)
		return root, nil
	})
	for i := range maxSorted {
		name := fmt.Sprintf("IMG_%08d.jpg", i)
		size := int64(i*7919%100_003 + 1) // in no order
		e := manifest.Entry{Kind: manifest.File, Name: name, Size: size, Root: b3.Sum([]byte(name))}
		if err := dir.Add(b.Context(), e); err != nil {
			b.Fatal(err)
		}
	}
	root, _, err := dir.Close(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	from := manifest.Nodes{Parts: func(_ context.Context, root b3.Root, at int64) ([]byte, int64, error) {
		size := int64(len(nodes[root]))
		return nodes[root][at:min(at+manifestPart, size)], size, nil
	}}
	b.ReportAllocs()
	for b.Loop() {
		d, err := from.Open(b.Context(), root, "")
		if err != nil {
			b.Fatal(err)
		}
		all, err := sorted.Collect(b.Context(), d, maxSorted, func() error { return nil })
		if err != nil || all == nil {
			b.Fatal(all, err)
		}
		all.Sort(sorted.BySize, false)
	}
}
