package b3

import (
	"math/bits"
	"testing"
)

func TestGroups(t *testing.T) {
	for _, tc := range []struct{ size, groups int64 }{
		{0, 1}, {1, 1}, {65535, 1}, {65536, 1}, {65537, 2}, {131072, 2}, {131073, 3},
		{1 << 30, 16384}, {1 << 40, 1 << 24}, {MaxSize - 1, 1 << 46}, {MaxSize, 1 << 46},
	} {
		if got := Groups(tc.size); got != tc.groups {
			t.Errorf("Groups(%d) = %d, want %d", tc.size, got, tc.groups)
		}
		if got, want := OutboardSize(tc.size), 64*(tc.groups-1); got != want {
			t.Errorf("OutboardSize(%d) = %d, want %d", tc.size, got, want)
		}
		last := tc.groups - 1
		if got, want := int64(groupLen(tc.size, last)), tc.size-last*GroupSize; got != want {
			t.Errorf("the last group of %d has %d bytes, want %d", tc.size, got, want)
		}
	}
}

// TestNodeIndex writes outboards down the way they come to be, and asks the
// formula for every place.
func TestNodeIndex(t *testing.T) {
	type parent struct{ lo, hi int64 }
	for n := int64(1); n <= 300; n++ {
		// Groups arrive one by one; equal neighbours merge at once. What is
		// left at the end merges from the right.
		var order, stack []parent
		merge := func() {
			a, b := stack[len(stack)-2], stack[len(stack)-1]
			stack = append(stack[:len(stack)-2], parent{a.lo, b.hi})
			order = append(order, parent{a.lo, b.hi})
		}
		for g := range n {
			stack = append(stack, parent{g, g + 1})
			for len(stack) > 1 &&
				stack[len(stack)-1].hi-stack[len(stack)-1].lo == stack[len(stack)-2].hi-stack[len(stack)-2].lo {
				merge()
			}
		}
		for len(stack) > 1 {
			merge()
		}
		if int64(len(order)) != n-1 {
			t.Fatalf("%d groups have %d parents", n, len(order))
		}
		for i, p := range order {
			if got := nodeIndex(p.lo, p.hi, n); got != int64(i) {
				t.Fatalf("of %d groups, the parent over [%d, %d) is at %d, want %d", n, p.lo, p.hi, got, i)
			}
			if lo, hi := NodeGroups(int64(i), n); lo != p.lo || hi != p.hi {
				t.Fatalf("of %d groups, parent %d is over [%d, %d), want [%d, %d)", n, i, lo, hi, p.lo, p.hi)
			}
			// The tree has it at the same place as the recursion of BLAKE3.
			mid := p.lo + 1
			for size := int64(1); p.lo+2*size < p.hi; size *= 2 {
				mid = p.lo + 2*size
			}
			if got := split(p.lo, p.hi); got != mid {
				t.Fatalf("[%d, %d) splits at %d, want %d", p.lo, p.hi, got, mid)
			}
		}
		// The form of the notes, for complete subtrees: leaf e counted from 1,
		// level k.
		for e := int64(2); e <= n; e++ {
			for k := 1; k <= bits.TrailingZeros64(uint64(e)); k++ {
				want := e - 1 - int64(bits.OnesCount64(uint64(e-1))) + int64(k) - 1
				if got := nodeIndex(e-1<<k, e, n); got != want {
					t.Fatalf("leaf %d level %d is at %d, want %d", e, k, got, want)
				}
			}
		}
	}
}

// TestNodeIndexStable: complete subtrees keep their place as an object grows.
func TestNodeIndexStable(t *testing.T) {
	for n := int64(4); n < 200; n++ {
		if a, b := nodeIndex(0, 4, n), nodeIndex(0, 4, 1<<46); a != 2 || b != 2 {
			t.Fatalf("[0, 4) of %d is at %d, of 2^46 at %d", n, a, b)
		}
	}
}
