package kad

import (
	"math"
	"math/bits"
)

// NetworkSize estimates the number of peers in a network, without the node itself.
// closest holds the peers closest to target that a lookup found, nearest first.
//
// With fewer than k peers the result is their number: the lookup found all of them.
// Otherwise it is (k − 1) ÷ (the share of the key space no farther than the k-th
// peer). That estimate is unbiased, is at least k, and has a relative error of about
// 1/√k (22 % for k = 20). It is too low if the lookup missed close peers, because
// they did not answer or time ran out. A target that the caller chooses keeps others
// from placing themselves around it.
func NetworkSize[P comparable](target Key, closest []Peer[P], k int) int {
	if k < 1 || len(closest) < k {
		return len(closest)
	}
	n := float64(k-1) / xor(target, closest[k-1].Key).fraction()
	switch {
	case n >= math.MaxInt: // also if the k-th peer is at the target
		return math.MaxInt
	case n > float64(k):
		return int(math.Round(n))
	}
	return k // also for NaN: k is 1 and the only peer is at the target
}

// fraction returns the part of the key space, 0 to 1, that is nearer than d.
func (d distance) fraction() float64 {
	var f float64
	for i, w := range d {
		f += math.Ldexp(float64(w), -64*(i+1))
	}
	return f
}

// BucketSizes returns the number of peers that each bucket of a routing table is
// expected to hold, given the number of other peers in the network. Half of these
// peers share no leading bit with the node's key, a quarter share one bit, and so on.
// Bucket i holds a common prefix of i bits, and the last bucket every longer one. A
// bucket holds at most k peers. There are floor(log2(network/k)) + 1 buckets, at
// least one and at most limit: each but the last can fill. k and limit are 1 or
// more.
func BucketSizes(network, k, limit int) []int {
	network = max(network, 0)
	sizes := make([]int, min(max(bits.Len(uint(network/k)), 1), limit))
	for i := range sizes {
		share := network >> (i + 1)
		if i == len(sizes)-1 {
			share = network >> i
		}
		sizes[i] = min(share, k)
	}
	return sizes
}
