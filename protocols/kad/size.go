package kad

import (
	"math"
	"math/bits"
)

// NetworkSize estimates how many peers a network has, the node itself not
// counted, by the k closest to target that a lookup found, nearest first. With
// fewer than k it is their number: the lookup found everybody. Else it is
// (k − 1) ÷ (the share of the key space that is no farther than the k-th),
// which is unbiased, at least k, and has a relative error of about 1/√k: 22 %
// for k = 20. A lookup that missed close peers, because they did not answer or
// it ran out of time, estimates too low; a target of the caller's choice keeps
// others from placing themselves around it.
func NetworkSize[P comparable](target Key, closest []Peer[P], k int) int {
	if k < 1 || len(closest) < k {
		return len(closest)
	}
	n := float64(k-1) / between(target, closest[k-1].Key).share()
	switch {
	case n >= math.MaxInt: // also when the k-th is the target
		return math.MaxInt
	case n > float64(k):
		return int(math.Round(n))
	}
	return k // also NaN: k is 1, and its one peer the target
}

// share is the part of the key space, 0 to 1, that is nearer than d.
func (d distance) share() float64 {
	var f float64
	for i, w := range d {
		f += math.Ldexp(float64(w), -64*(i+1))
	}
	return f
}

// BucketSizes is how many peers a table with buckets of k, of which it has at
// most limit, can be expected to hold in each when the network has that many
// peers besides the node: half of them have nothing in common with its key, a
// quarter one bit, and so on. Bucket i is for a common prefix of i bits, the
// last one for all longer ones. There are floor(log2(network/k)) + 1 buckets,
// at least one: those that such a network fills, but for the last. k and limit
// are 1 or more.
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
