package manifest

import (
	"hash/maphash"
	"math/rand/v2"
	"slices"

	"allium/protocols/b3"
)

// The size of a [Seen], in places of 16 bytes.
const (
	firstSeen  = 64
	maxSeen    = 1 << 19 // 8 MiB
	seenBucket = 16      // places that one address may take
)

// Seen is a set of addresses that a walk has met. It grows to 8 MiB. From about 100,000 addresses on it forgets a
// random one for some new ones, and the walk reads that object again when it meets it. So objects that name each other
// in many ways are read once, also inside a very large tree. The zero Seen is empty. Its methods must not be called at
// the same time.
type Seen struct {
	seeds  [2]maphash.Seed
	places []digest // in buckets; zero: free
}

// digest stands for an address: 127 bits under secret seeds, so nobody can make two objects with the same one.
type digest [2]uint64

// Add adds root and reports whether it is new, or was forgotten.
func (s *Seen) Add(root b3.Root) bool {
	if s.places == nil {
		s.seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
		s.places = make([]digest, firstSeen)
	}
	d := s.digest(root)
	if s.find(d) != nil {
		return false
	}
	for !s.put(d) {
		if len(s.places) == maxSeen {
			s.bucket(d)[rand.IntN(seenBucket)] = d
			break
		}
		s.grow()
	}
	return true
}

// Has reports whether root is in the set.
func (s *Seen) Has(root b3.Root) bool { return s.places != nil && s.find(s.digest(root)) != nil }

// Forget removes root from the set.
func (s *Seen) Forget(root b3.Root) {
	if s.Has(root) {
		*s.find(s.digest(root)) = digest{}
	}
}

// Clear removes all addresses.
func (s *Seen) Clear() { s.places = nil }

func (s *Seen) digest(root b3.Root) digest {
	return digest{maphash.Bytes(s.seeds[0], root[:]), maphash.Bytes(s.seeds[1], root[:]) | 1}
}

// bucket returns the places that d may take.
func (s *Seen) bucket(d digest) []digest {
	at := d[0] % uint64(len(s.places)/seenBucket) * seenBucket
	return s.places[at : at+seenBucket]
}

// find returns the place of d, or nil.
func (s *Seen) find(d digest) *digest { return place(s.bucket(d), d) }

// put gives d a free place, and returns false if its bucket is full.
func (s *Seen) put(d digest) bool {
	free := place(s.bucket(d), digest{})
	if free != nil {
		*free = d
	}
	return free != nil
}

// place returns the place in a bucket that has d, or nil.
func place(bucket []digest, d digest) *digest {
	if i := slices.Index(bucket, d); i >= 0 {
		return &bucket[i]
	}
	return nil
}

// grow doubles the places until each address has one, or there are maxSeen.
func (s *Seen) grow() {
	old := s.places
	for lost := true; lost && len(s.places) < maxSeen; {
		s.places = make([]digest, 2*len(s.places))
		lost = false
		for _, d := range old {
			lost = d != digest{} && !s.put(d) || lost
		}
	}
}
