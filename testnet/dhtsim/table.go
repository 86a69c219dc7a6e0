package dhtsim

import (
	"cmp"
	"math/bits"
	"slices"
)

// bucketSize is k: the most peers in a bucket and in an answer.
const bucketSize = 20

// maxBuckets is enough for 2^24 nodes. Peers with a longer common prefix share the last
// bucket.
const maxBuckets = 24

// node is a simulated node. Its index in world.nodes is its id.
type node struct {
	place   uint64 // the first 8 bytes of its key, which no other node shares
	alive   bool
	buckets [maxBuckets][]int32 // ids of peers, by bits of common prefix with place
	records []int32             // content whose provider records it holds
}

// bucket returns the bucket for a peer at place.
func (n *node) bucket(place uint64) *[]int32 {
	return &n.buckets[min(bits.LeadingZeros64(n.place^place), maxBuckets-1)]
}

// learn adds peer p to the table of n if its bucket has space.
func (w *world) learn(n *node, p int32) {
	peer := &w.nodes[p]
	if peer == n {
		return
	}
	b := n.bucket(peer.place)
	if len(*b) < bucketSize && !slices.Contains(*b, p) {
		*b = append(*b, p)
	}
}

// forget removes peer p from the table of n.
func (w *world) forget(n *node, p int32) {
	b := n.bucket(w.nodes[p].place)
	if i := slices.Index(*b, p); i >= 0 {
		*b = slices.Delete(*b, i, i+1)
	}
}

// nearest returns up to k peers of the table of n, nearest to the target first. The
// result is valid until the next call.
func (w *world) nearest(n *node, target uint64) []int32 {
	w.near = w.near[:0]
	c := min(bits.LeadingZeros64(n.place^target), maxBuckets-1)
	add := func(buckets ...[]int32) {
		from := len(w.near)
		for _, b := range buckets {
			w.near = append(w.near, b...)
		}
		slices.SortFunc(w.near[from:], func(a, b int32) int {
			return cmp.Compare(w.nodes[a].place^target, w.nodes[b].place^target)
		})
	}
	// Peers of bucket c share more than c bits with the target. Peers of higher
	// buckets share c bits, and those of a lower bucket i share i bits.
	add(n.buckets[c])
	if len(w.near) < bucketSize {
		add(n.buckets[c+1:]...)
	}
	for i := c - 1; i >= 0 && len(w.near) < bucketSize; i-- {
		add(n.buckets[i])
	}
	return w.near[:min(len(w.near), bucketSize)]
}

// idealTables fills each bucket of every node with random peers.
func (w *world) idealTables() {
	sorted := slices.SortedFunc(slices.Values(w.live), func(a, b int32) int {
		return cmp.Compare(w.nodes[a].place, w.nodes[b].place)
	})
	// before returns the number of nodes whose place is below p.
	before := func(p uint64) int {
		i, _ := slices.BinarySearchFunc(sorted, p,
			func(id int32, p uint64) int { return cmp.Compare(w.nodes[id].place, p) })
		return i
	}
	for i := range w.nodes {
		n := &w.nodes[i]
		for c := range maxBuckets - 1 {
			low := (n.place ^ 1<<(63-c)) >> (63 - c) << (63 - c)
			from, to := before(low), before(low|(1<<(63-c)-1))
			if size := to - from; size <= bucketSize {
				n.buckets[c] = slices.Clone(sorted[from:to])
				continue
			}
			for len(n.buckets[c]) < bucketSize {
				w.learn(n, sorted[from+w.rng.IntN(to-from)])
			}
		}
	}
}
