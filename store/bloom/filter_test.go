package bloom_test

import (
	"encoding/binary"
	"hash/maphash"
	"testing"

	"allium/protocols/b3"
	"allium/store/bloom"
)

func rootOf(n uint64) b3.Root { return b3.Sum(binary.LittleEndian.AppendUint64(nil, n)) }

// TestFilter: what was added or merged is always reported, and little else.
func TestFilter(t *testing.T) {
	t.Parallel()
	const n = 60_000
	seed := maphash.MakeSeed()
	f, g := bloom.NewSeeded(seed, n), bloom.NewSeeded(seed, n)
	for i := range uint64(n) {
		if i%2 == 0 {
			f.Add(rootOf(i))
		} else {
			g.Add(rootOf(i))
		}
	}
	f.Merge(g)
	wrong := 0
	for i := range uint64(n) {
		if !f.Has(rootOf(i)) {
			t.Fatalf("root %d is missing", i)
		}
		if f.Has(rootOf(n + i)) {
			wrong++
		}
	}
	if wrong > n/30 {
		t.Errorf("%d of %d roots are reported that were not added", wrong, n)
	}
}
