package manifest

import (
	"encoding/binary"
	"testing"

	"allium/protocols/b3"
)

func rootOf(n uint64) b3.Root { return b3.Sum(binary.LittleEndian.AppendUint64(nil, n)) }

// TestSeen: a set with places to spare is exact. A full one has most of what was added last, in bounded memory.
func TestSeen(t *testing.T) {
	t.Parallel()
	var s Seen
	if s.Has(rootOf(0)) {
		t.Fatal("the empty set has an address")
	}
	s.Forget(rootOf(0))
	const exact = 50_000
	for i := range uint64(exact) {
		if !s.Add(rootOf(i)) {
			t.Fatalf("address %d is not new", i)
		}
	}
	for i := range uint64(exact) {
		if s.Add(rootOf(i)) || !s.Has(rootOf(i)) {
			t.Fatalf("address %d was forgotten", i)
		}
	}
	s.Forget(rootOf(7))
	if s.Has(rootOf(7)) || !s.Add(rootOf(7)) {
		t.Error("a forgotten address is still there")
	}
	const all, last = 3 * maxSeen, 1000
	for i := range uint64(all) {
		s.Add(rootOf(i))
	}
	if len(s.places) != maxSeen {
		t.Errorf("the set has %d places, the limit is %d", len(s.places), maxSeen)
	}
	has := 0
	for i := range uint64(last) {
		if s.Has(rootOf(all - 1 - i)) {
			has++
		}
	}
	if has < last*9/10 {
		t.Errorf("a full set has %d of the last %d addresses", has, last)
	}
	s.Clear()
	if s.Has(rootOf(all - 1)) {
		t.Error("a cleared set has an address")
	}
}
