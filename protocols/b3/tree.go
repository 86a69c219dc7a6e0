package b3

import "math/bits"

const (
	// GroupSize is the length of a chunk group in bytes. A group is a leaf of the
	// tree and the unit of verification: 2^6 BLAKE3 chunks (SPEC §1, fixed).
	GroupSize = 64 << 10
	// ParentSize is the length of a parent in bytes: left ‖ right chaining value.
	ParentSize = 2 * Size
	// MaxSize is the largest object size in bytes that a walk accepts.
	MaxSize = 1 << 62

	// maxDepth is the number of parents above a group of an object of MaxSize. At
	// most maxDepth+1 subtrees wait for their right neighbour.
	maxDepth = 62 - 16
)

// Groups returns the number of chunk groups of an object of size bytes. The
// empty object has one group, which is empty.
func Groups(size int64) int64 {
	if size <= GroupSize {
		return 1
	}
	return (size-1)/GroupSize + 1
}

func validSize(size int64) bool { return 0 <= size && size <= MaxSize }

// OutboardSize returns the length in bytes of the outboard of an object of size
// bytes. The object has one parent fewer than groups.
func OutboardSize(size int64) int64 { return ParentSize * (Groups(size) - 1) }

// groupLen returns the length in bytes of group g of an object of size bytes.
func groupLen(size, g int64) int { return int(min(GroupSize, size-g*GroupSize)) }

// split returns the first group of the right child of the parent over [lo, hi).
// The left child is the largest complete subtree that leaves the right child at
// least one group.
func split(lo, hi int64) int64 { return lo + 1<<(bits.Len64(uint64(hi-lo-1))-1) }

// nodeIndex returns the index in the outboard of the parent over groups [lo, hi)
// of an object of n groups.
//
// The parent of a complete subtree follows two kinds of parents. The first are
// the parents of the complete subtrees among groups [0, hi-1). The second are the
// parents below it that end with the same group.
//
// The parent of an incomplete subtree has hi = n. It is on the right spine; the
// parents of the right spine end the file, deepest first.
func nodeIndex(lo, hi, n int64) int64 {
	m := uint64(hi - lo)
	if m&(m-1) == 0 {
		return parentsOf(hi-1) + int64(bits.TrailingZeros64(m)) - 1
	}
	return parentsOf(n) + int64(bits.OnesCount64(m)) - 2
}

// parentsOf returns the number of parents of complete subtrees among the first n
// groups. n groups form popcount(n) complete subtrees; a subtree has one parent
// fewer than groups.
func parentsOf(n int64) int64 { return n - int64(bits.OnesCount64(uint64(n))) }

// NodeGroups returns the groups [lo, hi) below the parent at index node of the
// outboard of an object of n groups; 0 ≤ node < n-1.
func NodeGroups(node, n int64) (lo, hi int64) {
	if spine := node - parentsOf(n); spine >= 0 { // index on the right spine, deepest first
		// The deepest parent covers the two smallest complete subtrees. Each
		// following parent covers one more subtree.
		rest := uint64(n)
		for range spine + 2 {
			rest &= rest - 1
		}
		return int64(rest), n
	}
	for {
		m := int64(1) << (bits.Len64(uint64(n-lo)) - 1) // groups of the next complete subtree; it has m-1 parents
		for node < m-1 {
			switch left := m/2 - 1; {
			case node == m-2: // the subtree's root follows the parents of both halves
				return lo, lo + m
			case node < left:
			default:
				node -= left
				lo += m / 2
			}
			m /= 2
		}
		node -= m - 1
		lo += m
	}
}
