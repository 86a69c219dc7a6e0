package b3

import "math/bits"

const (
	// GroupSize is the length of a chunk group, the leaf of our tree and the
	// unit of verification: 2^6 BLAKE3 chunks (SPEC §1, fixed).
	GroupSize = 64 << 10
	// ParentSize is the length of a parent: left ‖ right chaining value.
	ParentSize = 2 * Size
	// MaxSize is the largest object size that a walk accepts.
	MaxSize = 1 << 62

	// maxDepth is the number of parents above a group of an object of MaxSize,
	// and so the most subtrees that wait for their right neighbour, less one.
	maxDepth = 62 - 16
)

// Groups is the number of chunk groups of an object of size bytes: 1 for the
// empty object, whose one group is empty.
func Groups(size int64) int64 {
	if size <= GroupSize {
		return 1
	}
	return (size-1)/GroupSize + 1
}

func validSize(size int64) bool { return 0 <= size && size <= MaxSize }

// OutboardSize is the length in bytes of the outboard of an object of size
// bytes: one parent less than groups.
func OutboardSize(size int64) int64 { return ParentSize * (Groups(size) - 1) }

// groupLen is the length of group g of an object of size bytes.
func groupLen(size, g int64) int { return int(min(GroupSize, size-g*GroupSize)) }

// split is the first group of the right child of the parent over [lo, hi): the
// left child is the largest complete subtree that leaves something on its right.
func split(lo, hi int64) int64 { return lo + 1<<(bits.Len64(uint64(hi-lo-1))-1) }

// nodeIndex is the place in the outboard of the parent over groups [lo, hi) of
// an object of n groups.
//
// A complete subtree's parent follows those of the hi-1 groups before its last,
// of which every one but popcount(hi-1) roots has been merged away, and those
// below it that end with the same group. Otherwise hi is n, and the parent is on
// the right spine, whose parents close the file, deepest first.
func nodeIndex(lo, hi, n int64) int64 {
	m := uint64(hi - lo)
	if m&(m-1) == 0 {
		return parentsOf(hi-1) + int64(bits.TrailingZeros64(m)) - 1
	}
	return parentsOf(n) + int64(bits.OnesCount64(m)) - 2
}

// parentsOf is the number of parents of complete subtrees among the first n
// groups.
func parentsOf(n int64) int64 { return n - int64(bits.OnesCount64(uint64(n))) }

// NodeGroups is the inverse of a parent's place in the outboard: the groups
// [lo, hi) that parent node of an object of n groups is above. node is from 0 up
// to but without n-1.
func NodeGroups(node, n int64) (lo, hi int64) {
	if spine := node - parentsOf(n); spine >= 0 { // deepest first
		// The deepest is above the two smallest complete subtrees, each one
		// after it above one more.
		rest := uint64(n)
		for range spine + 2 {
			rest &= rest - 1
		}
		return int64(rest), n
	}
	for {
		m := int64(1) << (bits.Len64(uint64(n-lo)) - 1) // the next complete subtree, of m-1 parents
		for node < m-1 {
			switch left := m/2 - 1; {
			case node == m-2: // its own, after those of both halves
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
