package manifest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"allium/protocols/b3"
)

// onDisk keeps nodes out of the heap that the test measures.
type onDisk string

func (d onDisk) put(_ context.Context, p []byte) (b3.Root, error) {
	r := b3.Sum(p)
	return r, os.WriteFile(filepath.Join(string(d), r.Hex()), p, 0o600)
}

func (d onDisk) get(_ context.Context, r b3.Root) ([]byte, error) {
	return os.ReadFile(filepath.Join(string(d), r.Hex()))
}

// live is what the heap holds after a collection.
func live() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestMemoryOfALargeDirectory writes and reads 100,000 entries (8 MiB of
// nodes) and looks at the heap every now and then: it holds a few nodes, never
// the directory.
func TestMemoryOfALargeDirectory(t *testing.T) {
	const (
		entries = 100_000
		bound   = 3 << 20
	)
	disk := onDisk(t.TempDir())
	base, peak := live(), int64(0)
	look := func(i int) {
		if i%5_000 == 0 {
			peak = max(peak, live()-base)
		}
	}
	b := NewBuilder(disk.put)
	for i := range entries {
		if err := b.Add(t.Context(), numbered(i)); err != nil {
			t.Fatal(err)
		}
		look(i)
	}
	root, _, err := b.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if peak > bound {
		t.Errorf("writing held %d bytes", peak)
	}
	t.Logf("writing held at most %d KiB", peak>>10)
	peak = 0
	n := 0
	for e, err := range Entries(t.Context(), disk.get, root) {
		if err != nil {
			t.Fatal(err)
		}
		if e != numbered(n) {
			t.Fatalf("entry %d is %v", n, e)
		}
		look(n)
		n++
	}
	if n != entries {
		t.Errorf("read %d entries", n)
	}
	if peak > bound {
		t.Errorf("reading held %d bytes", peak)
	}
	t.Logf("reading held at most %d KiB", peak>>10)
}

// TestDecodeMemory bounds what the costliest nodes take.
func TestDecodeMemory(t *testing.T) {
	var links []wireEntry
	for i := range 70_000 { // the shortest entries that many can be
		links = append(links, wireEntry{Name: fmt.Sprintf("%05d", i), Kind: uint8(Link), Target: "x"})
	}
	for name, p := range map[string][]byte{
		"tiny items": hostileArray(),
		"links":      rawNode(t, kindDirectory, links...),
	} {
		if len(p) < MaxNode*8/10 || len(p) > MaxNode {
			t.Fatalf("%s: %d bytes", name, len(p))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Decode(p)
		runtime.ReadMemStats(&after)
		took := after.TotalAlloc - before.TotalAlloc
		if t.Logf("%s: %d bytes take %d (%v)", name, len(p), took, err); took > maxDecode {
			t.Errorf("%s: %d bytes take %d", name, len(p), took)
		}
	}
}

func BenchmarkBuild10k(b *testing.B) {
	entries := tenThousand()
	put := func(_ context.Context, p []byte) (b3.Root, error) { return b3.Sum(p), nil }
	b.ReportAllocs()
	for b.Loop() {
		build(b, put, standard, entries)
	}
	b.ReportMetric(float64(b.N)*float64(len(entries))/b.Elapsed().Seconds(), "entries/s")
}

func BenchmarkDecode10k(b *testing.B) {
	p := rawNode(b, kindDirectory, wires(tenThousand())...)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(p); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*1e4/b.Elapsed().Seconds(), "entries/s")
}

func BenchmarkIterate10k(b *testing.B) {
	o := objects{}
	root, _ := build(b, o.put, standard, tenThousand())
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for _, err := range Entries(b.Context(), o.get, root) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 10_000 {
			b.Fatal(n)
		}
	}
	b.ReportMetric(float64(b.N)*1e4/b.Elapsed().Seconds(), "entries/s")
}

func BenchmarkLookup(b *testing.B) {
	o := objects{}
	root, _ := build(b, o.put, standard, tenThousand())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Lookup(b.Context(), o.get, root, "file-00005000.dat"); err != nil {
			b.Fatal(err)
		}
	}
}

// TestLookupInATable: the number of names beside it changes nothing.
func TestLookupInATable(t *testing.T) {
	cost := func(n int) float64 {
		o, longest := objects{}, 0
		root, _ := build(t, o.put, standard, tenThousand()[:n])
		nodes := o.inTables(&longest)
		return testing.AllocsPerRun(10, func() {
			if _, err := nodes.Lookup(t.Context(), root, "file-00000005.dat"); err != nil {
				t.Fatal(err)
			}
		})
	}
	if few, many := cost(10), cost(10_000); many > few+4 { // the index of 10,000 is one more node
		t.Errorf("a lookup among 10,000 names allocates %v times, among 10 %v times", many, few)
	}
}

func tenThousand() []Entry {
	entries := make([]Entry, 10_000)
	for i := range entries {
		entries[i] = numbered(i)
	}
	return entries
}
