package kad

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// closestOf is what a lookup that misses nobody finds among n random peers.
func closestOf(rng *rand.Rand, target Key, n, k int) []Peer[int] {
	var closest []Peer[int]
	nearer := func(a, b Peer[int]) int { return target.Compare(a.Key, b.Key) }
	for id := range n {
		p := Peer[int]{ID: id}
		for w := range 4 {
			binary.BigEndian.PutUint64(p.Key[8*w:], rng.Uint64())
		}
		if len(closest) == k {
			if nearer(closest[k-1], p) < 0 {
				continue
			}
			closest = closest[:k-1]
		}
		i, _ := slices.BinarySearchFunc(closest, p, nearer)
		closest = slices.Insert(closest, i, p)
	}
	return closest
}

// The middle of many estimates is the size, and few are off by more than three
// times the error that theory tells.
func TestNetworkSize(t *testing.T) {
	t.Parallel()
	const k, rounds = 20, 201
	for _, n := range []int{2, 7, 19, 20, 21, 100, 1000, 10_000} {
		rng := rand.New(rand.NewPCG(1, uint64(n)))
		var got []int
		sum, off := 0.0, 0
		for range rounds {
			target := Hash(binary.BigEndian.AppendUint64(nil, rng.Uint64()))
			size := NetworkSize(target, closestOf(rng, target, n, k), k)
			if size < min(n, k) || n < k && size != n {
				t.Fatalf("%d for %d", size, n)
			}
			got = append(got, size)
			sum += float64(size)
			if math.Abs(float64(size-n)) > 3*float64(n)/math.Sqrt(k) {
				off++
			}
		}
		slices.Sort(got)
		if median := float64(got[rounds/2]); math.Abs(median-float64(n)) > 0.1*float64(n) {
			t.Errorf("the median for %d is %v", n, median)
		}
		// three standard errors of the mean
		if mean := sum / rounds; n > 2*k && math.Abs(mean-float64(n)) > 0.06*float64(n) {
			t.Errorf("the mean for %d is %v", n, mean)
		}
		if off > rounds/20 {
			t.Errorf("%d of %d estimates for %d are far off", off, rounds, n)
		}
	}
}

func TestNetworkSizeOfOddLookups(t *testing.T) {
	t.Parallel()
	target := Hash([]byte("target"))
	at := func(b byte, shift int) Peer[int] {
		p := Peer[int]{Key: target}
		p.Key[shift] ^= b
		return p
	}
	for name, test := range map[string]struct {
		closest []Peer[int]
		k, want int
	}{
		"nobody":                {nil, 20, 0},
		"k is nonsense":         {[]Peer[int]{at(1, 0)}, 0, 1},
		"k is 1":                {[]Peer[int]{at(0x80, 0)}, 1, 1},
		"k is 1, at the target": {[]Peer[int]{at(0, 0)}, 1, 1},
		"half the space":        {[]Peer[int]{at(1, 31), at(2, 31), at(0x80, 0)}, 3, 4},
		"only the k-th counts":  {[]Peer[int]{at(1, 31), at(2, 31), at(0x80, 0), at(0xff, 0)}, 3, 4},
		"at the target":         {[]Peer[int]{at(0, 0), at(0, 0)}, 2, math.MaxInt},
		"next to the target":    {[]Peer[int]{at(1, 31), at(2, 31)}, 2, math.MaxInt},
	} {
		if got := NetworkSize(target, test.closest, test.k); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

func TestBucketSizes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		network, k, limit int
		want              []int
	}{
		{-1, 20, 32, []int{0}},
		{0, 20, 32, []int{0}},
		{7, 20, 32, []int{7}},
		{20, 20, 32, []int{20}},
		{39, 20, 32, []int{20}},
		{40, 20, 32, []int{20, 20}},
		{10_000, 20, 32, slices.Repeat([]int{20}, 9)},
		{10_000, 20, 3, []int{20, 20, 20}},
		{math.MaxInt, 20, 32, slices.Repeat([]int{20}, 32)},
	} {
		if got := BucketSizes(test.network, test.k, test.limit); !slices.Equal(got, test.want) {
			t.Errorf("%d, %d, %d: %v, want %v", test.network, test.k, test.limit, got, test.want)
		}
	}
}

// A network whose keys lie evenly fills what is expected, all of it.
func TestBucketSizesCanBeHad(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 10_000).Draw(t, "peers")
		k := rapid.IntRange(1, 30).Draw(t, "k")
		sizes := BucketSizes(n, k, 32)
		self := Hash([]byte("self"))
		have := make([]int, len(sizes))
		for i := range n {
			key := self
			at := uint64((float64(i) + 0.5) / float64(n) * (1 << 63) * 2)
			binary.BigEndian.PutUint64(key[:], binary.BigEndian.Uint64(self[:])^at)
			have[min(self.CommonPrefix(key), len(sizes)-1)]++
		}
		for i, want := range sizes {
			if want > k || have[i] < want {
				t.Fatalf("bucket %d of %v has %d", i, sizes, have[i])
			}
		}
	})
}
