package store_test

import (
	"testing"

	"allium/protocols/b3"
	"allium/store"
	"allium/store/storetest"
)

// BenchmarkIngestWrite writes the items of 64 MiB, which were proved before, as
// a download of that size: what the store takes per byte, beside hashing.
func BenchmarkIngestWrite(b *testing.B) {
	const size = 64 << 20
	p := storetest.Bytes(1, size)
	items := groupsOf(b, p, 0, size/b3.GroupSize)
	s, _ := storetest.Start(b, embedded(b.TempDir()), store.Deps{})
	b.SetBytes(size)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		in, err := s.Ingest(b.Context(), items[0].Root(), size)
		if err != nil {
			b.Fatal(err)
		}
		if err := writeAll(in, items); err != nil {
			b.Fatal(err)
		}
		in.Abort(nil)
	}
}

// TestIngestAllocs writes groups that arrive: none costs an allocation, but for
// a page of the bitmap now and then.
func TestIngestAllocs(t *testing.T) {
	p := storetest.Bytes(2, 512*group)
	s, _ := storetest.Start(t, embedded(t.TempDir()), store.Deps{})
	items := groupsOf(t, p, 0, 512)
	in, err := s.Ingest(t.Context(), items[0].Root(), int64(len(p)))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Abort(nil)
	i := 0
	allocs := testing.AllocsPerRun(900, func() {
		if err := in.Write(items[i]); err != nil {
			t.Fatal(err)
		}
		i++
	})
	if allocs > 0 {
		t.Errorf("%.0f allocations for each item", allocs)
	}
}
