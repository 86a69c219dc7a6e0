package manifest

import (
	"bytes"
	"runtime"
	"testing"
)

// FuzzDecode: what decodes encodes to the same bytes, whatever else it is fed
// never panics, and the memory it takes is bounded by the size of a node.
func FuzzDecode(f *testing.F) {
	o := objects{}
	testTree(f, o)
	for _, p := range o {
		f.Add(p)
	}
	f.Add([]byte(Magic))
	f.Add([]byte(Magic + "\xa2\x00\x01\x01\x9a\xff\xff\xff\xff"))
	f.Add(hostileArray())
	f.Fuzz(func(t *testing.T, p []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		n, err := Decode(p)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > maxDecode {
			t.Fatalf("%d bytes took %d", len(p), took)
		}
		if (err == nil) != valid(t, p) {
			t.Fatalf("%x: %v", p, err)
		}
		if err != nil {
			return
		}
		if again := n.encoded(t); !bytes.Equal(again, p) {
			t.Fatalf("encoded %x, from %x", again, p)
		}
		if len(n.Refs()) > len(n.Entries)+len(n.Children) {
			t.Fatal("more refs than entries")
		}
	})
}

// maxDecode is what Decode may allocate for one node (20 times MaxNode), with
// room for what the test itself does at the same time.
const maxDecode = 24 << 20

// hostileArray is the node that takes most memory per byte: as many entries as
// the decoder allows, each with a name of its own to allocate.
func hostileArray() []byte {
	p := []byte(Magic + "\xa2\x00\x01\x01\x9a\x00\x01\xff\x00")
	return append(p, bytes.Repeat([]byte("\xa1\x00\x65names"), 0x1ff00)...)
}

// encoded is the reverse of Decode, by way of the wire types.
func (n *Node) encoded(t testing.TB) []byte {
	if !n.Index {
		return rawNode(t, kindDirectory, wires(n.Entries)...)
	}
	var items []wireEntry
	for i := range n.Children {
		items = append(items, *n.Children[i].wire())
	}
	return rawNode(t, kindIndex, items...)
}
